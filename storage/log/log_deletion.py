"""Deletes the beginning of an open log: by request, and by retention.

The records are deleted for readers at once. Their bytes go with whole segments; if no record is left, with all of them.
The manifest states the new log start before any file is removed, so that a crash in between leaves nothing unexplained.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from tailrace.storage.directory.layout import Kind
from tailrace.storage.manifest import manifest
from tailrace.storage.manifest.leader_epochs import LeaderEpochs
from tailrace.storage.manifest.manifest import SegmentFacts
from tailrace.storage.segments.segment_list import Segment, by_end

from .log_disk import is_disk_full
from .log_parts import LogParts
from .log_truncation import complete_truncation
from .retention import segments_to_remove

T = TypeVar("T")


async def advance_log_start(log: LogParts, offset: int) -> None:
    """Deletes the records below the offset. The deletion is durable when this returns."""
    assert offset <= log.log_end
    disk = log.disk
    async with disk.lock:
        disk.check()
        await complete_truncation(log)
        if offset > log.log_start:
            if disk.synced_end < offset < log.log_end:
                # If a power failure empties the log, it must not start in the middle of a batch that others have.
                await disk.sync(log.log_epochs.with_epoch_starts)
            await _advance_log_start(log, offset)


async def apply_retention(log: LogParts, now_ms: int, high_watermark: int) -> list[SegmentFacts]:
    """Removes the segments that have expired, and returns the facts about them."""
    async with log.disk.lock:
        log.disk.check()
        segments = log.segment_list.facts()
        if log.segment_list.open.is_empty:
            segments = segments[:-1]
        count = segments_to_remove(
            segments, log.config, now_ms=now_ms, log_start=log.log_start, high_watermark=high_watermark
        )
        if count == 0:
            return []
        return await _advance_log_start(log, max(log.log_start, segments[count - 1].end))


async def _advance_log_start(log: LogParts, offset: int) -> list[SegmentFacts]:
    segments, disk = log.segment_list, log.disk
    going: list[Segment] = [*segments.sealed[: bisect_right(segments.sealed, offset, key=by_end)]]
    if offset == log.log_end and not segments.open.is_empty:
        going.append(segments.open)
        _with_room_of(going, log.roll)
    count = len(going)
    if count:
        await _sync_snapshot_behind(log, count - 1)
    epochs = LeaderEpochs(log.log_epochs.starts)
    epochs.advance_start(offset)
    start, flushed = manifest.start_line(offset), manifest.flushed_line(disk.synced_end)
    # The segment that told of the first epoch may be among those that go. Only the manifest tells where the log begins,
    # so it says so twice: a flipped bit damages one line, or two neighbouring ones.
    lines = [start, flushed, *map(manifest.epoch_line, list(epochs)[:1]), start]
    file = _with_room_of(going, lambda: disk.note(lines))
    log.log_start, log.log_epochs.starts = offset, epochs
    disk.is_changed = True
    await disk.sync_note(file)
    removed, segments.sealed[:count] = segments.sealed[:count], []
    for segment in removed:
        await _remove(log, segment)
    if removed:
        disk.forget_entry()
    return [segment.facts for segment in removed]


async def _sync_snapshot_behind(log: LogParts, index: int) -> None:
    """Syncs the first snapshot behind the segments up to this index; nothing else will tell of their producers."""
    for segment in log.segment_list.sealed[index:]:
        if (snapshot := log.snapshots.find(segment.end)) is not None:
            await log.disk.sync_note(snapshot)
            return


async def _remove(log: LogParts, segment: Segment) -> None:
    segment.close()
    log.size_bytes -= segment.size
    await log.files.discard(log.maker.path(segment.base, Kind.LOG))
    log.maker.remove(segment.base)
    # The snapshot at its end stays: it tells what came before the segment that is the first one now.
    log.snapshots.remove(segment.base)


def _with_room_of(segments: Sequence[Segment], work: Callable[[], T]) -> T:
    """Does the work. If the disk is full, removes the indexes of these segments, which are about to go, and retries.

    If a segment stays in the end, its index is rebuilt when it is needed.
    """
    try:
        return work()
    except OSError as error:
        if not is_disk_full(error):
            raise
    for segment in segments:
        segment.reader.index.make_room()
    return work()
