"""What SPUs said by their connections: who is there, whose storage is full, and what the leaders last reported.

It is kept beside the Local Store and changed by the Connection Manager's events alone, so that a decision whose write
was lost can be taken again when the newer version of its object arrives: what was said is still known then.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tailrace.protocol.ids import Epoch, SpuId, TopicId

from .events import LeasesUnknownOver, LiveReplicasReported, SpuConnected, SpuLost, StorageReported
from .local_store import PartitionKey

ObservedEvent = SpuConnected | SpuLost | StorageReported | LiveReplicasReported | LeasesUnknownOver


@dataclass(frozen=True, slots=True)
class LiveReplicasReport:
    incarnation: str
    """Of the leader that reported it."""
    epoch: Epoch
    live_replicas: tuple[SpuId, ...]
    incarnations: Mapping[SpuId, str]
    """Of those that were connected then. A replica whose process has started anew since is not the one that the leader
    meant: it may have lost what the leader saw it had."""


class Observed:
    def __init__(self) -> None:
        self._connected: dict[SpuId, SpuConnected] = {}
        self._lost: dict[SpuId, str] = {}
        self._full: dict[SpuId, StorageReported] = {}
        self._reports: dict[SpuId, dict[PartitionKey, LiveReplicasReport]] = {}
        self._leases_unknown_over = False
        self.connected: Mapping[SpuId, SpuConnected] = MappingProxyType(self._connected)
        self.lost: Mapping[SpuId, str] = MappingProxyType(self._lost)
        """Why each SPU that was here is here no more."""
        self.full: Mapping[SpuId, StorageReported] = MappingProxyType(self._full)
        """What each SPU said whose storage is full."""

    @property
    def leases_unknown_over(self) -> bool:
        """Whether one lease has passed since this SC began: an SPU that has not been heard of by then is offline."""
        return self._leases_unknown_over

    def report(self, leader: SpuId, topic_id: TopicId, number: int) -> LiveReplicasReport | None:
        """The last one, of whichever of its processes."""
        reports = self._reports.get(leader)
        return None if reports is None else reports.get((topic_id, number))

    def apply(self, event: ObservedEvent) -> None:
        match event:
            case SpuConnected():
                if event.spu in self._full and self._full[event.spu].incarnation != event.incarnation:
                    del self._full[event.spu]
                self._connected[event.spu] = event
                self._lost.pop(event.spu, None)
            case SpuLost():
                now = self._connected.get(event.spu)
                if now is not None and now.incarnation == event.incarnation:  # else another process has taken over
                    del self._connected[event.spu]
                    self._lost[event.spu] = event.reason
            case StorageReported():
                now = self._connected.get(event.spu)
                if now is not None and now.incarnation == event.incarnation:
                    self._full.pop(event.spu, None)
                    if event.is_full:
                        self._full[event.spu] = event
            case LiveReplicasReported():
                self._keep(event)
            case LeasesUnknownOver():
                self._leases_unknown_over = True

    def forget(self, topic_id: TopicId, number: int, replicas: Iterable[SpuId]) -> None:
        """The partition is gone; nothing that was said of it can matter any more."""
        for spu in replicas:
            reports = self._reports.get(spu)
            if reports is not None:
                reports.pop((topic_id, number), None)

    def _keep(self, event: LiveReplicasReported) -> None:
        reporter = self._connected.get(event.spu)
        if reporter is None:
            return
        reports = self._reports.setdefault(event.spu, {})
        before = reports.get((event.topic_id, event.number))
        if before is not None and before.epoch > event.epoch:
            return
        incarnations = {
            spu: connected.incarnation
            for spu in event.live_replicas
            if (connected := self._connected.get(spu)) is not None
        }
        reports[event.topic_id, event.number] = LiveReplicasReport(
            reporter.incarnation, event.epoch, event.live_replicas, incarnations
        )
