"""The leases of a store within this process.

They end with the process.
"""

import math

from msgspec import Struct

from .interface import Entry, LeadershipLost


class _Lease(Struct):
    version: int
    ttl_seconds: float
    deadline: float


class ProcessLeases:
    def __init__(self) -> None:
        self._by_key: dict[str, _Lease] = {}

    def grant(self, entry: Entry, ttl_seconds: float, now: float) -> None:
        self._by_key[entry.key] = _Lease(entry.version, ttl_seconds, now + ttl_seconds)

    def renew(self, entry: Entry, now: float) -> None:
        lease = self._by_key.get(entry.key)
        if lease is None or lease.version != entry.version or lease.deadline <= now:
            raise LeadershipLost(f"the lease of {entry.key} has expired")
        lease.deadline = now + lease.ttl_seconds

    def forget(self, key: str) -> None:
        """Forgets the lease of a key that was deleted, or written without a lease."""
        self._by_key.pop(key, None)

    def expired(self, now: float) -> list[tuple[str, int]]:
        """Returns the keys whose leases have expired, each with its version."""
        return [(key, lease.version) for key, lease in self._by_key.items() if lease.deadline <= now]

    def next_expiry(self) -> float:
        return min((lease.deadline for lease in self._by_key.values()), default=math.inf)
