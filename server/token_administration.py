"""The interface through which handlers create, renew, expire and list delegation tokens."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tailrace.security.identity.principal import Principal
from tailrace.security.records.token_record import TokenRecord


class IssuedToken(NamedTuple):
    """A delegation token with its HMAC, which is its password."""

    record: TokenRecord
    hmac: bytes

    def __repr__(self) -> str:
        return f"IssuedToken({self.record.id})"


class TokenAdministration(Protocol):
    """Changes delegation tokens. Each call raises KafkaError if it refuses; the mirror has the changes by its end."""

    async def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], lifetime_ms: int
    ) -> IssuedToken:
        """Creates a token; -1 as the lifetime stands for the configured one."""

    async def renew(self, token_hmac: bytes, principal: Principal, period_ms: int) -> int:
        """Renews a token on behalf of a principal, and returns when it expires; -1 stands for the configured period."""

    async def expire(self, token_hmac: bytes, principal: Principal, period_ms: int) -> int:
        """Sets when a token expires, and returns that time. A negative period removes the token at once."""

    def issued(self) -> list[IssuedToken]:
        """Returns all tokens that have not expired."""
