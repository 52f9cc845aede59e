"""Decides that a lease has expired: its holder has not renewed it for its whole duration, as this process has seen.

No clocks are compared. A holder counts its lease from the moment at which it sent the last renewal. An observer counts
from a later moment, at which it saw that renewal. So the holder stops first.
"""

from msgspec import Struct

from .transaction_log import Lease


class _Sighting(Struct, frozen=True):
    version: str
    since: float


class LeaseObserver:
    def __init__(self) -> None:
        self._seen: dict[str, _Sighting] = {}

    def is_expired(self, lease: Lease, version: str, now: float) -> bool:
        """Takes in the version of the lease's object, and tells whether it has been the same for the whole duration."""
        seen = self._seen.get(lease.name)
        if seen is None or seen.version != version:
            self._seen[lease.name] = seen = _Sighting(version, now)
        return now - seen.since >= lease.seconds

    def keep_only(self, names: set[str]) -> None:
        """Forgets all other leases."""
        for name in self._seen.keys() - names:
            del self._seen[name]
