"""Many short connections that log in, and connections of bare sockets that are encrypted or logged in.

The client is the same program for every broker. It derives the keys of SCRAM from the password once, as a client with
many connections does, so that a login costs the client little.
"""

import base64
import functools
import hashlib
import hmac
import os
import secrets
import socket
import ssl
import struct
import time

from measured import Measured
from quick_clients import SETTINGS
from raw import API_VERSIONS, Connection, string

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


def log_in_often(bootstrap: str, processes: int, seconds: float) -> Measured:
    """Measures new connections, each with what `SETTINGS` demand and one request, which some processes make at once."""
    open_connection(bootstrap).socket.close()
    ends, children = os.pipe(), []
    for _ in range(processes):
        if (child := os.fork()) == 0:
            deadline, count = time.perf_counter() + seconds, 0
            while time.perf_counter() < deadline:
                connection = open_connection(bootstrap)
                connection.call(API_VERSIONS, 0)
                connection.socket.close()
                count += 1
            os.write(ends[1], struct.pack(">i", count))
            os._exit(0)
        children.append(child)
    if any(os.waitpid(child, 0)[1] for child in children):
        raise SystemExit("a connection failed")
    counts = struct.unpack(f">{processes}i", os.read(ends[0], 4 * processes))
    return {"per_second": sum(counts) / seconds, "requests": float(sum(counts))}


def open_connection(bootstrap: str) -> Connection:
    """Connects, and shakes hands and logs in if `SETTINGS` say so."""
    connection = Connection(bootstrap)
    protocol = SETTINGS.get("security.protocol", "PLAINTEXT")
    if protocol.endswith("SSL"):
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.socket = _tls().wrap_socket(connection.socket, server_hostname=bootstrap.rpartition(":")[0])
    if protocol.startswith("SASL"):
        mechanism, user, password = (SETTINGS[f"sasl.{name}"] for name in ("mechanism", "username", "password"))
        connection.call(SASL_HANDSHAKE, 1, string(mechanism))
        if mechanism == "PLAIN":
            _authenticate(connection, f"\0{user}\0{password}".encode())
        else:
            _prove(connection, HASHES[mechanism], user, password)
    return connection


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=SETTINGS["ssl.ca.location"])


def _prove(connection: Connection, algorithm: str, user: str, password: str) -> None:
    """Logs in with SCRAM."""
    first = f"n={user},r={secrets.token_hex(16)}"
    challenge = _authenticate(connection, f"n,,{first}".encode()).decode()
    nonce, salt, iterations = (field[2:] for field in challenge.split(","))
    client_key, stored_key, server_key = _keys(algorithm, password, salt, int(iterations))
    unproven = f"c=biws,r={nonce}"
    message = f"{first},{challenge},{unproven}".encode()
    signature = hmac.digest(stored_key, message, algorithm)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    final = _authenticate(connection, f"{unproven},p={base64.b64encode(proof).decode()}".encode())
    if final != b"v=" + base64.b64encode(hmac.digest(server_key, message, algorithm)):
        raise SystemExit("the server has not proven that it knows the user")


@functools.cache
def _keys(algorithm: str, password: str, salt: str, iterations: int) -> tuple[bytes, bytes, bytes]:
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(salt), iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    return client_key, hashlib.new(algorithm, client_key).digest(), hmac.digest(salted, b"Server Key", algorithm)


def _authenticate(connection: Connection, data: bytes) -> bytes:
    """Sends bytes of the mechanism, and returns those of the server."""
    answer = connection.call(SASL_AUTHENTICATE, 0, struct.pack(">i", len(data)) + data)
    (error,) = struct.unpack_from(">h", answer)
    if error:
        raise SystemExit(f"the login was refused with error {error}")
    (length,) = struct.unpack_from(">h", answer, 2)
    return answer[2 + 2 + max(length, 0) + 4 :]
