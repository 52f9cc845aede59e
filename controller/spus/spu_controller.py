"""The SPU Controller: decides which SPUs may connect, and records which ones are online."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from tailrace.controller.objects.endpoint_encryption import contradiction
from tailrace.controller.objects.objects import Spu, SpuResolution, SpuStatus
from tailrace.controller.state.actions import Action, AddSpu, DeleteSpu, Put, UpdateSpu, WithdrawStatus
from tailrace.controller.state.events import SpuConnected, SpuLost, StorageReported
from tailrace.controller.state.local_store import Change, LocalStore
from tailrace.controller.state.observed import Observed


class SpuController(Struct, frozen=True):
    """Decides about SPUs when events concern them."""

    store: LocalStore
    observed: Observed

    def on_spu(self, change: Change[Spu]) -> Iterator[Action]:
        previous, current = change.previous, change.current
        if current is None:
            assert previous is not None
            yield DeleteSpu(previous.spec.id)
            return
        yield AddSpu(current) if previous is None else UpdateSpu(current)
        yield from self._decide(current)

    def on_connection(self, event: SpuConnected | SpuLost | StorageReported) -> Iterator[Action]:
        spu = self.store.spus.get(event.spu)
        if spu is None:
            return
        if isinstance(event, SpuConnected) and self._next_status(spu) == spu.status:
            yield WithdrawStatus(spu)  # A write that marks the SPU as offline may still be waiting.
        yield from self._decide(spu)

    def reconcile(self) -> Iterator[Action]:
        for spu in self.store.spus.values():
            yield from self._decide(spu)

    def _decide(self, spu: Spu) -> Iterator[Action]:
        status = self._next_status(spu)
        if status != spu.status:
            yield Put(replace(spu, status=status))

    def _next_status(self, spu: Spu) -> SpuStatus:
        connected = self.observed.connected.get(spu.spec.id)
        if connected is not None:
            full = self.observed.full.get(spu.spec.id)
            reasons = [contradiction(spu.spec, connected.listeners, connected.private_protocol)]
            if full is not None:
                reasons.append(f"its storage is full: {full.used_bytes} of {full.size_bytes} bytes")
            return SpuStatus(
                SpuResolution.ONLINE,
                connected.incarnation,
                connected.store_incarnation,
                connected.listeners,
                connected.private,
                "; ".join(filter(None, reasons)),
                connected.private_protocol,
            )
        if not spu.is_online:
            return spu.status
        lost = self.observed.lost.get(spu.spec.id)
        if lost is None:
            if not self.observed.lease_grace_period_over:
                return spu.status  # The SPU was online before this SC became active, and may be about to connect.
            lost = "it has not been heard of since the SC started"
        return replace(spu.status, resolution=SpuResolution.OFFLINE, reason=lost)
