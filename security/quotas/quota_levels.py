"""Which quota applies to a client: the most specific one of Apache Kafka's eight levels.

An entity with a name wins over the default of its type, and a user wins over a client id. Each kind of limit is looked
up for itself: a client may have a produce quota from one level and a fetch quota from another. A quota of a user is
shared by all client ids of that user, a quota of a client id by all users with that client id.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tailrace.security.records.quota_record import CLIENT_ID, IP, USER, QuotaEntity, QuotaRecord

from .quota_rules import CLIENT_QUOTAS, CONNECTION_CREATION_RATE, canonical_address


class Scope(NamedTuple):
    """The clients that share what a quota allows. An empty user or client id stands for all of them."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """The limit that applies to a client, and with whom the client shares it."""

    value: float
    scope: Scope


class QuotaLevels:
    """All quotas, prepared for lookups."""

    def __init__(self, records: Iterable[QuotaRecord]) -> None:
        self._limits: dict[str, dict[QuotaEntity, float]] = {name: {} for name in CLIENT_QUOTAS}
        self._connection_rates: dict[str | None, float] = {}
        for record in records:
            kind, name = record.entity[0]
            if kind == IP:
                rate = record.values.get(CONNECTION_CREATION_RATE)
                if rate is not None:
                    self._connection_rates[None if name is None else canonical_address(name)] = rate
            else:
                for quota, value in record.values.items():
                    if quota in self._limits:
                        self._limits[quota][record.entity] = value

    @property
    def limits_clients(self) -> bool:
        """Whether any user or client id has a quota."""
        return any(self._limits.values())

    @property
    def limits_addresses(self) -> bool:
        """Whether any address has a quota."""
        return bool(self._connection_rates)

    def find(self, quota: str, user: str, client_id: str) -> Limit | None:
        """Returns the limit of a client; None if it has none."""
        limits = self._limits[quota]
        if limits:
            for entity, scope in _levels(user, client_id):
                value = limits.get(entity)
                if value is not None:
                    return Limit(value, scope)
        return None

    def connection_rate(self, address: str) -> float | None:
        """Returns how many connections a second may come from an address; None if it has no quota."""
        rates = self._connection_rates
        if not rates:
            return None
        return rates.get(canonical_address(address), rates.get(None))


def _levels(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, Scope]]:
    """Yields the entities that a client belongs to, the most specific first."""
    both, user_alone, client_alone = Scope(user, client_id), Scope(user, ""), Scope("", client_id)
    yield ((USER, user), (CLIENT_ID, client_id)), both
    yield ((USER, user), (CLIENT_ID, None)), both
    yield ((USER, user),), user_alone
    yield ((USER, None), (CLIENT_ID, client_id)), both
    yield ((USER, None), (CLIENT_ID, None)), both
    yield ((USER, None),), user_alone
    yield ((CLIENT_ID, client_id),), client_alone
    yield ((CLIENT_ID, None),), client_alone
