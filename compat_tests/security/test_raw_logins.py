"""Logins request by request: what a broker answers, and when it closes the connection."""

import base64
import hashlib
import hmac
import struct
from collections.abc import Callable, Iterator

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from raw import API_VERSIONS, METADATA, Connection, connect, request
from raw_messages import ask, authenticate, log_in, shake
from security.guarded import PASSWORD, USER, GuardedBroker

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, UNSUPPORTED_VERSION, SASL_AUTHENTICATION_FAILED = 33, 34, 35, 58
RIGHT = f"\0{USER}\0{PASSWORD}".encode()
WRONG = "Authentication failed: Invalid username or password"
WRONG_SCRAM = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"


@pytest.fixture
def client(guarded: GuardedBroker) -> Iterator[Connection]:
    """Yields a new connection to the listener with logins."""
    with connect(guarded.login_address) as connection:
        yield connection


@pytest.fixture
def stranger(guarded: GuardedBroker) -> Iterator[Connection]:
    """Yields a new connection to the listener without logins."""
    with connect(guarded.open_address) as connection:
        yield connection


def is_served(connection: Connection) -> bool:
    return bool(ask(connection, MetadataRequest(topics=[]), MetadataResponse, 8).brokers)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", ["UNKNOWN", "plain", "", "GSSAPI", "SCRAM-SHA-1"])
def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(
    client: Connection, mechanism: str, version: int
) -> None:
    """testDisabledMechanism, testInvalidMechanism"""
    assert shake(client, mechanism, version) == (UNSUPPORTED_SASL_MECHANISM, MECHANISMS)
    assert client.is_closed_by_broker()


def test_a_second_handshake_is_refused(client: Connection) -> None:
    assert shake(client, "PLAIN") == (0, MECHANISMS)
    assert shake(client, "PLAIN")[0] == ILLEGAL_SASL_STATE
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("sent", [request(METADATA, 1, b"\0\0\0\0"), request(36, 1, b"\0\0\0\1x")])
def test_nothing_else_is_served_before_the_login(client: Connection, sent: bytes) -> None:
    """testDisallowedKafkaRequestsBeforeAuthentication; the second request is SaslAuthenticate."""
    client.send(sent)
    assert client.is_closed_by_broker()


def test_an_unknown_version_of_api_versions_does_not_end_the_login(client: Connection) -> None:
    """testApiVersionsRequestWithServerUnsupportedVersion"""
    client.send(struct.pack(">ihhihb", 11, API_VERSIONS, 99, 1, -1, 0))
    assert client.receive()[1][:2] == struct.pack(">h", UNSUPPORTED_VERSION)
    log_in(client, USER, PASSWORD)
    assert is_served(client)


def test_a_login_without_a_handshake_changes_nothing(client: Connection) -> None:
    log_in(client, USER, PASSWORD)
    assert authenticate(client, RIGHT)[0] == ILLEGAL_SASL_STATE
    assert is_served(client)


def test_a_listener_without_logins_says_so(stranger: Connection) -> None:
    for mechanism in ("PLAIN", "UNKNOWN"):
        assert shake(stranger, mechanism) == (ILLEGAL_SASL_STATE, [])
    assert authenticate(stranger, RIGHT)[0] == ILLEGAL_SASL_STATE
    assert is_served(stranger)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain_logs_in_with_every_version(client: Connection, version: int) -> None:
    assert shake(client, "PLAIN")[0] == 0
    assert authenticate(client, RIGHT, version) == (0, "", b"")
    assert is_served(client)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"\0alice\0wrong", WRONG),
        (b"\0nobody\0wrong", WRONG),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_plain_refuses_what_is_wrong_in_the_same_words(client: Connection, sent: bytes, message: str) -> None:
    """testInvalidPasswordSaslPlain, testMissingUsernameSaslPlain and others"""
    assert shake(client, "PLAIN")[0] == 0
    assert authenticate(client, sent) == (SASL_AUTHENTICATION_FAILED, message, b"")
    assert client.is_closed_by_broker()


def test_older_clients_send_bytes_without_headers(client: Connection, guarded: GuardedBroker) -> None:
    """oldSaslPlain…ClientWithoutSaslAuthenticateHeader, and its failure"""
    assert shake(client, "PLAIN", 0)[0] == 0
    client.send(struct.pack(">i", len(RIGHT)) + RIGHT)
    assert client.receive_exactly(4) == bytes(4)
    assert is_served(client)
    with connect(guarded.login_address) as other:
        assert shake(other, "PLAIN", 0)[0] == 0
        other.send(struct.pack(">i", 12) + b"\0alice\0wrong")
        assert other.is_closed_by_broker()


@pytest.mark.parametrize(
    "sent",
    [
        b"garbage",
        b"",
        b"n,,n=alice,r=",
        b"n,,n=,r=abc",
        b"n,,n=al=ce,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
    ],
)
def test_a_malformed_first_message_of_scram_is_refused(client: Connection, sent: bytes) -> None:
    assert shake(client, "SCRAM-SHA-256")[0] == 0
    assert authenticate(client, sent) == (SASL_AUTHENTICATION_FAILED, WRONG_SCRAM, b"")
    assert client.is_closed_by_broker()


def test_another_authorization_id_is_refused_by_scram(client: Connection) -> None:
    assert shake(client, "SCRAM-SHA-256")[0] == 0
    message = "Authentication failed: Client requested an authorization id that is different from username"
    assert authenticate(client, b"n,a=bob,n=alice,r=abc") == (SASL_AUTHENTICATION_FAILED, message, b"")
    assert client.is_closed_by_broker()


def scram(client: Connection, user: str, password: str, change: Callable[[str], str] = str) -> tuple[int, str, bytes]:
    """Logs in with SCRAM-SHA-256 and returns the last answer; `change` edits what the client signs."""
    nonce = "fyko+d2lbbFgONRv9qkxdawL"
    code, message, data = authenticate(client, f"n,,n={user},r={nonce}".encode())
    if code:
        return code, message, data
    parts = dict(part.split("=", 1) for part in data.decode().split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    last = change(f"c=biws,r={parts['r']}")
    signed = f"n={user},r={nonce},{data.decode()},{last}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, signature, strict=True))).decode()
    return authenticate(client, f"{last},p={proof}".encode())


def test_scram_logs_in(client: Connection) -> None:
    assert shake(client, "SCRAM-SHA-256")[0] == 0
    code, _, data = scram(client, USER, PASSWORD)
    assert (code, data[:2]) == (0, b"v=")
    assert is_served(client)


@pytest.mark.parametrize(
    ("user", "password", "change"),
    [
        (USER, "wrong", str),
        ("nobody", PASSWORD, str),
        (USER, PASSWORD, lambda last: last.replace("r=fyko", "r=fyk0")),
    ],
    ids=["wrong password", "unknown user", "cve_2024_56128"],
)
def test_scram_refuses_what_is_wrong_in_the_same_words(
    client: Connection, user: str, password: str, change: Callable[[str], str]
) -> None:
    """testInvalidPasswordSaslScram, testUnknownUserSaslScram; CVE-2024-56128: a proof with another nonce"""
    assert shake(client, "SCRAM-SHA-256")[0] == 0
    assert scram(client, user, password, change) == (SASL_AUTHENTICATION_FAILED, WRONG_SCRAM, b"")
    assert client.is_closed_by_broker()
