"""Truncates an open log: removes its end from an offset on, on the disk as well as in memory.

A truncation has three steps: the manifest stops naming what will be removed, the files are truncated, and the result is
synced. The log is shorter for everyone after the second step. If the third fails for want of file descriptors, it stays
pending, and the next truncation or deletion completes it. Without the third step a power failure could bring back
removed batches where others have been committed since.

Torn tails of logs that were not closed are a different matter: see `segment_recovery`.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import trio

from tailrace.runtime.descriptors import retry_call_when_out_of_files, retry_when_out_of_files
from tailrace.storage.manifest.compaction_history import truncate_history
from tailrace.storage.manifest.leader_epochs import LeaderEpochs
from tailrace.storage.manifest.log_epochs import LogEpochs
from tailrace.storage.producers.producer_state import ProducerStates
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_list import Segment, by_end
from tailrace.storage.segments.segment_scrub import OpenSegmentPrefix
from tailrace.storage.segments.segment_truncation import (
    PreparedTruncation,
    prepare_truncation,
    prepare_truncation_before_damage,
)

from .log_manifest import manifest_content
from .log_parts import LogParts
from .log_repair import load_producers_in_steps


async def truncate(log: LogParts, to_offset: int) -> None:
    """Truncates the log to the offset, or to the base of the batch that holds it. The caller does not append."""
    async with log.disk.lock:
        log.disk.check()
        if to_offset >= log.log_end:
            await complete_truncation(log)
            return
        sealed = log.segment_list.sealed
        kept = bisect_right(sealed, to_offset, key=by_end)
        removed: list[Segment] = [*sealed[kept:], log.segment_list.open]
        first = removed[0]
        size = first.position_of(to_offset) if first.base < to_offset else 0
        if to_offset <= log.log_start or (first.base <= log.log_start and size == first.position_of(log.log_start)):
            producers = log.producers if to_offset >= log.log_start else ProducerStates()
            if not producers.truncate(log.log_start):
                producers = producers.before(log.log_start)
            await _truncate_fully(log, min(to_offset, log.log_start), producers)
            return
        end = first.reader.header_at(size).base_offset if size < first.size else to_offset
        await _truncate_segments(log, kept, end, prepare_truncation(first, size) if size else None)


async def truncate_before_damage(
    log: LogParts, segment: SealedSegment | OpenSegmentPrefix, position: int, offset: int
) -> bool:
    """Truncates the log before a damaged batch at this position of the segment and this offset.

    Returns False, and changes nothing, if the remaining batches of the segment do not prove that they are intact.
    """
    async with log.disk.lock:
        log.disk.check()
        if segment.is_closed or offset <= log.log_start:
            return False
        kept = len(log.segment_list.sealed)
        first: Segment = log.segment_list.open
        if isinstance(segment, SealedSegment):
            kept, first = log.segment_list.place_of(segment.base), segment
        prepared = prepare_truncation_before_damage(first, offset, position) if position else None
        if prepared is None and position:
            return False
        await _truncate_segments(log, kept, offset, prepared)
        return True


async def truncate_fully(log: LogParts, new_start: int, producers: ProducerStates) -> None:
    """Removes everything. The log goes on at the offset `new_start`, wherever that is, with these producer states."""
    async with log.disk.lock:
        log.disk.check()
        await _truncate_fully(log, new_start, producers)


async def complete_truncation(log: LogParts) -> None:
    """Makes a pending truncation durable; does nothing if there is none. The caller holds the lock.

    Raises OSError. If the process has too many open files, the truncation stays pending for the next call.
    """
    if not log.is_truncation_pending:
        return
    with trio.CancelScope(shield=True):  # otherwise a cancelled caller could leave it pending for ever
        if log.log_end == log.log_start:
            await _sync_producers(log)
        await retry_when_out_of_files(lambda: log.disk.sync(log.log_epochs.with_epoch_starts))
        if log.must_load_producers:
            await retry_when_out_of_files(lambda: load_producers_in_steps(log))
    log.is_truncation_pending = False


async def _truncate_segments(log: LogParts, kept: int, end: int, prepared: PreparedTruncation | None) -> None:
    """Keeps the first `kept` sealed segments, and of the next one what is prepared, if anything."""
    removed: list[Segment] = [*log.segment_list.sealed[kept:], log.segment_list.open]
    first = removed[0]
    log.log_epochs.truncate(end)
    await _begin(log, kept, synced_end=min(log.disk.synced_end, first.base))
    with _failing_log(log):
        for segment in reversed(removed):
            log.snapshots.remove(segment.end)
            if segment is not first or prepared is None:
                segment.close()
                log.maker.remove(segment.base)
        log.segment_list.open = prepared.apply() if prepared else log.maker.new_segment(first.base)
    _shorten(log)
    if isinstance(first, SealedSegment):
        log.snapshots.on_new_segment()
    else:
        log.snapshots.on_truncated(log.log_end)
    if log.knows_producers and not log.producers.truncate(log.log_end):
        log.knows_producers, log.must_load_producers = False, True
    log.transactions.on_truncated(first, log.producers, is_known=log.knows_producers)
    await complete_truncation(log)


async def _truncate_fully(log: LogParts, new_start: int, producers: ProducerStates) -> None:
    removed: list[Segment] = [*log.segment_list.sealed, log.segment_list.open]
    log.log_start = new_start
    log.log_epochs = LogEpochs(LeaderEpochs(), stamped_end=0)
    await _begin(log, 0, synced_end=new_start)
    with _failing_log(log):
        for segment in reversed(removed):
            segment.close()
            log.maker.remove(segment.base)
            log.snapshots.remove(segment.end)
        log.snapshots.remove(removed[0].base)
        log.segment_list.open = log.maker.new_segment(new_start)
    _shorten(log)
    log.snapshots.on_new_segment()
    log.producers, log.knows_producers, log.must_load_producers = producers, True, False
    log.transactions.on_started_over(producers)
    await complete_truncation(log)


async def _begin(log: LogParts, kept: int, *, synced_end: int) -> None:
    """Makes the manifest stop naming what will be removed, since everything that it names must exist."""
    log.rewrites += 1
    log.segment_list.sealed = log.segment_list.sealed[:kept]
    log.disk.synced_end = synced_end
    log.compaction_history = truncate_history(log.compaction_history, synced_end)
    await log.disk.replace_manifest(manifest_content(log))


@contextmanager
def _failing_log(log: LogParts) -> Iterator[None]:
    """Makes the log fail if its files could be truncated only in part: it has gaps then, and must not be closed."""
    try:
        yield
    except OSError as error:
        log.disk.fail(f"{log.directory}: the log could not be truncated", error)
        raise


def _shorten(log: LogParts) -> None:
    """Makes the log end with its last segment. From here on this is the log, even if syncing it takes more calls."""
    disk = log.disk
    log.is_truncation_pending = True
    disk.forget_entry()
    log.is_overgrown = False
    log.log_end = log.segment_list.open.end
    disk.synced_end = min(disk.synced_end, log.log_end)
    log.size_bytes = log.segment_list.size
    disk.unsynced_bytes = log.segment_list.open.size
    if log.log_end > log.log_start:
        log.log_epochs.truncate(log.log_end)
    disk.is_changed = True


async def _sync_producers(log: LogParts) -> None:
    """Brings a snapshot to the disk where no batch would tell of producers. A failed write is not an error."""
    with suppress(OSError):
        await retry_call_when_out_of_files(lambda: log.snapshots.write(log.log_end, log.producers))
    if (snapshot := await retry_call_when_out_of_files(lambda: log.snapshots.find(log.log_end))) is not None:
        await log.disk.sync_note(snapshot)
