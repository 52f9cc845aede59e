"""The steps that a server takes in an exchange of SASL: challenge the client, let it in, or refuse it."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tailrace.security.identity.principal import USER, Principal


class Challenge(NamedTuple):
    """The server sends `data`, and the client has to send more."""

    data: bytes


class Authenticated(NamedTuple):
    """The client has proven who it is."""

    principal: Principal
    data: bytes = b""
    """The last bytes that the client needs, for example the proof that the server knows the password."""
    expires_ms: int | None = None
    """When the credential expires, in milliseconds since 1970; None if it does not."""
    is_token: bool = False
    """Whether the credential is a delegation token, which may not be used to create others."""


class Refused(NamedTuple):
    """The client has not proven who it is."""

    reason: str
    """The reason for the log. It may say more than a client may know, but never holds a secret."""
    message: str | None = None
    """What the client is told; None if it is told only that its credentials are invalid."""
    name: str = ""
    """The name that the client gave, if it gave one."""


Step = Challenge | Authenticated | Refused


class HardWork(NamedTuple):
    """A computation that takes milliseconds, so that a server runs it in a thread beside its other clients."""

    compute: Callable[[], bool]
    """Computes without changing anything."""
    conclude: Callable[[bool], Step]
    """Returns the next step for the result."""


ANOTHER_AUTHORIZATION_ID = "Authentication failed: Client requested an authorization id that is different from username"
"""What a client is told that wants to act under another name."""


class SaslExchange(Protocol):
    """The server's side of one authentication."""

    def step(self, data: bytes) -> Step | HardWork:
        """Takes what the client sent, and returns what the server does. Do not call it after the last step."""


def user(name: str) -> Principal:
    """Returns the principal of a user."""
    return Principal(USER, name)
