"""A stored delegation token. The token's HMAC, which is its password, is not stored."""

from msgspec import Struct

from .user_record import ScramCredential


class TokenRecord(Struct, frozen=True):
    """A delegation token, with which a client authenticates as the token's owner."""

    id: str
    owner: str
    """The principal as which clients with the token act, for example `User:alice`."""
    requester: str
    """The principal that created the token."""
    credentials: tuple[ScramCredential, ...]
    """What a server keeps to check the HMAC, which is the password of the token."""
    renewers: tuple[str, ...]
    """The principals that may renew the token, besides its owner."""
    issued_ms: int
    expires_ms: int
    """The time after which the token is not accepted any more, unless it is renewed before."""
    max_ms: int
    """The time beyond which the token cannot be renewed."""

    def credential(self, mechanism: str) -> ScramCredential | None:
        """Returns the credential for a mechanism, if the token has one."""
        return next((each for each in self.credentials if each.mechanism == mechanism), None)
