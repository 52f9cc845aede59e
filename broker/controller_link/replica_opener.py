"""Opens the replicas that belong on this SPU: their storage, logs and high watermarks.

A replica that does not open is registered as damaged, and reported to the Streaming Controller, so that another one can
lead.
"""

from functools import partial

from msgspec import Struct

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_log import DamagedLogError, ReplicaLog
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import TopicSettings
from tailrace.broker.replication.high_watermark import epoch_at_start
from tailrace.broker.roles.replica_controller import LOG_ERRORS
from tailrace.broker.roles.replica_info_dispatcher import ReplicaInfoDispatcher
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.broker.upkeep.closed_replicas import NOTHING_SAVED, ClosedReplicas
from tailrace.broker.upkeep.flusher import Flusher
from tailrace.broker.upkeep.parking import Parking, Storage
from tailrace.broker.upkeep.unreadable_logs import UnreadableLogs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.ids import SpuId
from tailrace.runtime.descriptors import is_out_of_files, log_files_max
from tailrace.runtime.files import Files
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.storage.directory import layout
from tailrace.storage.directory.checkpoints import ReplicaKey, SavedHighWatermark
from tailrace.storage.directory.directory_syncs import DirectorySyncs
from tailrace.storage.indexes.open_files import FILES_A_HOLDER_MAX, OPEN_FILES_MAX, OpenFiles
from tailrace.storage.log.log import Log
from tailrace.storage.segments.segment_recovery import WouldLoseRecordsError

REMOVED = (
    "its files were removed as those of a deleted topic, but it is assigned as a live replica, which has all records"
)
LACKING = (
    "batches that may never have been synced are corrupt, but it is assigned as a live replica, which has all records"
)


class _OpenedLog(Struct):
    log: Log
    is_new: bool
    """Whether no files of the replica existed."""
    was_clean: bool
    """Whether the log was closed cleanly the last time."""


class ReplicaOpener:
    def __init__(
        self,
        spu: SpuId,
        data_directory: str,
        files: Files,
        replicas: ReplicaRegistry,
        parking: Parking,
        flusher: Flusher,
        metrics: BrokerMetrics,
        replication: ReplicaInfoDispatcher,
        closed: ClosedReplicas,
        unreadable: UnreadableLogs,
        logger: FilteringBoundLogger,
    ) -> None:
        self._spu = spu
        self._data_directory = data_directory
        self._files = files
        self._replicas = replicas
        self._parking = parking
        self._flusher = flusher
        self._metrics = metrics
        self._replication = replication
        self._closed = closed
        self._unreadable = unreadable
        self._logger = logger
        limit = min(OPEN_FILES_MAX, max(1, log_files_max(files.descriptors_max()) // FILES_A_HOLDER_MAX))
        self._open_files = OpenFiles(files, limit, metrics.lookups)
        self._open_files.on_index_rebuilt = self._report_rebuilt_index
        self._directory_syncs = DirectorySyncs(files)

    async def open(
        self, spec: PartitionSpec, settings: TopicSettings, *, is_new: bool = False, is_starting: bool
    ) -> None:
        """Opens the replica, or registers it as damaged if it does not open.

        `is_new` means that no files of it exist. `is_starting` means that the SPU has not applied its first specs yet.
        """
        await self._unreadable.give_back(_key(spec))
        try:
            opened = await self._open_log(spec, settings, is_new=is_new)
        except LOG_ERRORS as error:
            self._refuse(spec, str(error), was_tried=not (isinstance(error, OSError) and is_out_of_files(error)))
            return
        if opened is None:
            return
        log = opened.log
        if log.epochs.latest > spec.epoch:
            reason = f"its log is at epoch {log.epochs.latest}, and epoch {spec.epoch} was assigned"
            await self._refuse_and_close(spec, log, reason)
            return
        self._report_recovery(spec, log)
        saved = self._closed.high_watermarks.get(_key(spec), NOTHING_SAVED)
        high_watermark = await self._find_high_watermark(spec, settings, opened, saved)
        if high_watermark is None:
            return
        self._closed.high_watermarks.pop(_key(spec), None)
        epoch = epoch_at_start(high_watermark, saved.value, saved.epoch)
        replica = Replica(self._spu, spec, log, settings, high_watermark, epoch, on_offline=self._report_offline)
        self._replicas.add(replica)
        self._report_storage(replica, is_new=opened.is_new, is_starting=is_starting)
        await self._replication.attend(replica)
        if log.synced_end < log.log_end:
            self._flusher.flush(replica)  # an unclean stop has left records in the page cache

    # steps of opening a replica

    async def _open_log(self, spec: PartitionSpec, settings: TopicSettings, *, is_new: bool) -> _OpenedLog | None:
        """Opens the log. Returns None if it was refused, and raises LOG_ERRORS if it does not open."""
        key = _key(spec)
        directory = layout.replica_directory(self._data_directory, spec.topic, *key)
        if not is_new:
            await self._unpark(spec)
            is_new = not self._files.list(directory)
        if self._parking.was_removed(key) and not await self._accept_removed(spec, is_new=is_new):
            return None
        was_clean, is_in_doubt = self._closed.take_clean(key), self._replication.is_in_doubt(spec)
        open_log = partial(
            Log,
            self._files,
            directory,
            settings.log,
            clean=was_clean or is_new,
            # Doubt outlives this process, if it ends before the log is on the disk.
            rewrite_unsynced=self._closed.has_disk_failed or is_in_doubt,
            open_files=self._open_files,
            directory_syncs=self._directory_syncs,
        )
        try:
            # After some stops all other SPUs know that this whole store may have lost something.
            # Which torn tails are truncated is explained in `segment_recovery`.
            log = open_log(may_lose=self._is_alone(spec) or is_in_doubt)
        except WouldLoseRecordsError as error:
            if await self._refuse_as_lacking(spec, error):
                return None
            log = open_log()
        return _OpenedLog(log, is_new, was_clean)

    async def _unpark(self, spec: PartitionSpec) -> None:
        """Brings back the storage of the topic and of the partition. Parked storage would be removed while in use."""
        for partition in (None, spec.partition):
            await self._parking.unpark(Storage(spec.topic, spec.topic_id, partition))

    async def _accept_removed(self, spec: PartitionSpec, *, is_new: bool) -> bool:
        """Decides about a replica whose storage was removed. Returns False if it must not open.

        If it is assigned as a live replica, it may be the only replica that is assumed to have all acknowledged
        records. It must not claim that it has them.
        """
        if self._spu in spec.live_replicas:
            self._refuse(spec, REMOVED if is_new else LACKING, was_tried=False)
            return False
        # This SPU may still know the promise of the replica, which would look as if nothing had been removed.
        await self._replication.doubt(_key(spec))
        await self._parking.forget_removed(_key(spec))
        return True

    async def _refuse_as_lacking(self, spec: PartitionSpec, error: WouldLoseRecordsError) -> bool:
        """Puts the replica in doubt, because its log will lose records. Returns True if it must not open.

        Others count on a live replica, so they have to learn of the loss before the log is truncated.
        """
        key, is_counted_on = _key(spec), self._spu in spec.live_replicas
        if is_counted_on:
            await self._parking.note_removed(key)
        await self._replication.doubt(key)
        if is_counted_on:
            self._refuse(spec, f"{LACKING}: {error}", was_tried=False)
        return is_counted_on

    async def _find_high_watermark(
        self, spec: PartitionSpec, settings: TopicSettings, opened: _OpenedLog, saved: SavedHighWatermark
    ) -> int | None:
        """Reads the end of the log for its producers and the high watermark. Returns None if it could not be read.

        A corrupt log is given to `UnreadableLogs`, which repairs it from other SPUs.
        """
        log, is_alone = opened.log, self._is_alone(spec)
        try:
            entries = ReplicaLog(log)
            entries.load_producers()
            if is_alone and settings.log.flush_messages == 1:
                # Records that only reached the page cache were never acknowledged, but can be read from now on.
                await log.sync()
            return log.log_end if is_alone else await entries.high_watermark_at_start(saved.value)
        except DamagedLogError as error:
            self._refuse(spec, str(error))
            replica = Replica(self._spu, spec, log, settings, min(saved.value, log.log_end))
            self._unreadable.add(replica, error.offset, was_clean=opened.was_clean)
        except OSError as error:
            await self._refuse_and_close(spec, log, str(error), was_tried=not is_out_of_files(error))
        return None

    def _is_alone(self, spec: PartitionSpec) -> bool:
        """Returns whether there is no other replica, so that everything in the log is committed."""
        return spec.replicas == (self._spu,)

    # refusals

    def _refuse(self, spec: PartitionSpec, reason: str, *, was_tried: bool = True) -> None:
        self._log(spec).error("replica_did_not_open", reason=reason)
        self._replicas.add_damaged(spec, reason, was_tried=was_tried)
        self._replication.on_failed(_key(spec))

    async def _refuse_and_close(self, spec: PartitionSpec, log: Log, reason: str, *, was_tried: bool = True) -> None:
        self._refuse(spec, reason, was_tried=was_tried)
        try:
            await log.close(clean=False)
        except OSError as error:
            self._log(spec).error("log_not_closed", reason=str(error))
        self.on_log_closed(log)

    def on_log_closed(self, log: Log) -> None:
        """Notes that a sync of this log failed. The next one that opens it, perhaps another process, writes again."""
        if log.may_have_lost:
            self._closed.has_disk_failed = True
            self._replication.on_disk_failed()

    # reports

    def _report_offline(self, replica: Replica) -> None:
        self._log(replica.spec).error("replica_went_offline", reason=replica.offline_reason)
        self._replication.on_failed(replica.key)
        if replica.damaged_from is not None:
            self._unreadable.add_soon(replica)
        if replica.replication is None and replica.is_open and replica.log.may_have_lost:
            self._replication.on_disk_failed()

    def _report_storage(self, replica: Replica, *, is_new: bool, is_starting: bool) -> None:
        """Logs whether storage was found. After the start it is unusual that a replica had storage."""
        if is_new:
            self._log(replica.spec).debug("replica_created")
        elif is_starting:
            self._log(replica.spec).debug("replica_reattached", log_end=replica.log.log_end)
        else:
            self._log(replica.spec).info("replica_reattached", log_end=replica.log.log_end)

    def _report_recovery(self, spec: PartitionSpec, log: Log) -> None:
        report = log.recovery
        if not report.was_clean:
            self._metrics.recovered_replicas += 1
            self._metrics.truncated_bytes += report.truncated_bytes
            self._metrics.rebuilt_indexes += report.indexes_rebuilt
        for event in report.events:
            self._log(spec).warning("log_recovered", what=event)

    def _report_rebuilt_index(self, path: str) -> None:
        self._metrics.rebuilt_indexes += 1
        self._logger.warning("index_rebuilt", path=path, reason="it was missing or damaged")

    def _log(self, spec: PartitionSpec) -> FilteringBoundLogger:
        return self._logger.bind(topic=spec.topic, partition=spec.partition)


def _key(spec: PartitionSpec) -> ReplicaKey:
    return spec.topic_id, spec.partition
