"""The data directory of an SPU: taken as the last process has left it, and left so that the next one knows what it may
believe."""

from contextlib import ExitStack

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.broker.controller_link.cluster_identity import ClusterIdentity
from tailrace.broker.controller_link.spec_dispatcher import CLOSES_AT_ONCE
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.upkeep.closed_replicas import ClosedReplicas
from tailrace.broker.upkeep.parking import Parking
from tailrace.protocol.ids import SpuId
from tailrace.runtime.chance import Chance
from tailrace.runtime.descriptors import are_used_up
from tailrace.runtime.directories import make_directories_durably
from tailrace.runtime.files import Files
from tailrace.storage.directory import layout
from tailrace.storage.directory.checkpoints import (
    ReplicaKey,
    SavedHighWatermark,
    leave_clean_shutdown_mark,
    load_high_watermarks,
    take_clean_shutdown_mark,
)
from tailrace.storage.directory.promises import Promises
from tailrace.storage.directory.store_incarnation import take_store_incarnation
from tailrace.storage.log.log_disk import lacks_room
from tailrace.storage.log.shelf_logs import ShelfLogs


class StartError(Exception):
    """One sentence for the person who started the SPU: why it cannot."""


class SpuStorage:
    identity: ClusterIdentity
    promises: Promises
    incarnation: str
    """Stays the same as long as nothing was lost of what is stored here."""

    def __init__(
        self, spu: SpuId, directory: str, files: Files, chance: Chance, parking: Parking, logger: FilteringBoundLogger
    ) -> None:
        self._spu = spu
        self._directory = directory
        self._files = files
        self._chance = chance
        self._parking = parking
        self._logger = logger
        self.closed = ClosedReplicas()
        self.shelf_logs = ShelfLogs(directory, files)
        self.was_left_cleanly = False
        """By the last process."""

    async def take(self, held: ExitStack) -> dict[ReplicaKey, SavedHighWatermark]:
        """Nobody else has it until `held` is closed. Returns what is written down of how far replicas are committed.
        Raises StartError."""
        try:
            return await self._take(held)
        except OSError as error:
            raise StartError(f"{self._directory} cannot be used: {error}") from error

    async def _take(self, held: ExitStack) -> dict[ReplicaKey, SavedHighWatermark]:
        files, directory = self._files, self._directory
        await make_directories_durably(files, directory)
        lock = files.lock(layout.lock_path(directory))
        if lock is None:
            raise StartError(f"{directory} is in use by another tailrace process")
        held.callback(lock.release)
        self.identity = ClusterIdentity(files, directory, self._spu)
        if (owner := self.identity.other_owner) is not None:
            raise StartError(f"{directory} holds the data of SPU {owner}, and this is SPU {self._spu}")
        whole = await take_clean_shutdown_mark(files, directory)
        self.was_left_cleanly, self.closed.whole = whole is not None, whole or set()
        self.closed.high_watermarks = load_high_watermarks(files, directory)
        written_down = dict(self.closed.high_watermarks)
        await self.shelf_logs.end_replacements()
        self.promises = Promises(files, directory)
        self.closed.has_disk_failed = self.promises.has_disk_failed
        self.incarnation = await take_store_incarnation(
            files,
            directory,
            self.promises,
            clean=self.was_left_cleanly,
            lacks_replicas=self._lacks_replicas(),
            new=self._chance.uuid(),
        )
        return written_down

    def _lacks_replicas(self) -> bool:
        """Whether logs have gone in which something was committed. Others must not count on this store for that."""
        high_watermarks = self.closed.high_watermarks
        missing = self._parking.missing(key for key, saved in high_watermarks.items() if saved.value > 0)
        for key in missing:
            topic_id, partition = key
            committed = high_watermarks.pop(key).value
            self._logger.error("replica_missing", topic_id=str(topic_id), partition=partition, committed=committed)
        return bool(missing)

    async def leave(self, replicas: ReplicaRegistry, *, opened_all: bool) -> None:
        """Brings every log to the disk; the mark says which of them got there. `opened_all`: there is no other one."""
        # Who was to note it may have been stopped before that.
        has_failed = any(replica.log.may_have_lost for replica in replicas)
        limiter = trio.CapacityLimiter(CLOSES_AT_ONCE)
        are_closed = True

        async def close(replica: Replica) -> None:
            nonlocal has_failed, are_closed
            async with limiter:
                try:
                    await replica.close()
                except OSError as error:
                    if are_used_up(error) or (lacks_room(error) and not replica.log.may_have_lost):
                        are_closed = False  # nothing is lost
                    else:
                        has_failed = True
                    self._logger.error(
                        "log_not_closed", topic=replica.topic, partition=replica.partition, reason=str(error)
                    )
                else:
                    self.closed.whole.add(replica.key)

        async with trio.open_nursery() as nursery:
            for replica in replicas:
                nursery.start_soon(close, replica)
        # Logs that were never opened, because no specs came, are as they were found.
        damaged = replicas.damaged or any(replica.offline_reason for replica in replicas)
        if (opened_all or self.was_left_cleanly) and are_closed and not has_failed and not damaged:
            try:
                await leave_clean_shutdown_mark(self._files, self._directory, self.closed.whole)
            except OSError as error:  # the next start looks through the logs
                self._logger.error("clean_shutdown_mark_not_left", reason=str(error))
        elif has_failed:
            try:
                await self.promises.note_failed_disk()
            except OSError as error:
                self._logger.error("failed_disk_not_noted", reason=str(error))
