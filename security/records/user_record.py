"""The stored credentials of a user. The user's password is not among them and cannot be computed from them."""

from msgspec import Struct

SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"


class ScramCredential(Struct, frozen=True):
    """What a server keeps to check a user's password with one mechanism, as RFC 5802 defines it."""

    mechanism: str
    """SCRAM_SHA_256 or SCRAM_SHA_512."""
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Leaves out the keys, so that they reach no log and no error message."""
        return f"ScramCredential({self.mechanism}, iterations={self.iterations})"


class UserRecord(Struct, frozen=True):
    """A user with one credential for each mechanism that the user may authenticate with."""

    name: str
    credentials: tuple[ScramCredential, ...]

    def credential(self, mechanism: str) -> ScramCredential | None:
        """Returns the credential for a mechanism, if the user has one."""
        return next((each for each in self.credentials if each.mechanism == mechanism), None)
