"""Asks a broker over a blocking socket, with TLS and a login if it needs them, because tests need no client for it."""

import secrets
import socket
from typing import Any

from tailrace.protocol.codec.framing import SIZE, checked_size
from tailrace.protocol.codec.headers import RequestHeader, decode_response, encode_request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tailrace.security.sasl.client_exchange import ExchangeError, ScramClient

from .broker_error import BrokerError
from .client_login import MECHANISM, ClientLogin

ANSWER_SECONDS_MAX = 30.0
RESPONSE_BYTES_MAX = 1024 * 1024
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 2
_NONCE_BYTES = 24


def ask(address: str, login: ClientLogin | None, message: Any, version: int) -> Any:
    """Sends one request to the broker at `address`, and returns the response. Raises BrokerError."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), ANSWER_SECONDS_MAX) as connection:
            if login is None:
                return exchange(connection, message, version)
            with login.ssl_context().wrap_socket(connection, server_hostname=host) as encrypted:
                _log_in(encrypted, login)
                return exchange(encrypted, message, version)
    except (OSError, ExchangeError) as error:
        raise BrokerError(f"the broker at {address}: {error}") from error


def exchange(connection: socket.socket, message: Any, version: int) -> Any:
    """Sends one request, and returns the response. Raises OSError."""
    header = RequestHeader(message.API_KEY, version, correlation_id=1, client_id="tailrace.testing")
    parts: list[Any] = encode_request(header, message)
    connection.sendall(b"".join(parts))
    size = checked_size(SIZE.unpack(_receive(connection, SIZE.size))[0], RESPONSE_BYTES_MAX)
    return decode_response(message.API_KEY, version, _receive(connection, size))[1]


def check(code: int, message: str | None, what: str) -> None:
    """Raises BrokerError if a response has an error; `what` says what has failed."""
    if code:
        raise BrokerError(f"{what}: {message or ErrorCode(code).name}")


def _log_in(connection: socket.socket, login: ClientLogin) -> None:
    exchange(connection, SaslHandshakeRequest(MECHANISM), _HANDSHAKE_VERSION)
    client = ScramClient(MECHANISM, login.name, login.password, secrets.token_hex(_NONCE_BYTES))
    said: bytes | None = client.first()
    while said is not None:
        answer = exchange(connection, SaslAuthenticateRequest(said), _AUTHENTICATE_VERSION)
        check(answer.error_code, answer.error_message, f"the login of {login.name}")
        said = client.step(bytes(answer.auth_bytes))


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        more = connection.recv(count - len(received))
        if not more:
            raise ConnectionError("it closed the connection")
        received += more
    return received
