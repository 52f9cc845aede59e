"""Passes on to the controllers what SPUs report about replicas, shelves and storage."""

from collections.abc import Callable

import trio

from tailrace.controller.sc_metrics import ScMetrics
from tailrace.controller.state.events import (
    FailedReplica,
    LiveReplicasReported,
    ReplicaFailed,
    ReplicaOpened,
    ShelvesReported,
    StorageReported,
)
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest
from tailrace.protocol.internal.report_live_replicas import ReportedPartition, ReportLiveReplicasResponse
from tailrace.protocol.internal.report_shelves import ReportedPartition as ReportedShelves
from tailrace.protocol.internal.report_shelves import ReportShelvesResponse
from tailrace.runtime.logs import FilteringBoundLogger

from .event_queue import EventQueue
from .spec_cache import SpecCache
from .spu_stream import Registered


class SpuReports:
    """Turns the reports of SPUs into events."""

    def __init__(
        self,
        cache: SpecCache,
        events: EventQueue,
        is_connected: Callable[[SpuId, str], bool],
        metrics: ScMetrics,
        logger: FilteringBoundLogger,
    ) -> None:
        """`is_connected` tells whether a process of an SPU is connected."""
        self._cache = cache
        self._events = events
        self._is_connected = is_connected
        self._metrics = metrics
        self._logger = logger
        self._full: dict[SpuId, str] = {}
        """The SPUs whose storage was last reported to the controllers as full, each with its incarnation then."""
        self._failed: dict[FailedReplica, tuple[str, float]] = {}
        """The failed replicas, each with the incarnation of the process that reported it, and the time."""

    def failed(self, seconds: float) -> frozenset[FailedReplica]:
        """Returns the replicas that failed at least so long ago, in processes that are still connected.

        This includes replicas that have moved away since, because the disk is still the same.
        """
        self._failed = {
            replica: noted
            for replica, noted in self._failed.items()
            if replica[:2] in self._cache.partitions and self._is_connected(replica[2], noted[0])
        }
        since = trio.current_time() - seconds
        return frozenset(replica for replica, (_, failed_at) in self._failed.items() if failed_at <= since)

    async def take_partitions(
        self, registered: Registered, partitions: list[ReportedPartition]
    ) -> ReportLiveReplicasResponse:
        """Handles reports about replicas: of leaders, and of SPUs whose logs have failed or work again."""
        refused = 0
        for reported in partitions:
            await self._events.wait_for_room()
            if reported.has_failed:
                self._take_failure(registered, reported)
            elif reported.epoch == NO_EPOCH:  # The log could be opened after all.
                self._take_opening(registered, reported)
            elif self._is_leader(registered.spu, reported):
                self._take_live_replicas(registered, reported)
            else:
                refused += 1
        self._metrics.live_replica_reports += len(partitions) - refused
        self._metrics.refused_live_replica_reports += refused
        return ReportLiveReplicasResponse(ErrorCode.FENCED_LEADER_EPOCH if refused else ErrorCode.NONE)

    async def take_shelves(self, registered: Registered, partitions: list[ReportedShelves]) -> ReportShelvesResponse:
        """Handles reports about shelves. Only those of current leaders in their epochs count."""
        refused = 0
        for reported in partitions:
            await self._events.wait_for_room()
            if not self._leads(registered.spu, reported):
                refused += 1
                continue
            self._events.add(
                ShelvesReported(
                    registered.spu,
                    registered.incarnation,
                    reported.topic_id,
                    reported.partition,
                    Epoch(reported.epoch),
                    reported.shelved_from,
                    tuple((each.base, SpuId(each.spu_id), each.end) for each in reported.filled),
                    reported.next_base,
                )
            )
        return ReportShelvesResponse(ErrorCode.FENCED_LEADER_EPOCH if refused else ErrorCode.NONE)

    def take_storage(self, registered: Registered, message: RenewLeaseRequest) -> None:
        """Reports to the controllers when an SPU's storage becomes full, or has room again.

        A renewal of the lease must not wait. If there is no room for an event, the next renewal repeats the report.
        """
        spu, incarnation = registered.spu, registered.incarnation
        is_full = 0 <= message.size_bytes <= message.used_bytes
        was_full = self._full.get(spu) == incarnation
        if is_full != was_full and self._events.has_room:
            if is_full:
                self._full[spu] = incarnation
            else:
                del self._full[spu]
            self._events.add(StorageReported(spu, incarnation, is_full, message.used_bytes, message.size_bytes))

    def _take_live_replicas(self, registered: Registered, reported: ReportedPartition) -> None:
        self._logger.debug(
            "live_replicas_reported",
            spu=registered.spu,
            topic_id=str(reported.topic_id),
            partition=reported.partition,
            epoch=reported.epoch,
            high_watermark=reported.high_watermark,
            log_end=reported.log_end,
            lags={lag.spu_id: lag.records for lag in reported.lags},
        )
        self._events.add(
            LiveReplicasReported(
                registered.spu,
                registered.incarnation,
                reported.topic_id,
                reported.partition,
                Epoch(reported.epoch),
                reported.version,
                tuple((SpuId(each.spu_id), each.incarnation) for each in reported.members),
                reported.has_taken_over,
            )
        )

    def _take_failure(self, registered: Registered, reported: ReportedPartition) -> None:
        spu, incarnation = registered.spu, registered.incarnation
        replica = (reported.topic_id, reported.partition, spu)
        partition, noted = self._cache.partitions.get(replica[:2]), self._failed.get(replica)
        is_here = partition is not None and spu in partition.spec.replicas
        if is_here and (noted is None or noted[0] != incarnation):
            self._failed[replica] = incarnation, trio.current_time()
            self._logger.warning("replica_failed", spu=spu, topic_id=str(replica[0]), partition=replica[1])
        # Report this even if another SPU leads now: this one may just have been elected, or be elected next. A log that
        # could not be opened (NO_EPOCH) is retried then.
        if is_here and reported.epoch != NO_EPOCH:
            self._events.add(ReplicaFailed(spu, incarnation, *replica[:2], Epoch(reported.epoch)))

    def _take_opening(self, registered: Registered, reported: ReportedPartition) -> None:
        spu, key = registered.spu, (reported.topic_id, reported.partition)
        self._failed.pop((*key, spu), None)
        if key in self._cache.partitions:
            self._events.add(ReplicaOpened(spu, registered.incarnation, *key))

    def _is_leader(self, spu: SpuId, reported: ReportedPartition) -> bool:
        """Tells whether the SPU leads the partition, and proposes only replicas, including itself, as live."""
        partition = self._cache.partitions.get((reported.topic_id, reported.partition))
        if partition is None or not self._leads(spu, reported):
            return False
        members = {member.spu_id for member in reported.members}
        return not members or (spu in members and members <= set(partition.spec.replicas))

    def _leads(self, spu: SpuId, reported: ReportedPartition | ReportedShelves) -> bool:
        partition = self._cache.partitions.get((reported.topic_id, reported.partition))
        return partition is not None and (partition.status.leader, partition.status.epoch) == (spu, reported.epoch)
