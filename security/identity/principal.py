"""The principal of a client: the name that access rules and quotas use for it."""

from typing import NamedTuple

USER = "User"
"""The kind of every principal that a client can have, as in Apache Kafka."""
SERVER = "Server"
"""The kind of our own servers. No client can have it, because access rules and logins name users only."""


class PrincipalError(Exception):
    """A text does not name a principal. The message is one sentence."""


class Principal(NamedTuple):
    """A kind and a name, such as `User:alice`."""

    kind: str
    name: str

    @property
    def is_server(self) -> bool:
        """Whether this is a server of the cluster, which is neither limited nor refused."""
        return self.kind == SERVER

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""The principal of a client that has not said who it is."""


def parse_principal(text: str) -> Principal:
    """Parses `User:alice`. The name may contain colons. Raises PrincipalError."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise PrincipalError(f"{text!r:.300} is not a principal: write it as User:NAME")
    return Principal(kind, name)
