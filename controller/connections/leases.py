"""Who is alive: each SPU holds a lease that it renews, and until the lease ends it counts as online.

A broken connection alone does not make an SPU offline: a moment of trouble in the network is no reason to elect other
leaders; that its process has ended is one. A lease is counted here, from when its renewal was received, so no two
clocks are compared.
"""

from math import inf

from msgspec import Struct

from tailrace.protocol.ids import SpuId


class Lease(Struct):
    spu: SpuId
    incarnation: str
    ends_at: float
    has_stream: bool = True
    """Whether the process that holds it is connected."""


class Leases:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._leases: dict[SpuId, Lease] = {}

    @property
    def next_end(self) -> float:
        """When somebody's lease ends unless it is renewed; infinity when there is none."""
        return min((lease.ends_at for lease in self._leases.values()), default=inf)

    def seconds_left(self, spu: SpuId, now: float) -> float:
        lease = self._leases.get(spu)
        return 0.0 if lease is None else max(lease.ends_at - now, 0.0)

    @property
    def are_any_held(self) -> bool:
        return bool(self._leases)

    def is_held(self, spu: SpuId) -> bool:
        return spu in self._leases

    def is_left(self, spu: SpuId, incarnation: str) -> bool:
        """Whether that process has the lease, and is not connected."""
        lease = self._leases.get(spu)
        return lease is not None and lease.incarnation == incarnation and not lease.has_stream

    def refusal(self, spu: SpuId, incarnation: str, now: float) -> str | None:
        """Why a process cannot have the lease now: another one of that id is connected and alive."""
        lease = self._leases.get(spu)
        if lease is None or lease.incarnation == incarnation or not lease.has_stream or lease.ends_at <= now:
            return None
        return f"another process is SPU {spu}, and was alive {self.seconds - (lease.ends_at - now):.1f} seconds ago"

    def grant(self, spu: SpuId, incarnation: str, now: float) -> None:
        self._leases[spu] = Lease(spu, incarnation, now + self.seconds)

    def renew(self, spu: SpuId, incarnation: str, now: float) -> bool:
        """False: the lease is not that process's any more."""
        lease = self._leases.get(spu)
        if lease is None or lease.incarnation != incarnation or lease.ends_at <= now:
            return False
        lease.ends_at = now + self.seconds
        return True

    def stream_ended(self, spu: SpuId) -> None:
        """The lease goes on; whoever comes with the same id may have it."""
        lease = self._leases.get(spu)
        if lease is not None:
            lease.has_stream = False

    def end(self, spu: SpuId) -> Lease | None:
        return self._leases.pop(spu, None)

    def ended(self, now: float) -> list[SpuId]:
        """Those whose lease has run out and is still to be taken from them."""
        return [lease.spu for lease in self._leases.values() if lease.ends_at <= now]

    def extend(self, seconds: float) -> None:
        """Nobody's lease runs while we do not look: renewals may have come that we have not read yet."""
        for lease in self._leases.values():
            lease.ends_at += seconds
