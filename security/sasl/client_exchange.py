"""The client's side of SASL: what our own clients send with PLAIN, SCRAM and OAUTHBEARER."""

import base64
import binascii
import hmac
import re
from typing import Protocol

from .scram_exchange import encode_name
from .scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, client_proof, salt_password, server_signature

_CHALLENGE = re.compile(
    r"r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>\d{1,9})(,.*)?"
)
_HEADER = "n,,"


class ExchangeError(Exception):
    """The server has not followed the protocol, or has not proven that it knows the user."""


class ClientExchange(Protocol):
    """The client's side of one authentication."""

    def first(self) -> bytes:
        """Returns the first message."""

    def step(self, challenge: bytes) -> bytes | None:
        """Takes what the server sent. Returns the next message; None if the client is done. Raises ExchangeError."""


class PlainClient:
    """PLAIN: sends the name and the password."""

    def __init__(self, name: str, password: str) -> None:
        self._message = f"\0{name}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def step(self, challenge: bytes) -> None:
        return None


class BearerClient:
    """OAUTHBEARER: sends a token."""

    def __init__(self, token: str) -> None:
        self._message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def first(self) -> bytes:
        return self._message

    def step(self, challenge: bytes) -> bytes | None:
        """Acknowledges a challenge, which says why the token is refused."""
        return b"\x01" if challenge else None


class ScramClient:
    """SCRAM: proves that it knows the password, and checks that the server knows the user's credential."""

    def __init__(self, mechanism: str, name: str, password: str, nonce: str, *, is_token: bool = False) -> None:
        """Prepares an exchange with a new random `nonce`. With `is_token`, name and password are a delegation token."""
        extension = ",tokenauth=true" if is_token else ""
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={encode_name(name)},r={nonce}{extension}"
        self._expected: bytes | None = None
        """The signature that the server must send; None until the client has sent its proof."""

    def first(self) -> bytes:
        return f"{_HEADER}{self._bare}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        if self._expected is None:
            return self._prove(challenge)
        self._check(challenge, self._expected)
        return None

    def _prove(self, challenge: bytes) -> bytes:
        parsed = _CHALLENGE.fullmatch(challenge.decode("utf-8", "replace"))
        if parsed is None or not parsed["nonce"].startswith(self._nonce) or parsed["nonce"] == self._nonce:
            raise ExchangeError("the server's challenge is malformed")
        iterations = int(parsed["iterations"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            # Few iterations would let a false server guess the password; many would keep this client busy.
            raise ExchangeError(f"the server asks for {iterations} iterations of SCRAM, which is not allowed")
        try:
            salt = base64.b64decode(parsed["salt"], validate=True)
        except binascii.Error:
            raise ExchangeError("the server's challenge is malformed") from None
        unproven = f"c={base64.b64encode(_HEADER.encode()).decode()},r={parsed['nonce']}"
        auth_message = f"{self._bare},{challenge.decode()},{unproven}".encode()
        salted = salt_password(self._mechanism, self._password, salt, iterations)
        self._expected = server_signature(self._mechanism, salted, auth_message)
        proof = base64.b64encode(client_proof(self._mechanism, salted, auth_message)).decode()
        return f"{unproven},p={proof}".encode()

    def _check(self, final: bytes, expected: bytes) -> None:
        if not hmac.compare_digest(final.split(b",")[0], b"v=" + base64.b64encode(expected)):
            raise ExchangeError("the server does not know the password: it may be a false server")
