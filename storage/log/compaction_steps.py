"""What an open log does for its compaction: chooses segments, swaps in rewritten ones, and notes the result.

The compaction itself reads and rewrites segments without the log's lock and is in `log_compaction`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, takewhile

import trio
from msgspec.structs import replace

from tailrace.protocol.error_codes import KafkaError
from tailrace.storage.compaction.compaction import AbortedRanges
from tailrace.storage.compaction.compaction_schedule import compactable_end, filled_since, is_due, must_roll
from tailrace.storage.compaction.log_compaction import CannotCompactError, CompactionOutcome, LogCompaction, NewSegment
from tailrace.storage.directory.layout import Kind
from tailrace.storage.manifest import manifest
from tailrace.storage.manifest.compaction_history import Compacted, add_compaction, compacted_up_to
from tailrace.storage.manifest.manifest import SegmentFacts
from tailrace.storage.segments.sealed_segment import SealedSegment

from .log_manifest import manifest_content
from .log_parts import LogParts


async def compact(log: LogParts, now_ms: int, high_watermark: int, *, keys_max: int) -> CompactionOutcome | None:
    """Compacts the log if that is due; otherwise returns None. See `Log.compact`."""
    async with log.disk.lock:
        log.disk.check()
        open_segment = log.segment_list.open
        if not open_segment.is_empty:
            base, first_timestamp_ms = open_segment.base, open_segment.summary.first_timestamp
            log.filled = filled_since(log.filled, base, first_timestamp_ms, now_ms)
            if must_roll(log.config, now_ms=now_ms, since_ms=log.filled[1]) and log.may_roll(base):
                with _ending_compaction(log):
                    log.roll()
    steps = CompactionSteps(log, log.rewrites)
    facts = [segment.facts for segment in log.segment_list.sealed]
    start = max(log.log_start, compacted_up_to(log.compaction_history))
    first_unstable = log.transactions.first_unstable(high_watermark)
    stable_end = high_watermark if first_unstable is None else min(high_watermark, first_unstable)
    end = compactable_end(facts, log.config, now_ms=now_ms, stable_end=stable_end)
    if not is_due(facts, log.config, now_ms=now_ms, start=start, end=end):
        return None
    if log.segment_list.unsynced():
        # A record must not be removed before the one that supersedes it is safe.
        with _ending_compaction(log):
            await log.sync()
    # Segments that are merged must be neighbours.
    segments = list(takewhile(lambda each: each.end <= end and each.is_synced, log.segment_list.sealed))
    aborted = _aborted_in(log, segments)
    return await LogCompaction(steps, log.maker, log.config, now_ms, keys_max).run(segments, start, aborted)


def _aborted_in(log: LogParts, segments: Sequence[SealedSegment]) -> AbortedRanges:
    """Returns the aborted transactions with records in these segments. Raises CannotCompactError."""
    if not segments:
        return AbortedRanges()
    try:
        return AbortedRanges(log.transactions.aborted(segments[0].base, segments[-1].end))
    except (KafkaError, OSError) as error:
        raise CannotCompactError(f"{log.directory}: aborted transactions cannot be read: {error}") from error


@contextmanager
def _ending_compaction(log: LogParts) -> Iterator[None]:
    """Turns an OSError, such as a full disk, into CannotCompactError, unless the log has failed with it."""
    try:
        yield
    except OSError as error:
        if log.disk.failure is not None:
            raise
        raise CannotCompactError(f"{log.directory}: {error}") from error


class CompactionSteps:
    """The steps of one compaction that need the log's lock."""

    def __init__(self, log: LogParts, rewrites: int) -> None:
        """`rewrites` is that of the log when its segments were chosen.

        If the log has been truncated or stamped since, a record that supersedes another may be gone. Then the
        compaction must not change anything more.
        """
        self._log = log
        self._rewrites = rewrites

    @property
    def history(self) -> Sequence[Compacted]:
        return self._log.compaction_history

    def open_before(self, segment: SealedSegment) -> list[int] | None:
        """Returns the producers with an open transaction in the snapshot of producer states before the segment. Returns
        None if there is no such snapshot."""
        log = self._log
        place = log.segment_list.place_of(segment.base)
        checksum = log.segment_list.sealed[place - 1].facts.producers_checksum if place else None
        return log.snapshots.open_at(segment.base, checksum)

    async def replace_segments(self, old: Sequence[SealedSegment], new: NewSegment) -> bool:
        """Replaces the old segments by the new one. Returns False if the log does not have them any more.

        Nothing cancels the replacement halfway.
        """
        log, disk = self._log, self._log.disk
        async with disk.lock:
            if disk.failure is not None or self._rewrites != log.rewrites or any(each.is_closed for each in old):
                return False
            assert log.segment_list.sealed[log.segment_list.place_of(new.facts.base) :][: len(old)] == list(old)
            facts = replace(
                log.log_epochs.with_epoch_starts(new.facts), aborted=log.transactions.merged(old, new.dropped_markers)
            )
            new = replace(new, facts=facts)
            with trio.CancelScope(shield=True):
                try:
                    await disk.sync_own_directory()
                    await self._note_replacement(old, new.facts)
                    # From here on the new segment counts: the opening of the log completes an interrupted replacement.
                    self._put_in_place(old, new)
                    await disk.sync_own_directory()
                except OSError as error:
                    disk.fail(f"{log.directory}: a compacted segment did not take its place", error)
                    raise
            return True

    async def _note_replacement(self, old: Sequence[SealedSegment], new: SegmentFacts) -> None:
        log, disk = self._log, self._log.disk
        if len(old) == 1 and not disk.wants_new_manifest:
            with _ending_compaction(log):
                file = disk.note([manifest.sealed_line(new)])
            await disk.sync_file(file)
            return
        content = manifest_content(log)
        for segment in old:
            del content.sealed[segment.base]
        content.sealed[new.base] = new
        if not await disk.replace_manifest_if_room(content):
            raise CannotCompactError(f"{log.directory}: there is no room for another manifest")

    def _put_in_place(self, old: Sequence[SealedSegment], new: NewSegment) -> None:
        """Renames the new file, and removes the old ones. A reader of an old file still has it."""
        log = self._log
        for segment in old:
            segment.close()
        log.files.rename(new.path, log.maker.path(new.facts.base, Kind.LOG))
        for before, segment in pairwise(old):
            log.maker.remove(segment.base)
            log.snapshots.remove(before.end)
        first = log.segment_list.place_of(new.facts.base)
        log.segment_list.sealed[first : first + len(old)] = [log.maker.replaced_segment(new.facts, new.entries)]
        log.size_bytes += new.facts.size - sum(segment.size for segment in old)
        log.disk.is_changed = True
        if log.on_compacted is not None:
            log.on_compacted()

    async def note_compaction(self, end: int, now_ms: int) -> bool:
        """Notes that everything below `end` is compacted and on the disk. Returns False if the log was truncated."""
        log = self._log
        async with log.disk.lock:
            log.disk.check()
            if self._rewrites != log.rewrites:
                return False
            history, newest = add_compaction(log.compaction_history, end, now_ms, log.config.delete_retention_ms)
            with _ending_compaction(log):
                log.disk.note([manifest.compacted_line(newest)])
            log.compaction_history = history
            log.disk.is_changed = True
            return True
