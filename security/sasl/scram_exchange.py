"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), with Kafka's extension for tokens.

A user that does not exist gets a challenge as well, and fails like a wrong password. The client must return the exact
nonce that it was sent (CVE-2024-56128) and the channel binding flags of its first message. We offer no channel binding,
so a client may say that it supports none ("n"), or that it believes we support none ("y").
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tailrace.security.identity.principal import Principal
from tailrace.security.records.user_record import ScramCredential

from .sasl_steps import ANOTHER_AUTHORIZATION_ID, Authenticated, Challenge, Refused, Step
from .scram_keys import ITERATIONS_MIN, keyed_hash, proves

TOKEN_EXTENSION = "tokenauth"
"""The extension with which a client says that its name is the id of a delegation token."""
# A pattern that repeats a group needs hundreds of bytes of memory for each repetition, and strangers send these
# messages. So each pattern repeats only single characters, and the rest is checked apart from it.
_NAME = r"[^,\0]+"
_NONCE = r"[\x21-\x2B\x2D-\x7E]+"
_EXTENSIONS = r"(?:,[^\0]*)?"
_FIRST = re.compile(
    rf"(?P<header>(?P<binding>[ny]|p=[A-Za-z0-9.-]+),(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>(?P<mandatory>m=[^,\0]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(
    rf"(?P<unproven>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS})),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramLogin(NamedTuple):
    """What the server knows of the name that a client gave."""

    credential: ScramCredential
    owner: Principal | None
    """The principal of a client with this credential; None if there is no such user or token."""
    expires_ms: int | None = None
    """When the token expires; None for users."""


FindLogin = Callable[[str, bool], ScramLogin]
"""Finds a user, or a delegation token if the second argument is true. It returns a credential for unknown names too."""


class ScramExchange:
    """One authentication of a client: its first message, the challenge, its proof, and our signature."""

    def __init__(self, mechanism: str, find: FindLogin, nonce: str) -> None:
        """Prepares an exchange. `nonce` is the server's part of the nonce; each exchange needs a new random one."""
        self._mechanism = mechanism
        self._find = find
        self._server_nonce = nonce
        self._challenged: _Challenged | None = None

    def step(self, data: bytes) -> Step:
        """Takes the client's next message."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return Refused("the message is not UTF-8")
        return self._begin(text) if self._challenged is None else self._finish(text, self._challenged)

    def _begin(self, text: str) -> Step:
        first = _FIRST.fullmatch(text)
        if first is None:
            return Refused("the first message is malformed")
        if first["binding"] not in ("n", "y"):
            return Refused("the client requires channel binding, which this server does not offer")
        if first["mandatory"]:
            return Refused("the first message has a mandatory extension that this server does not know")
        name, authorization = decode_name(first["name"]), decode_name(first["authorization"] or "")
        extensions = _extensions(first["extensions"])
        if name is None or authorization is None or extensions is None:
            return Refused("the first message is malformed")
        if authorization and authorization != name:
            return Refused("the client wants to act as another user", ANOTHER_AUTHORIZATION_ID, name)
        is_token = extensions.get(TOKEN_EXTENSION, "").lower() == "true"
        login = self._find(name, is_token)
        if login.credential.iterations < ITERATIONS_MIN:
            return Refused(f"the credential has fewer than {ITERATIONS_MIN} iterations", name=name)
        nonce = first["nonce"] + self._server_nonce
        salt = base64.b64encode(login.credential.salt).decode()
        challenge = f"r={nonce},s={salt},i={login.credential.iterations}"
        self._challenged = _Challenged(name, is_token, login, first["header"], first["bare"], nonce, challenge)
        return Challenge(challenge.encode())

    def _finish(self, text: str, challenged: "_Challenged") -> Step:
        name, login = challenged.name, challenged.login
        final = _FINAL.fullmatch(text)
        if final is None or _extensions(final["extensions"]) is None:
            return Refused("the final message is malformed", name=name)
        # Both comparisons are exact: a longer nonce, or one with the right end only, is another exchange.
        if not hmac.compare_digest(final["nonce"].encode(), challenged.nonce.encode()):
            return Refused("the final message has another nonce", name=name)
        binding, proof = _decoded(final["binding"]), _decoded(final["proof"])
        if binding is None or proof is None or binding != challenged.header.encode():
            return Refused("the final message has other channel binding flags than the first", name=name)
        auth_message = f"{challenged.bare},{challenged.challenge},{final['unproven']}".encode()
        is_proven = proves(login.credential, proof, auth_message)
        if login.owner is None:
            return Refused("there is no such token" if challenged.is_token else "there is no such user", name=name)
        if not is_proven:
            return Refused("the password is wrong", name=name)
        signature = keyed_hash(self._mechanism, login.credential.server_key, auth_message)
        return Authenticated(login.owner, b"v=" + base64.b64encode(signature), login.expires_ms, challenged.is_token)


class _Challenged(NamedTuple):
    """What an exchange must remember between the two messages of the client."""

    name: str
    is_token: bool
    login: ScramLogin
    header: str
    bare: str
    nonce: str
    challenge: str


def decode_name(encoded: str) -> str | None:
    """Returns a name of a message as it is; None if it is malformed.

    The protocol writes "," and "=" as "=2C" and "=3D".
    """
    if encoded.count("=") != encoded.count("=2C") + encoded.count("=3D"):
        return None
    return encoded.replace("=2C", ",").replace("=3D", "=")


def encode_name(name: str) -> str:
    """Returns a name as a message has it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def _extensions(text: str) -> Mapping[str, str] | None:
    """Returns the values of ",NAME=VALUE,NAME=VALUE"; None if that is malformed."""
    found: dict[str, str] = {}
    for each in text.split(",")[1:]:
        name, _, value = each.partition("=")
        if not (name.isascii() and name.isalpha() and value):
            return None
        found[name] = value
    return found


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
