"""What SPUs said by their connections: who is there, whose storage is full, and what was said of partitions.

It is kept beside the Local Store and changed by the Connection Manager's events alone, so that a decision whose write
was lost can be taken again when the newer version of its object arrives: what was said is still known then.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from tailrace.controller.objects.objects import Spu
from tailrace.protocol.ids import Epoch, SpuId

from .events import (
    FailedReplica,
    LeaderSilent,
    LeaseGracePeriodOver,
    LiveReplicasReported,
    LogEndsReported,
    ReplicaFailed,
    ReplicaOpened,
    ShelvesReported,
    SpuConnected,
    SpuLost,
    SpusAway,
    StorageReported,
)
from .local_store import PartitionKey

ObservedEvent = (
    SpuConnected
    | SpuLost
    | StorageReported
    | LiveReplicasReported
    | ShelvesReported
    | LogEndsReported
    | LeaderSilent
    | ReplicaFailed
    | ReplicaOpened
    | SpusAway
    | LeaseGracePeriodOver
)


class ReportedLogEnd(Struct, frozen=True):
    incarnation: str
    """Of the process that said it."""
    epoch: Epoch
    """Of the partition when it was asked."""
    log_end: int | None
    """None: it will be said later, the log is being opened."""


class FailedStorage(Struct, frozen=True):
    incarnation: str
    """Of the process that said it."""
    epoch: Epoch
    """It leads in none up to this one any more, whatever becomes of its log."""
    has_opened: bool = False
    """The log is well again, and it may be elected."""


class PartitionReports(Struct):
    """What was said of one partition."""

    live_replicas: LiveReplicasReported | None = None
    """The last report of a leader about its live replicas."""
    shelves: ShelvesReported | None = None
    """What a leader said of shelves last, until that is how they are."""
    log_ends: dict[SpuId, ReportedLogEnd] = field(default_factory=dict)
    """While there is an election."""
    silent: dict[SpuId, str] = field(default_factory=dict)
    """Those that did not respond in this round of elections, each with its incarnation."""
    failed: dict[SpuId, FailedStorage] = field(default_factory=dict)
    """Those whose storage has failed, until another process looks at it again."""

    def has_failed(self, spu: Spu) -> bool:
        """Whether its storage cannot be used, in the process that there is."""
        failure = self._failure_of(spu)
        return failure is not None and not failure.has_opened

    def has_given_up(self, spu: Spu, epoch: Epoch) -> bool:
        """Whether it does not lead in that epoch, in the process that there is."""
        failure = self._failure_of(spu)
        return failure is not None and (epoch <= failure.epoch or not failure.has_opened)

    def _failure_of(self, spu: Spu) -> FailedStorage | None:
        failure = self.failed.get(spu.spec.id)
        return failure if failure is not None and failure.incarnation == spu.status.incarnation else None


class Observed:
    def __init__(self) -> None:
        self._connected: dict[SpuId, SpuConnected] = {}
        self._lost: dict[SpuId, str] = {}
        self._full: dict[SpuId, StorageReported] = {}
        self._reports: dict[PartitionKey, PartitionReports] = {}
        self._lease_grace_period_over = False
        self.away: frozenset[SpuId] = frozenset()
        """Those that have been offline for long."""
        self.failed: frozenset[FailedReplica] = frozenset()
        """Replicas whose disks failed long ago."""
        self.with_failed_disks: frozenset[SpuId] = frozenset()
        """The SPUs that have, or had, these replicas."""
        self.connected: Mapping[SpuId, SpuConnected] = MappingProxyType(self._connected)
        self.lost: Mapping[SpuId, str] = MappingProxyType(self._lost)
        """Why each SPU that was here is here no more."""
        self.full: Mapping[SpuId, StorageReported] = MappingProxyType(self._full)
        """What each SPU said whose storage is full."""

    @property
    def lease_grace_period_over(self) -> bool:
        """Whether one lease has passed since this SC began, or since the first SPU came when there was none any more,
        or none yet: an SPU that has not been heard of by then is offline."""
        return self._lease_grace_period_over

    def reports_of(self, key: PartitionKey) -> PartitionReports:
        """Of that partition, so far."""
        return self._reports.get(key) or PartitionReports()

    def apply(self, event: ObservedEvent) -> None:
        match event:
            case SpuConnected():
                if event.spu in self._full and self._full[event.spu].incarnation != event.incarnation:
                    del self._full[event.spu]
                self._lease_grace_period_over &= bool(self._connected)
                self._connected[event.spu] = event
                self._lost.pop(event.spu, None)
            case SpuLost():
                if self._runs(event.spu, event.incarnation):  # else another process has taken over
                    del self._connected[event.spu]
                    self._lost[event.spu] = event.reason
                    self._lease_grace_period_over &= bool(self._connected)
            case StorageReported():
                if self._runs(event.spu, event.incarnation):
                    self._full.pop(event.spu, None)
                    if event.is_full:
                        self._full[event.spu] = event
            case LiveReplicasReported():
                self._keep_report(event)
            case ShelvesReported():
                self._keep_shelves(event)
            case LogEndsReported():
                self._keep_log_ends(event)
            case LeaderSilent():
                self._of((event.topic_id, event.number)).silent[event.spu] = event.incarnation
            case SpusAway():
                self.away, self.failed = event.spus, event.failed
                self.with_failed_disks = frozenset(spu for _, _, spu in event.failed)
            case ReplicaFailed():
                if self._runs(event.spu, event.incarnation):
                    failure = FailedStorage(event.incarnation, event.epoch)
                    self._of((event.topic_id, event.number)).failed[event.spu] = failure
            case ReplicaOpened():
                self._keep_opened(event)
            case LeaseGracePeriodOver():
                self._lease_grace_period_over = True

    def forget(self, key: PartitionKey) -> None:
        """The partition is gone; nothing that was said of it can matter any more."""
        self._reports.pop(key, None)

    def forget_election(self, key: PartitionKey) -> None:
        """It is over: at the next one the logs may end elsewhere."""
        if key in self._reports:
            self._reports[key].log_ends.clear()

    def forget_shelves(self, key: PartitionKey) -> None:
        """What was said of them is so by now, or never will be."""
        if key in self._reports:
            self._reports[key].shelves = None

    def forget_silence(self, key: PartitionKey) -> None:
        """Who did not respond may do so now."""
        if key in self._reports:
            self._reports[key].silent.clear()

    def forget_failure(self, key: PartitionKey, spu: SpuId) -> None:
        """It is to have that replica again, and says so if it cannot."""
        if key in self._reports:
            self._reports[key].failed.pop(spu, None)

    def forget_silence_of(self, key: PartitionKey, spu: SpuId) -> bool:
        """Whether there was something to forget."""
        return key in self._reports and self._reports[key].silent.pop(spu, None) is not None

    def _keep_report(self, event: LiveReplicasReported) -> None:
        if not self._runs(event.spu, event.incarnation):
            return
        reports = self._of((event.topic_id, event.number))
        if reports.live_replicas is None or reports.live_replicas.epoch <= event.epoch:
            reports.live_replicas = event
        reports.silent.pop(event.spu, None)

    def _keep_shelves(self, event: ShelvesReported) -> None:
        if not self._runs(event.spu, event.incarnation):
            return
        reports = self._of((event.topic_id, event.number))
        if reports.shelves is None or reports.shelves.epoch <= event.epoch:
            reports.shelves = event

    def _keep_log_ends(self, event: LogEndsReported) -> None:
        for key, epoch in event.asked.items():
            reports, log_end = self._of(key), event.log_ends.get(key)
            if log_end is None and not event.is_busy:
                reports.silent[event.spu] = event.incarnation
            else:
                reports.log_ends[event.spu] = ReportedLogEnd(event.incarnation, epoch, log_end)

    def _keep_opened(self, event: ReplicaOpened) -> None:
        reports = self.reports_of((event.topic_id, event.number))
        failure = reports.failed.get(event.spu)
        if failure is not None and failure.incarnation == event.incarnation:
            reports.failed[event.spu] = replace(failure, has_opened=True)
        reports.silent.pop(event.spu, None)

    def _runs(self, spu: SpuId, incarnation: str) -> bool:
        now = self._connected.get(spu)
        return now is not None and now.incarnation == incarnation

    def _of(self, key: PartitionKey) -> PartitionReports:
        return self._reports.setdefault(key, PartitionReports())
