"""The data directory of an SPU: what the previous process left, and what this one leaves to the next."""

from collections.abc import Mapping
from contextlib import ExitStack

import trio
from msgspec import Struct

from tailrace.broker.controller_link.cluster_identity import ClusterIdentity
from tailrace.broker.controller_link.spec_dispatcher import CLOSES_AT_ONCE
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.upkeep.closed_replicas import ClosedReplicas
from tailrace.broker.upkeep.parking import Parking
from tailrace.protocol.ids import SpuId
from tailrace.runtime.descriptors import is_out_of_files
from tailrace.runtime.directories import make_directories_durably
from tailrace.runtime.files import Files
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.seams import Seams
from tailrace.storage.directory import layout
from tailrace.storage.directory.checkpoints import (
    ReplicaKey,
    SavedHighWatermark,
    load_high_watermarks,
    take_clean_shutdown_mark,
    write_clean_shutdown_mark,
)
from tailrace.storage.directory.promises import Promises
from tailrace.storage.directory.store_incarnation import take_store_incarnation
from tailrace.storage.log.log_disk import is_disk_full
from tailrace.storage.log.shelf_logs import ShelfLogs


class StartError(Exception):
    """Tells the operator in one sentence why the SPU cannot start."""


async def take_storage(
    spu: SpuId, directory: str, seams: Seams, logger: FilteringBoundLogger, held: ExitStack
) -> "SpuStorage":
    """Locks the data directory until `held` is closed, and finds out what the previous process left in it.

    Raises StartError.
    """
    try:
        return await _take(spu, directory, seams, logger, held)
    except OSError as error:
        reason = error.strerror or error
        raise StartError(f"{directory} cannot be used: {reason}; choose another directory with --data") from error


async def _take(
    spu: SpuId, directory: str, seams: Seams, logger: FilteringBoundLogger, held: ExitStack
) -> "SpuStorage":
    files = seams.files
    await make_directories_durably(files, directory)
    lock = files.lock(layout.lock_path(directory))
    if lock is None:
        from tailrace.runtime.neighbours.occupants import directory_in_use  # imported here because few starts fail

        raise StartError(directory_in_use(files, directory, layout.lock_path(directory)))
    held.callback(lock.release)
    identity = ClusterIdentity(files, directory, spu)
    if (owner := identity.other_owner) is not None:
        raise StartError(f"{directory} holds the data of SPU {owner}, and this is SPU {spu}")
    parking = Parking(directory, files, seams.wall_clock)
    whole = await take_clean_shutdown_mark(files, directory)
    closed = ClosedReplicas()
    closed.clean = whole or set()
    closed.high_watermarks = load_high_watermarks(files, directory)
    found = dict(closed.high_watermarks)
    shelf_logs = ShelfLogs(directory, files)
    await shelf_logs.end_replacements()
    promises = Promises(files, directory)
    closed.has_disk_failed = promises.has_disk_failed
    incarnation = await take_store_incarnation(
        files,
        directory,
        promises,
        clean=whole is not None,
        lacks_replicas=_forget_missing(closed, parking, logger),
        new=seams.chance.uuid(),
    )
    return SpuStorage(
        directory=directory,
        files=files,
        identity=identity,
        parking=parking,
        closed=closed,
        shelf_logs=shelf_logs,
        promises=promises,
        incarnation=incarnation,
        was_left_cleanly=whole is not None,
        high_watermarks=found,
        logger=logger,
    )


def _forget_missing(closed: ClosedReplicas, parking: Parking, logger: FilteringBoundLogger) -> bool:
    """Drops the high watermarks of logs that are gone, and returns whether there were any.

    Something was committed in these logs. Other SPUs must not count on this store for it.
    """
    missing = parking.missing(key for key, saved in closed.high_watermarks.items() if saved.value > 0)
    for key in missing:
        topic_id, partition = key
        committed = closed.high_watermarks.pop(key).value
        logger.error("replica_missing", topic_id=str(topic_id), partition=partition, committed=committed)
    return bool(missing)


class SpuStorage(Struct, frozen=True):
    """The data directory of a running SPU."""

    directory: str
    files: Files
    identity: ClusterIdentity
    parking: Parking
    closed: ClosedReplicas
    shelf_logs: ShelfLogs
    promises: Promises
    incarnation: str
    """Identifies this store. It changes when something that was stored may be lost."""
    was_left_cleanly: bool
    """Whether the previous process stopped cleanly."""
    high_watermarks: Mapping[ReplicaKey, SavedHighWatermark]
    """The high watermarks that the previous process wrote."""
    logger: FilteringBoundLogger

    async def leave(self, replicas: ReplicaRegistry, *, opened_all: bool) -> None:
        """Closes every log durably, and leaves a mark that names the logs that were closed.

        `opened_all` says that `replicas` are all the logs in the directory.
        """
        # The task that notes a failed disk may have been cancelled before it did.
        has_failed = any(replica.log.may_have_lost for replica in replicas)
        limiter = trio.CapacityLimiter(CLOSES_AT_ONCE)
        are_closed = True

        async def close(replica: Replica) -> None:
            nonlocal has_failed, are_closed
            async with limiter:
                try:
                    await replica.close()
                except OSError as error:
                    if is_out_of_files(error) or (is_disk_full(error) and not replica.log.may_have_lost):
                        are_closed = False  # no data is lost
                    else:
                        has_failed = True
                    self.logger.error(
                        "log_not_closed", topic=replica.topic, partition=replica.partition, reason=str(error)
                    )
                else:
                    self.closed.clean.add(replica.key)

        async with trio.open_nursery() as nursery:
            for replica in replicas:
                nursery.start_soon(close, replica)
        # Logs that were never opened, because no specs arrived, are unchanged.
        damaged = replicas.damaged or any(replica.offline_reason for replica in replicas)
        if (opened_all or self.was_left_cleanly) and are_closed and not has_failed and not damaged:
            try:
                await write_clean_shutdown_mark(self.files, self.directory, self.closed.clean)
            except OSError as error:  # the next start scans the logs
                self.logger.error("clean_shutdown_mark_not_left", reason=str(error))
        elif has_failed:
            try:
                await self.promises.note_failed_disk()
            except OSError as error:
                self.logger.error("failed_disk_not_noted", reason=str(error))
