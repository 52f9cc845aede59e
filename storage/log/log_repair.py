"""Repairs an open log: checks its segments, finds damaged ones, and writes back what a scrub has proven.

The scrub itself reads a segment step by step and is in `segment_scrub`; `broker.upkeep.scrubbing` drives it.
"""

from collections.abc import Sequence
from contextlib import suppress

import trio

from tailrace.storage.manifest import manifest
from tailrace.storage.producers.producer_state import ProducerStates
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_list import Segment
from tailrace.storage.segments.segment_scrub import (
    OpenSegmentCheck,
    OpenSegmentPrefix,
    SegmentScrub,
    first_corrupt_segment,
)

from .log_parts import LogParts


def load_producers(log: LogParts) -> None:
    """Loads the producer states if they are unknown.

    Raises ProducersUnknownError as long as the header of a batch is damaged that would tell of them.
    """
    if not log.knows_producers:
        _take_producers(log, log.snapshots.load(log.segment_list.sealed, log.segment_list.open, None, {}))


async def load_producers_in_steps(log: LogParts) -> None:
    """Does what `load_producers` does, and lets other tasks run meanwhile. Nothing may be appended or truncated."""
    if not log.knows_producers:
        loading = log.snapshots.loading(log.segment_list.sealed, log.segment_list.open, None, {})
        while True:
            try:
                next(loading)
            except StopIteration as end:
                _take_producers(log, end.value)
                return
            await trio.lowlevel.checkpoint()


def _take_producers(log: LogParts, producers: ProducerStates) -> None:
    log.producers, log.knows_producers, log.must_load_producers = producers, True, False
    log.transactions.on_producers(producers, is_known=True)


def synced_segments(log: LogParts) -> Sequence[SealedSegment]:
    """Returns the sealed segments that are on the disk."""
    return [segment for segment in log.segment_list.sealed if segment.is_synced]


def check_open_segment(log: LogParts) -> OpenSegmentCheck | None:
    """Begins a check of the open segment; returns None while it is empty."""
    segment = log.segment_list.open
    return OpenSegmentCheck(segment, log.rewrites) if segment.size else None


def is_unchanged(log: LogParts, check: OpenSegmentCheck | OpenSegmentPrefix) -> bool:
    """Returns whether the log has only been appended to since the check of its open segment began."""
    return check.segment is log.segment_list.open and check.rewrites == log.rewrites


async def damaged_open_segment(log: LogParts, check: OpenSegmentCheck) -> SealedSegment | OpenSegmentPrefix | None:
    """Returns the open segment that the check has found damaged, ready for repair; None if it has changed since."""
    async with log.disk.lock:
        log.disk.check()
        return await _make_repairable(log, check.segment) if is_unchanged(log, check) else None


async def damaged_segment(log: LogParts, offset: int) -> SealedSegment | OpenSegmentPrefix | None:
    """Returns the first segment with corrupt batches soon after the offset, ready for repair; None if there is none."""
    async with log.disk.lock:
        log.disk.check()
        following = log.segment_list.between(offset, log.log_end) if offset < log.log_end else []
        segment = first_corrupt_segment(following, offset, log.log_epochs.starts.latest)
        return None if segment is None else await _make_repairable(log, segment)


async def _make_repairable(log: LogParts, segment: Segment) -> SealedSegment | OpenSegmentPrefix:
    """Seals an open segment if it may roll, so that nothing can happen to it during the repair.

    Otherwise the segment is repaired while it grows: perhaps nothing can be committed while it is damaged, and only a
    commit would allow it to roll.
    """
    open_segment = log.segment_list.open
    if segment is open_segment:
        if not log.may_roll(segment.base):
            facts = log.log_epochs.with_epoch_starts(log.segment_list.open_facts())
            return OpenSegmentPrefix(open_segment, facts, log.rewrites, lambda prefix: is_unchanged(log, prefix))
        log.roll()
    await log.disk.sync(log.log_epochs.with_epoch_starts)
    return log.segment_list.sealed[log.segment_list.place_of(segment.base)]


async def repair(log: LogParts, scrub: SegmentScrub) -> bool:
    """Writes the repairs that the scrub has proven, and corrects timestamps in the facts and the index.

    Returns False if the segment has changed meanwhile.
    """
    async with log.disk.lock:
        log.disk.check()
        if scrub.is_outdated:
            return False
        assert scrub.is_proven
        file = scrub.segment.reader.log.get()
        try:
            for position, batch in scrub.repairs.items():
                file.write_at(position, batch)
            if scrub.repairs:
                await log.disk.sync_file(file)
        except OSError as error:
            log.disk.fail(f"{file.path}: a damaged batch could not be written again", error)
            raise
        if scrub.has_other_times:
            await _correct_times(log, scrub)
        if scrub.repairs and log.on_compacted is not None:
            log.on_compacted()
        return True


async def _correct_times(log: LogParts, scrub: SegmentScrub) -> None:
    """Corrects timestamps that were noted from headers while these were corrupt."""
    segment, entries = scrub.segment, scrub.entries
    if isinstance(segment, OpenSegmentPrefix):
        segment.segment.correct_times(scrub.facts.size, *scrub.times, entries)
        return
    segment.correct_times(*scrub.times, entries)
    log.disk.is_changed = True
    if segment.is_synced:
        # If the disk has no room for the line, the next opening of the log leads to another scrub.
        with suppress(OSError):
            note = log.disk.note([manifest.sealed_line(segment.facts)])
            await log.disk.sync_note(note)
        log.disk.check()
