"""Credentials of users that do not exist, so that an unknown name looks like a wrong password.

They are computed from the name and a secret of the cluster. The same name gets the same salt each time and from each
server, as a real user would.
"""

import hmac
from collections.abc import Callable

from tailrace.security.records.user_record import ScramCredential

from .scram_keys import ITERATIONS, SALT_BYTES, keyed_hash, salt_of


class UnknownUsers:
    """Makes credentials that no password fits."""

    def __init__(self, secret: Callable[[], bytes]) -> None:
        """`secret` returns the secret of the cluster, which may not be known at the beginning."""
        self._secret = secret

    def __repr__(self) -> str:
        return "<UnknownUsers>"

    def credential(self, mechanism: str, name: str) -> ScramCredential:
        """Returns the credential that the exchange for an unknown name uses."""
        secret = self._secret()
        digest = hmac.digest(secret, f"{mechanism}\0{name}".encode(), "sha512")
        return ScramCredential(
            mechanism=mechanism,
            salt=salt_of(digest[:SALT_BYTES]),
            stored_key=keyed_hash(mechanism, secret, b"stored" + digest),
            server_key=keyed_hash(mechanism, secret, b"server" + digest),
            iterations=ITERATIONS,
        )
