"""The server's side of OAUTHBEARER (RFC 7628): the client sends a bearer token, and extensions that we ignore.

A client whose token is refused gets the reason as a challenge, acknowledges it with one byte, and is refused then.
"""

import re
from collections.abc import Callable

import msgspec

from .bearer_keys import SigningKeys
from .bearer_tokens import Bearer, BearerError
from .sasl_steps import Authenticated, Challenge, Refused, Step, user
from .scram_exchange import decode_name

MECHANISM = "OAUTHBEARER"
_ACKNOWLEDGEMENT = b"\x01"
# It repeats only single characters, because strangers send it, and a repeated group needs much memory each time.
_MESSAGE = re.compile(r"n,(?:a=(?P<authorization>[^,\0]+))?,\x01(?P<pairs>[\x01\x21-\x7E \t\r\n]*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.A-Za-z0-9]+=*)")
_TOKEN = re.compile(rb"\x01auth=\w+ +([-_~+/.A-Za-z0-9]+=*)")
_MALFORMED = "Invalid OAUTHBEARER client first message"


def names_known_key(message: bytes, keys: SigningKeys) -> bool:
    """Whether the token in a client's message names a key of the set. A message without a token needs none."""
    import jwt  # takes 40 ms with the cryptography library, and only OAUTHBEARER needs it

    token = _TOKEN.search(message)
    if token is None:
        return True
    try:
        header = jwt.get_unverified_header(token[1])
    except jwt.PyJWTError:
        return True
    return keys.find(header.get("kid"), str(header.get("alg"))) is not None


class BearerExchange:
    """One authentication of a client."""

    def __init__(self, verify: Callable[[str], Bearer]) -> None:
        """Prepares an exchange. `verify` returns whom a token names, or raises BearerError."""
        self._verify = verify
        self._refusal: Refused | None = None

    def step(self, data: bytes) -> Step:
        """Takes the client's next message."""
        if self._refusal is not None:
            if data == _ACKNOWLEDGEMENT:
                return self._refusal
            return Refused("the client did not acknowledge why its token was refused", self._refusal.message)
        try:
            message = _MESSAGE.fullmatch(data.decode())
        except UnicodeDecodeError:
            message = None
        authorization = None if message is None else decode_name(message["authorization"] or "")
        pairs = None if message is None else _pairs(message["pairs"])
        if authorization is None or pairs is None:
            return Refused("the message is malformed", _MALFORMED)
        auths = [value for name, value in pairs if name == "auth"]
        auth = _AUTH.fullmatch(auths[0]) if len(auths) == 1 else None
        if auth is None or auth["scheme"].lower() != "bearer":
            return Refused("the message has no bearer token", f"{_MALFORMED}: invalid 'auth' format")
        return self._check(auth["token"], authorization)

    def _check(self, token: str, authorization: str) -> Step:
        try:
            bearer = self._verify(token)
        except BearerError as error:
            return self._challenge(error)
        if authorization and authorization != bearer.name:
            return Refused(
                "the client wants to act as another user",
                "Authentication failed: Client requested an authorization id that is different from the token's"
                " principal name",
                bearer.name,
            )
        return Authenticated(user(bearer.name), expires_ms=bearer.expires_ms)

    def _challenge(self, error: BearerError) -> Step:
        """Tells the client why its token is refused."""
        answer = {"status": error.status}
        if error.scope is not None:
            answer["scope"] = error.scope
        encoded = msgspec.json.encode(answer)
        self._refusal = Refused(str(error), encoded.decode())
        return Challenge(encoded)


def _pairs(text: str) -> list[tuple[str, str]] | None:
    """Returns the names and values of the pairs, which each end with the separator; None if one is malformed."""
    *pairs, rest = text.split("\x01")
    found = [(name, value) for name, _, value in (each.partition("=") for each in pairs)]
    is_well_formed = not rest and all(name.isascii() and name.isalpha() and value for name, value in found)
    return found if is_well_formed else None
