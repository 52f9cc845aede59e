"""The leases of SPUs: an SPU counts as online while it holds a lease, which it keeps renewing.

A broken connection alone does not make an SPU offline: a short failure of the network is no reason to elect other
leaders, but the end of the SPU's process is one. Leases are measured only by the SC's clock, from the moment at which a
renewal was received, so that no two clocks are compared.
"""

from math import inf

from msgspec import Struct

from tailrace.protocol.ids import SpuId


class Lease(Struct):
    """The lease of one SPU."""

    spu: SpuId
    incarnation: str
    ends_at: float
    has_stream: bool = True
    """Whether the process that holds the lease is connected."""


class Leases:
    """The leases of all SPUs that are online."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._leases: dict[SpuId, Lease] = {}

    @property
    def next_end(self) -> float:
        """The time at which the next lease expires if it is not renewed, or infinity if there are no leases."""
        return min((lease.ends_at for lease in self._leases.values()), default=inf)

    def seconds_left(self, spu: SpuId, now: float) -> float:
        """Returns how long the SPU's lease still lasts."""
        lease = self._leases.get(spu)
        return 0.0 if lease is None else max(lease.ends_at - now, 0.0)

    @property
    def are_any_held(self) -> bool:
        """Whether any SPU holds a lease."""
        return bool(self._leases)

    def is_held(self, spu: SpuId) -> bool:
        """Tells whether the SPU holds a lease."""
        return spu in self._leases

    def is_held_without_stream(self, spu: SpuId, incarnation: str) -> bool:
        """Tells whether this process holds the SPU's lease and is not connected."""
        lease = self._leases.get(spu)
        return lease is not None and lease.incarnation == incarnation and not lease.has_stream

    def refusal(self, spu: SpuId, incarnation: str, now: float) -> str | None:
        """Returns why the process cannot have the lease now, because another connected process holds it, or None."""
        lease = self._leases.get(spu)
        if lease is None or lease.incarnation == incarnation or not lease.has_stream or lease.ends_at <= now:
            return None
        return f"another process is SPU {spu}, and was alive {self.seconds - (lease.ends_at - now):.1f} seconds ago"

    def grant(self, spu: SpuId, incarnation: str, now: float) -> None:
        """Gives the SPU's lease to a process."""
        self._leases[spu] = Lease(spu, incarnation, now + self.seconds)

    def renew(self, spu: SpuId, incarnation: str, now: float) -> bool:
        """Renews the lease, and returns whether the process still held it."""
        lease = self._leases.get(spu)
        if lease is None or lease.incarnation != incarnation or lease.ends_at <= now:
            return False
        lease.ends_at = now + self.seconds
        return True

    def on_stream_ended(self, spu: SpuId) -> None:
        """Notes that the holder is disconnected. Its lease goes on, but another process of the SPU may get it."""
        lease = self._leases.get(spu)
        if lease is not None:
            lease.has_stream = False

    def end(self, spu: SpuId) -> Lease | None:
        """Removes and returns the SPU's lease, if there is one."""
        return self._leases.pop(spu, None)

    def expired(self, now: float) -> list[SpuId]:
        """Returns the SPUs whose leases have expired and were not removed yet."""
        return [lease.spu for lease in self._leases.values() if lease.ends_at <= now]

    def extend(self, seconds: float) -> None:
        """Extends all leases by the time during which the SC was paused, since renewals may have arrived unread."""
        for lease in self._leases.values():
            lease.ends_at += seconds
