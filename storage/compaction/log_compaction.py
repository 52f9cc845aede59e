"""Runs one compaction of one log: surveys the new records, then rewrites segments without superseded records.

The log's lock is held only while a new segment replaces old ones. The work between two checkpoints is small; only a
single batch is unpacked or packed without a pause.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Protocol

import crc32c
import trio
from msgspec import Struct

from tailrace.protocol.batches.keyed_records import keyed_records
from tailrace.protocol.batches.record_batch import BatchHeader, crc_of
from tailrace.protocol.batches.records import open_body
from tailrace.protocol.batches.transaction_markers import is_marker
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.descriptors import is_out_of_files
from tailrace.runtime.files import Buffer, File, Files
from tailrace.storage.directory.layout import Kind
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.compaction_history import Compacted, tombstones_end
from tailrace.storage.manifest.manifest import SegmentFacts
from tailrace.storage.segments.batch_walk import walk_whole
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_summary import SegmentSummary

from .compaction import AbortedRanges, KeptRecords, Rules, Survey, emptied
from .compaction_schedule import groups

PRODUCERS_KEPT_MS = 24 * 3600 * 1000
"""How long the last batch of a silent producer stays, even if only for its sequence numbers."""
REPEATED_MS = 15 * 60 * 1000
"""How long the batches before it stay, too. Producers give up repeating a batch after two to five minutes."""
_RECORDS_AT_ONCE = 200
"""The number of records between two checkpoints: half a millisecond of work, or twice that on a busy processor."""
_BYTES_LIKE_A_RECORD = 4096
_WRITE_BYTES = 256 * 1024


_Batch = tuple[File, int, BatchHeader, memoryview]
"""A batch with its file, its position and its header."""


class CannotCompactError(Exception):
    """The log could not be compacted, for example because the disk is full. The log is unchanged and usable."""


class CompactionOutcome(Struct, frozen=True):
    """The result of a compaction."""

    start: int
    end: int
    """The end of the range that was not compacted before and is now."""
    removed_records: int
    removed_bytes: int


class NewSegment(Struct, frozen=True):
    """A rewritten segment that lies complete and synced beside the old ones, and is ready to replace them."""

    path: str
    facts: SegmentFacts
    entries: IndexEntries
    dropped_markers: frozenset[int] = frozenset()
    """The offsets of the markers that the old segments had and the new one has not."""


class CompactedLog(Protocol):
    """What a log does for one compaction, under its lock. See `storage.log.compaction_steps`."""

    @property
    def history(self) -> Sequence[Compacted]:
        """The past compactions of the log."""

    def open_before(self, segment: SealedSegment) -> Iterable[int] | None:
        """Returns the producers with an open transaction in the snapshot of producer states before the segment. Returns
        None if there is no such snapshot."""

    async def replace_segments(self, old: Sequence[SealedSegment], new: NewSegment) -> bool:
        """Replaces the old segments by the new one. Returns False if the log has changed too much for that."""

    async def note_compaction(self, end: int, now_ms: int) -> bool:
        """Notes that everything below `end` is compacted. Returns False if the log has changed too much for that."""


class LogCompaction:
    """One compaction."""

    def __init__(self, log: CompactedLog, maker: SegmentMaker, config: LogConfig, now_ms: int, keys_max: int) -> None:
        self._log = log
        self._maker = maker
        self._config = config
        self._now_ms = now_ms
        self._keys_max = keys_max
        self._started = trio.current_time()
        self._removed_records = 0
        self._removed_bytes = 0

    async def run(
        self, segments: Sequence[SealedSegment], start: int, aborted: AbortedRanges
    ) -> CompactionOutcome | None:
        """Compacts these segments, which are all that may be compacted. Those below `start` were compacted before.

        `aborted` has all aborted transactions with records in these segments. None of the others is open.
        """
        try:
            with _putting_off():
                survey = await survey_segments(segments, start, self._keys_max, aborted)
            if survey is None or survey.end <= start:
                return None
            rules = Rules(
                survey,
                tombstones_end=tombstones_end(self._log.history, self._now_ms, self._config.delete_retention_ms),
                producers_since_ms=self._now_ms - PRODUCERS_KEPT_MS,
                repeated_since_ms=self._now_ms - REPEATED_MS,
            )
            segments = [segment for segment in segments if segment.base < survey.end]
            for group in groups([segment.facts for segment in segments], self._config):
                rules.begin_segment(partial(self._log.open_before, segments[group.start]))
                if not await self._rewrite(segments[group.start : group.stop], rules):
                    return None
        except KafkaError as error:
            raise CannotCompactError(error.message) from error
        took_ms = int((trio.current_time() - self._started) * 1000)
        if not await self._log.note_compaction(survey.end, self._now_ms + took_ms):
            return None
        return CompactionOutcome(start, survey.end, self._removed_records, self._removed_bytes)

    async def _rewrite(self, group: Sequence[SealedSegment], rules: Rules) -> bool:
        """Rewrites the segments of a group as one. Returns False if one of them was removed meanwhile.

        Then the other segments of the group are unchanged, and nothing may rely on this compaction.
        """
        path = self._maker.path(group[0].base, Kind.CLEANED_LOG)
        rewrite = SegmentRewrite(self._maker.files, path, group, rules, self._maker.config.index_interval_bytes)
        try:
            with _putting_off():
                new = await rewrite.run()
            if new is None:
                self._maker.files.remove(path)
                return not any(segment.is_closed for segment in group)
            if not await self._log.replace_segments(group, new):
                self._maker.files.remove(path)
                return False
        except OSError:
            # The log has failed, and its manifest may name the new segment. The next opening decides about it.
            raise
        except BaseException:
            self._maker.files.remove(path)
            raise
        self._removed_records += rewrite.removed_records
        self._removed_bytes += sum(segment.size for segment in group) - new.facts.size
        return True


@contextmanager
def _putting_off() -> Iterator[None]:
    """Turns a lack of file descriptors into CannotCompactError, so that the compaction is tried later."""
    try:
        yield
    except OSError as error:
        if is_out_of_files(error):
            raise CannotCompactError(str(error)) from error
        raise


class Pace:
    """Lets other tasks run after each small piece of work."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    async def on_batch(self, size: int) -> None:
        await self.on_records(1 + size // _BYTES_LIKE_A_RECORD)

    async def on_records(self, count: int) -> None:
        self._done += count
        if self._done >= _RECORDS_AT_ONCE:
            self._done = 0
            await trio.lowlevel.checkpoint()


async def survey_segments(
    segments: Sequence[SealedSegment], start: int, keys_max: int, aborted: AbortedRanges
) -> Survey | None:
    """Surveys the segments from `start` on. Returns None if one of them was removed meanwhile."""
    result, pace = Survey(start, keys_max, aborted), Pace()
    for segment in segments:
        if segment.is_closed:
            return None
        if segment.end <= start:
            continue
        for _, header, batch in _sealed_batches(segment):
            await pace.on_batch(header.size)
            if header.next_offset <= start:
                continue
            if result.begin(header):
                records = keyed_records(_body(batch, header), header.record_count)
                while not result.has_ended and (some := list(islice(records, _RECORDS_AT_ONCE))):
                    result.note(header, some)
                    await pace.on_records(len(some))
            if result.has_ended:
                return result
            result.finish(header)
        result.end = segment.end
    return result


def _sealed_batches(segment: SealedSegment) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yields position, header and all bytes of each batch.

    Raises KafkaError (CORRUPT_MESSAGE) unless base offsets and epochs are those that were sealed. Checksums of batches
    do not cover them.
    """
    facts = segment.facts
    found = SegmentSummary(facts.base)
    for position, header, batch in walk_whole(segment.reader.log.get(), facts.size):
        reason = found.refuses(header)
        if reason is not None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"at position {position} of {facts.base}: {reason}")
        found.add(batch, header)
        yield position, header, batch
    # If recovery has stamped the segment meanwhile, the result is not used anyway.
    if found.checksum != facts.checksum and segment.facts is facts:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"segment {facts.base} is not what was sealed")


def _with_next(batches: Iterable[_Batch]) -> Iterator[tuple[_Batch, _Batch | None]]:
    """Yields each batch with the one after it."""
    before: _Batch | None = None
    for batch in batches:
        if before is not None:
            yield before, batch
        before = batch
    if before is not None:
        yield before, None


def _body(batch: Buffer, header: BatchHeader) -> bytes:
    """Checks and unpacks the batch. A damaged batch must not get a new checksum that hides the damage."""
    if crc_of(batch, 0, header.size) != header.crc:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the checksum of the batch at offset {header.base_offset} does not match"
        )
    return open_body(batch, header)


class SegmentRewrite:
    """Writes neighbouring segments as one. Writes nothing until the first change."""

    def __init__(
        self, files: Files, path: str, group: Sequence[SealedSegment], rules: Rules, interval_bytes: int
    ) -> None:
        self.removed_records = 0
        self._dropped_markers: set[int] = set()
        self._files = files
        self._path = path
        self._group = group
        self._rules = rules
        self._pace = Pace()
        self._summary = SegmentSummary(group[0].base)
        self._entries = IndexEntries(interval_bytes)
        self._file: File | None = None
        self._unwritten: list[Buffer] = []
        self._unwritten_bytes = 0

    async def run(self) -> NewSegment | None:
        """Rewrites the group. Returns None if nothing changes, or if a segment was removed meanwhile."""
        if len(self._group) > 1:
            self._create()
        for each, following in _with_next(self._batches()):
            source, position, header, batch = each
            is_last = following is None or following[2].leader_epoch != header.leader_epoch
            replacement = await self._replacement(header, batch, is_last=is_last)
            if replacement is not batch and self._file is None:
                self._create()
                await self._copy(source, position)
            if replacement is not None:
                self._put(replacement, header)
            await self._pace.on_batch(header.size)
        if self._file is None or any(segment.is_closed for segment in self._group):
            return None
        self._write()
        try:
            await self._file.sync()
        except OSError as error:
            raise CannotCompactError(f"{self._path}: sync failed: {error}") from error
        return NewSegment(self._path, self._facts(), self._entries, frozenset(self._dropped_markers))

    def _batches(self) -> Iterator[_Batch]:
        for segment in self._group:
            if segment.is_closed:
                return
            source = segment.reader.log.get()
            for position, header, batch in _sealed_batches(segment):
                yield source, position, header, batch

    async def _replacement(self, header: BatchHeader, batch: Buffer, *, is_last: bool) -> Buffer | None:
        """Returns what replaces the batch: the batch itself, a smaller or empty one, or None.

        Changes the header accordingly.
        """
        rules = self._rules
        if is_marker(header):
            if rules.keeps_marker(header) or is_last:
                return batch
            self._dropped_markers.add(header.base_offset)
            return None
        if rules.looks_into(header):
            kept = KeptRecords(header)
            body = _body(batch, header)
            if not rules.is_aborted(header):
                kept = await self._kept_records(header, body)
            removed = header.record_count - kept.count
            if kept.count:
                rules.on_kept(header)
            if removed == 0:
                return batch
            self.removed_records += removed
            if kept.count:
                return kept.batch()
        elif header.record_count > 0 or header.is_control:
            if not header.is_control:
                rules.on_kept(header)
            return batch
        # The last batch of a segment stays because it shows where the segment ends, even without the manifest. The last
        # batch of a leader epoch stays because it shows that the epoch existed. All replicas keep a batch at that
        # offset, however they were compacted, so their logs can be compared there.
        if not is_last and not self._rules.keeps_empty(header):
            return None
        return emptied(header) if header.record_count else batch

    async def _kept_records(self, header: BatchHeader, body: bytes) -> KeptRecords:
        base_offset, keeps = header.base_offset, self._rules.keeps
        kept = KeptRecords(header)
        records = keyed_records(body, header.record_count)
        while some := list(islice(records, _RECORDS_AT_ONCE)):
            kept.add(body, [record for record in some if keeps(base_offset + record.offset_delta, record)])
            await self._pace.on_records(len(some))
        return kept

    def _create(self) -> None:
        try:
            self._files.remove(self._path)
            self._file = self._files.open(self._path, create=True)
        except OSError as error:
            raise CannotCompactError(f"{self._path} cannot be created: {error}") from error

    async def _copy(self, source: File, end: int) -> None:
        """Copies the beginning of the first segment, which is unchanged. Its batches are in the summary already."""
        for position in range(0, end, _WRITE_BYTES):
            self._unwritten = [source.read_at(position, min(_WRITE_BYTES, end - position))]
            self._write()
            await self._pace.on_batch(_WRITE_BYTES)

    def _put(self, batch: Buffer, header: BatchHeader) -> None:
        summary = self._summary
        self._entries.on_batch(header.base_offset - summary.base, summary.size, summary.max_timestamp)
        summary.add(batch, header)
        if self._file is not None:
            # A view would keep the whole read buffer in memory for the sake of a few batches.
            self._unwritten.append(bytes(batch) if isinstance(batch, memoryview) else batch)
            self._unwritten_bytes += len(batch)
            if self._unwritten_bytes >= _WRITE_BYTES:
                self._write()

    def _write(self) -> None:
        assert self._file is not None
        try:
            self._file.append(b"".join(self._unwritten))
        except OSError as error:
            raise CannotCompactError(f"{self._path} cannot be written: {error}") from error
        self._unwritten, self._unwritten_bytes = [], 0

    def _facts(self) -> SegmentFacts:
        summary, entries = self._summary, self._entries
        last = self._group[-1]
        assert summary.end == last.end
        is_plain = all(segment.facts.epoch_starts is None for segment in self._group)
        return SegmentFacts(
            base=summary.base,
            end=summary.end,
            epoch=summary.epoch,
            size=summary.size,
            checksum=summary.checksum,
            first_timestamp=summary.first_timestamp,
            max_timestamp=summary.max_timestamp,
            index_entries=len(entries),
            index_checksum=crc32c.crc32c(entries.offsets.tobytes()),
            time_index_checksum=crc32c.crc32c(entries.times.tobytes()),
            last_indexed_position=entries.last_position,
            producers_checksum=last.facts.producers_checksum,
            # The log fills in the epoch starts when the segment takes its place.
            epoch_starts=None if is_plain else (),
        )
