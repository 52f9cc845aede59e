"""What SPUs reported over their connections: who is online, and the state of partitions.

It is kept beside the Local Store, and only events of the Connection Manager change it. If the write of a decision loses
its compare-and-set, the decision is made again when the newer version of the object arrives, and the reports that it
needs are still known.
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
    """The log end of a replica, which its SPU reported for an election."""

    incarnation: str
    """The incarnation of the process that reported it."""
    epoch: Epoch
    """The epoch of the partition when the SPU was asked."""
    log_end: int | None
    """The log end, or None while the SPU is still opening the log."""


class FailedStorage(Struct, frozen=True):
    """A failure of a replica's storage, which its SPU reported."""

    incarnation: str
    """The incarnation of the process that reported it."""
    epoch: Epoch
    """The largest epoch in which the replica does not lead any more, even if its log works again."""
    has_opened: bool = False
    """Whether the log works again, so that the replica may be elected."""


class PartitionReports(Struct):
    """The latest reports of SPUs about one partition."""

    live_replicas: LiveReplicasReported | None = None
    """The last report of a leader about its live replicas."""
    shelves: ShelvesReported | None = None
    """The last report of a leader about shelves, until it has been carried out or refused."""
    log_ends: dict[SpuId, ReportedLogEnd] = field(default_factory=dict)
    """The log ends that SPUs have reported for the current election."""
    silent: dict[SpuId, str] = field(default_factory=dict)
    """SPUs that did not respond in this round of elections, each with the incarnation of the process that was asked."""
    failed: dict[SpuId, FailedStorage] = field(default_factory=dict)
    """SPUs whose storage has failed, until another process of theirs starts."""

    def has_failed(self, spu: Spu) -> bool:
        """Tells whether the SPU's current process cannot use its storage."""
        failure = self._failure_of(spu)
        return failure is not None and not failure.has_opened

    def has_given_up(self, spu: Spu, epoch: Epoch) -> bool:
        """Tells whether the SPU's current process does not lead in that epoch because its storage has failed."""
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
        """The SPUs that have been offline for so long that others should take over."""
        self.failed: frozenset[FailedReplica] = frozenset()
        """The replicas whose disks failed so long ago that others should take over."""
        self.with_failed_disks: frozenset[SpuId] = frozenset()
        """The SPUs that have or had the replicas in `failed`."""
        self.connected: Mapping[SpuId, SpuConnected] = MappingProxyType(self._connected)
        self.lost: Mapping[SpuId, str] = MappingProxyType(self._lost)
        """The SPUs that were online and are not any more, each with the reason."""
        self.full: Mapping[SpuId, StorageReported] = MappingProxyType(self._full)
        """The last reports of the SPUs whose storage is full."""

    @property
    def lease_grace_period_over(self) -> bool:
        """Whether every SPU has had the duration of one lease to connect; see the event LeaseGracePeriodOver."""
        return self._lease_grace_period_over

    def reports_of(self, key: PartitionKey) -> PartitionReports:
        """Returns the reports about a partition."""
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
                if self._runs(event.spu, event.incarnation):  # Otherwise another process has taken over.
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
        """Forgets all reports about a partition, which was deleted."""
        self._reports.pop(key, None)

    def forget_election(self, key: PartitionKey) -> None:
        """Forgets the reported log ends when an election is over, since they may change until the next one."""
        if key in self._reports:
            self._reports[key].log_ends.clear()

    def forget_shelves(self, key: PartitionKey) -> None:
        """Forgets the report about shelves, which was carried out or will never be."""
        if key in self._reports:
            self._reports[key].shelves = None

    def forget_silence(self, key: PartitionKey) -> None:
        """Forgets which SPUs did not respond, so that they are asked again."""
        if key in self._reports:
            self._reports[key].silent.clear()

    def forget_failure(self, key: PartitionKey, spu: SpuId) -> None:
        """Forgets the failure of a replica that the SPU gets anew; if it fails again, the SPU reports that."""
        if key in self._reports:
            self._reports[key].failed.pop(spu, None)

    def forget_silence_of(self, key: PartitionKey, spu: SpuId) -> bool:
        """Forgets that the SPU did not respond, and returns whether that was known."""
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
