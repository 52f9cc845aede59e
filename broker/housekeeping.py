"""Work that time brings: old segments go, compacted topics are compacted, parked storage ends.

One task, one replica after the other: none of this is urgent, and clients' requests come first.
"""

from collections.abc import Awaitable, Callable

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.runtime.wall_clock import WallClock

from .broker_configs import BrokerConfigs
from .parking import Parking
from .replicas import Replica, Replicas


class Housekeeping:
    def __init__(
        self,
        replicas: Replicas,
        parking: Parking,
        configs: BrokerConfigs,
        wall_clock: WallClock,
        logger: FilteringBoundLogger,
    ) -> None:
        self._replicas = replicas
        self._parking = parking
        self._configs = configs
        self._wall_clock = wall_clock
        self._logger = logger

    async def apply_retention(self) -> None:
        """Runs until cancelled: removes segments that have had their time, and storage parked for too long."""
        while True:
            await trio.sleep(self._configs.settings.retention_check_interval_ms / 1000)
            for replica in list(self._replicas):
                if replica.offline_reason is None and replica.settings.log.deletes:
                    await self._attempt(replica, self._apply_retention)
            for topic, topic_id in self._parking.remove_expired(self._configs.settings.deleted_topic_retention_ms):
                self._logger.info("parked_storage_removed", topic=topic, topic_id=str(topic_id))

    async def _apply_retention(self, replica: Replica) -> None:
        removed = await replica.log.apply_retention(self._wall_clock.now_ms(), replica.high_watermark)
        if removed:
            self._log(replica).info("segments_removed", count=len(removed), log_start=replica.log.log_start)

    async def _attempt(self, replica: Replica, work: Callable[[Replica], Awaitable[None]]) -> None:
        try:
            await work(replica)
        except OSError as error:
            if replica.is_open:  # a topic that was deleted meanwhile has its logs closed
                replica.go_offline(str(error))
                self._log(replica).error("replica_went_offline", reason=replica.offline_reason)

    def _log(self, replica: Replica) -> FilteringBoundLogger:
        return self._logger.bind(topic=replica.topic, partition=replica.partition)
