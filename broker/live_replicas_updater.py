"""Reports to the Streaming Controller which replicas are live, of the partitions that this SPU leads.

The controller counts a partition as online once its leader has spoken. Each election and each change is reported, and
everything again on a new connection: another controller may be at its end. A replica whose log did not open, or whose
disk failed, is not reported: it serves nobody.
"""

from collections.abc import Awaitable, Callable, Sequence

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.internal.report_live_replicas import (
    ReportedPartition,
    ReportLiveReplicasRequest,
    ReportLiveReplicasResponse,
)
from tailrace.storage.checkpoints import ReplicaKey

from .replicas import Replicas

REPORTED_AT_ONCE_MAX = 5000

Report = Callable[[ReportLiveReplicasRequest], Awaitable[ReportLiveReplicasResponse]]


class LiveReplicasUpdater:
    def __init__(self, replicas: Replicas, logger: FilteringBoundLogger) -> None:
        self._replicas = replicas
        self._logger = logger
        self._reported: dict[ReplicaKey, tuple[Epoch, tuple[SpuId, ...]]] = {}
        self._changed = trio.Event()

    def on_changed(self) -> None:
        """Specs were applied: there may be something to report."""
        self._changed.set()

    async def run(self, report: Report) -> None:
        """On one connection, until cancelled."""
        self._reported.clear()
        while True:
            self._changed = trio.Event()
            due = self._due()
            for start in range(0, len(due), REPORTED_AT_ONCE_MAX):
                await self._report(report, due[start : start + REPORTED_AT_ONCE_MAX])
            await self._changed.wait()

    def _due(self) -> list[ReportedPartition]:
        """What has not been said yet."""
        now = {
            replica.key: (replica.spec.epoch, replica.spec.live_replicas)
            for replica in self._replicas
            if replica.is_leader and replica.offline_reason is None
        }
        due = [
            ReportedPartition(topic_id, partition, epoch, list(live_replicas))
            for (topic_id, partition), (epoch, live_replicas) in now.items()
            if self._reported.get((topic_id, partition)) != (epoch, live_replicas)
        ]
        self._reported = now
        return due

    async def _report(self, report: Report, due: Sequence[ReportedPartition]) -> None:
        answer = await report(ReportLiveReplicasRequest(partitions=list(due)))
        if answer.error_code != ErrorCode.NONE:
            # Somebody else leads by now; the specs that say so are on their way.
            self._logger.warning("live_replicas_refused", code=ErrorCode(answer.error_code).name, partitions=len(due))
