"""Periodic work on local storage: retention, compaction, and the removal of parked storage.

Each kind of work is one task that visits one replica after the other. Client requests come first.
"""

from collections.abc import Awaitable, Callable

import trio

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock
from tailrace.storage.compaction.log_compaction import CannotCompactError
from tailrace.storage.directory.checkpoints import ReplicaKey

from .high_watermark_checkpoint import HighWatermarkCheckpoint
from .parking import Parking, Storage, parked_retention_ms
from .resting import rest

COMPACTION_RETRY_SECONDS = 600
"""The pause before a log is compacted again after a failure: finding the failure may have read the whole log."""


class Housekeeping:
    """Applies retention and compaction to the logs of this SPU."""

    def __init__(
        self,
        wall_clock: WallClock,
        replicas: ReplicaRegistry,
        parking: Parking,
        configs: BrokerConfigs,
        checkpoint: HighWatermarkCheckpoint,
        forget: Callable[[Storage], Awaitable[None]],
        logger: FilteringBoundLogger,
    ) -> None:
        """`forget` is called before parked storage is removed: see `Parking.remove_expired`."""
        self._wall_clock = wall_clock
        self._replicas = replicas
        self._parking = parking
        self._configs = configs
        self._checkpoint = checkpoint
        self._forget = forget
        self._logger = logger
        self._uncompacted_until: dict[ReplicaKey, float] = {}
        """The Trio time from which a log that could not be compacted may be tried again."""

    async def apply_retention(self) -> None:
        """Runs until it is cancelled: forgets silent producers, and removes expired segments and parked storage."""
        while True:
            await rest(lambda: self._configs.settings.retention_check_interval_ms / 1000)
            silent_since_ms = self._wall_clock.now_ms() - self._configs.settings.producer_expiration_ms
            for replica in list(self._replicas):
                replica.log.producers.expire(silent_since_ms)
                # Followers delete what their leader has deleted, so that all logs start at the same offset, whatever
                # the clocks say. For a partition with shelves, `Offloading` applies the retention.
                if replica.is_recovered_leader and replica.settings.log.deletes and not replica.has_shelves:
                    await self._attempt(replica, self._apply_retention)
            await self._remove_parked()

    async def _remove_parked(self) -> None:
        try:
            retention_ms = parked_retention_ms(self._configs.settings.deleted_topic_retention_ms)
            expired = await self._parking.remove_expired(retention_ms, self._forget)
        except OSError as error:
            self._logger.error("parked_storage_not_removed", reason=str(error))  # the next round retries
            return
        for topic, topic_id, partition in expired:
            logger = self._logger if partition is None else self._logger.bind(partition=partition)
            logger.info("parked_storage_removed", topic=topic, topic_id=str(topic_id))

    async def compact(self) -> None:
        """Runs until it is cancelled: removes records that later ones with the same key replace."""
        while True:
            await rest(lambda: self._configs.settings.compaction_backoff_ms / 1000)
            if not self._configs.settings.compacts:
                continue
            now = trio.current_time()
            self._uncompacted_until = {key: until for key, until in self._uncompacted_until.items() if until > now}
            for replica in list(self._replicas):
                if (
                    replica.offline_reason is None
                    and replica.settings.log.compacts
                    and not replica.spec.shelves  # a tombstone may delete a record that is on a shelf
                    and replica.key not in self._uncompacted_until
                ):
                    await self._attempt(replica, self._compact)

    async def _apply_retention(self, replica: Replica) -> None:
        removed = await replica.log.apply_retention(self._wall_clock.now_ms(), replica.high_watermark)
        if removed:
            if replica.replication is not None:
                replica.replication.on_deleted()
            self._log(replica).info("segments_removed", count=len(removed), log_start=replica.log.log_start)

    async def _compact(self, replica: Replica) -> None:
        """Compacts a log up to the high watermark that is on the disk.

        A store that was offline can be compared with the records that are left, but not with those that compaction
        removed. So these must be known as committed even after a restart.
        """
        saved = self._checkpoint.saved(replica.key)
        if saved is None:
            return
        try:
            outcome = await replica.log.compact(self._wall_clock.now_ms(), min(saved.value, replica.high_watermark))
        except CannotCompactError as error:
            self._uncompacted_until[replica.key] = trio.current_time() + COMPACTION_RETRY_SECONDS
            self._log(replica).error("log_not_compacted", reason=str(error))
            return
        if outcome is not None:
            self._log(replica).info(
                "log_compacted",
                start=outcome.start,
                end=outcome.end,
                removed_records=outcome.removed_records,
                removed_bytes=outcome.removed_bytes,
            )

    async def _attempt(self, replica: Replica, work: Callable[[Replica], Awaitable[None]]) -> None:
        try:
            await work(replica)
        except OSError as error:
            if replica.is_out_of_descriptors(error):
                self._log(replica).warning("housekeeping_postponed", reason=str(error))
            elif replica.is_open:  # the logs of a topic that was deleted meanwhile are closed
                replica.go_offline(str(error))

    def _log(self, replica: Replica) -> FilteringBoundLogger:
        return self._logger.bind(topic=replica.topic, partition=replica.partition)
