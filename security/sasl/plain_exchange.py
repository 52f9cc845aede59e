"""The server's side of PLAIN (RFC 4616): a name and a password, compared with the user's SCRAM credential.

Users need no second kind of credential for PLAIN, and no password is stored. To salt a password takes milliseconds. A
password that was right a moment ago is recognised by its keyed hash, so that the next connection of a client is cheap.
"""

import hmac
from collections import OrderedDict
from collections.abc import Callable

from tailrace.security.records.user_record import ScramCredential

from .sasl_steps import ANOTHER_AUTHORIZATION_ID, Authenticated, HardWork, Refused, Step, user
from .scram_exchange import ScramLogin
from .scram_keys import fits

MECHANISM = "PLAIN"
_PARTS = 3
_WRONG = "Authentication failed: Invalid username or password"
KNOWN_MAX = 10_000
"""The number of users whose last password is recognised."""


class KnownPasswords:
    """Keyed hashes of passwords that were right, by user, for as long as the user's credential stays the same."""

    def __init__(self, secret: bytes, count_max: int = KNOWN_MAX) -> None:
        self._secret = secret
        self._count_max = count_max
        self._known: OrderedDict[str, tuple[ScramCredential, bytes]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<KnownPasswords of {len(self._known)} users>"

    def knows(self, name: str, password: str, credential: ScramCredential) -> bool:
        """Whether this password was right for this credential."""
        known = self._known.get(name)
        if known is None or known[0] != credential:
            return False
        return hmac.compare_digest(known[1], self._digest(name, password))

    def add(self, name: str, password: str, credential: ScramCredential) -> None:
        """Remembers a password that is right; forgets another user if there are too many."""
        self._known[name] = (credential, self._digest(name, password))
        self._known.move_to_end(name)
        while len(self._known) > self._count_max:
            self._known.popitem(last=False)

    def _digest(self, name: str, password: str) -> bytes:
        return hmac.digest(self._secret, f"{name}\0{password}".encode(), "sha256")


class PlainExchange:
    """One authentication of a client, which sends everything in one message."""

    def __init__(self, find: Callable[[str], ScramLogin], known: KnownPasswords) -> None:
        """Prepares an exchange. `find` returns a credential for unknown names too."""
        self._find = find
        self._known = known

    def step(self, data: bytes) -> Step | HardWork:
        """Takes the client's message."""
        try:
            parts = data.decode().split("\0")
        except UnicodeDecodeError:
            return Refused("the message is not UTF-8", "Invalid SASL/PLAIN response: it is not UTF-8")
        if len(parts) != _PARTS:
            # The message may hold a password in the wrong place, so it is not repeated.
            expected = f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {min(len(parts), _PARTS + 1)}"
            return Refused("the message is malformed", expected)
        authorization, name, password = parts
        if not name:
            return Refused("the client sent no name", "Authentication failed: username not specified")
        if not password:
            return Refused("the client sent no password", "Authentication failed: password not specified", name)
        login = self._find(name)
        if login.owner is not None and self._known.knows(name, password, login.credential):
            return _conclude(name, authorization)
        return HardWork(
            lambda: fits(login.credential, password),
            lambda is_right: self._conclude(name, password, login, authorization, is_right),
        )

    def _conclude(self, name: str, password: str, login: ScramLogin, authorization: str, is_right: bool) -> Step:
        if login.owner is None:
            return Refused("there is no such user", _WRONG, name)
        if not is_right:
            return Refused("the password is wrong", _WRONG, name)
        self._known.add(name, password, login.credential)
        return _conclude(name, authorization)


def _conclude(name: str, authorization: str) -> Step:
    if authorization and authorization != name:
        return Refused("the client wants to act as another user", ANOTHER_AUTHORIZATION_ID, name)
    return Authenticated(user(name))
