"""Requests that no client sends, with the messages of kafka-python: they share no codec with the broker under test."""

import struct
from typing import Any

from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from raw import Connection


def ask(connection: Connection, request: Any, response: Any, version: int) -> Any:
    """Sends a request of kafka-python in a version, and returns the response."""
    request.API_VERSION = version
    request.with_header(1, "raw")
    connection.send(request.encode(version, header=True, framed=True))
    (size,) = struct.unpack(">i", connection.receive_exactly(4))
    return response.decode(connection.receive_exactly(size), version=version, header=True)


def shake(connection: Connection, mechanism: str, version: int = 1) -> tuple[int, list[str]]:
    """Chooses a mechanism; returns the error and the mechanisms that the broker knows."""
    response = ask(connection, SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, version)
    return response.error_code, sorted(response.mechanisms)


def authenticate(connection: Connection, data: bytes, version: int = 2) -> tuple[int, str, bytes]:
    """Sends the bytes of a mechanism; returns the error, its message and the bytes of the broker."""
    response = ask(connection, SaslAuthenticateRequest(auth_bytes=data), SaslAuthenticateResponse, version)
    return response.error_code, response.error_message or "", bytes(response.auth_bytes or b"")


def log_in(connection: Connection, user: str, password: str) -> None:
    assert shake(connection, "PLAIN")[0] == 0
    assert authenticate(connection, f"\0{user}\0{password}".encode())[0] == 0
