"""One compaction of one log: surveys what is new, then writes segments again without what was superseded.

Nothing of it holds the log's lock but the moment in which a new segment takes the place of old ones. The work between
two checkpoints is small; only a single batch is unpacked and packed in one go.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Protocol

import crc32c
import trio
from msgspec import Struct

from tailrace.protocol.batches.keyed_records import keyed_records
from tailrace.protocol.batches.record_batch import BatchHeader, crc_of
from tailrace.protocol.batches.records import open_body
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.descriptors import are_used_up
from tailrace.runtime.files import Buffer, File, Files
from tailrace.storage.directory.layout import Kind
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.manifest import Compacted, SegmentFacts
from tailrace.storage.segments.batch_walk import walk_whole
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_summary import SegmentSummary

from .compaction import KeptRecords, Rules, Survey, emptied, tombstones_end
from .compaction_schedule import groups

PRODUCERS_KEPT_MS = 24 * 3600 * 1000
"""So long the last batch of a silent producer stays, if only for its sequence numbers."""
REPEATED_MS = 15 * 60 * 1000
"""So long those before it stay too. Producers give up what they send again after two to five minutes."""
_RECORDS_AT_ONCE = 200
"""Half a millisecond of work, or twice that when the processor is busy."""
_BYTES_LIKE_A_RECORD = 4096
_WRITE_BYTES = 256 * 1024


_Batch = tuple[File, int, BatchHeader, memoryview]
"""In its file, at its position."""


class CannotCompactError(Exception):
    """The log is as it was, and goes on; there may be no room for the new segment, say."""


class CompactionOutcome(Struct, frozen=True):
    start: int
    end: int
    """Exclusive. What lies between was new, and is compacted now."""
    removed_records: int
    removed_bytes: int


class NewSegment(Struct, frozen=True):
    """It lies beside the old ones, whole and on the disk, and waits for their place."""

    path: str
    facts: SegmentFacts
    entries: IndexEntries


class CompactedLog(Protocol):
    """What a log does for its compaction, under its lock."""

    @property
    def compactions(self) -> Sequence[Compacted]: ...

    async def replace_segments(self, old: Sequence[SealedSegment], new: NewSegment, rewrites: int) -> bool: ...

    async def note_compaction(self, end: int, now_ms: int, rewrites: int) -> bool: ...


class LogCompaction:
    def __init__(
        self, log: CompactedLog, maker: SegmentMaker, config: LogConfig, now_ms: int, keys_max: int, rewrites: int
    ) -> None:
        """`rewrites`: how often the log had been cut or stamped when its segments were looked at. What supersedes a
        record must still be there when the record goes."""
        self._log = log
        self._maker = maker
        self._config = config
        self._now_ms = now_ms
        self._keys_max = keys_max
        self._rewrites = rewrites
        self._started = trio.current_time()
        self._removed_records = 0
        self._removed_bytes = 0

    async def run(self, segments: Sequence[SealedSegment], start: int) -> CompactionOutcome | None:
        """These are all from the first one on that may be compacted; below `start` they were already."""
        try:
            with _putting_off():
                survey = await survey_segments(segments, start, self._keys_max)
            if survey is None or survey.end <= start:
                return None
            rules = Rules(
                survey,
                tombstones_end=tombstones_end(self._log.compactions, self._now_ms, self._config.delete_retention_ms),
                producers_since_ms=self._now_ms - PRODUCERS_KEPT_MS,
                repeated_since_ms=self._now_ms - REPEATED_MS,
            )
            segments = [segment for segment in segments if segment.base < survey.end]
            for group in groups([segment.facts for segment in segments], self._config):
                if not await self._rewrite(segments[group.start : group.stop], rules):
                    return None
        except KafkaError as error:
            raise CannotCompactError(error.message) from error
        took_ms = int((trio.current_time() - self._started) * 1000)
        if not await self._log.note_compaction(survey.end, self._now_ms + took_ms, self._rewrites):
            return None
        return CompactionOutcome(start, survey.end, self._removed_records, self._removed_bytes)

    async def _rewrite(self, group: Sequence[SealedSegment], rules: Rules) -> bool:
        """False when a segment has gone meanwhile. Then others of its group are as they were, and nothing may rely
        on this compaction."""
        path = self._maker.path(group[0].base, Kind.CLEANED_LOG)
        rewrite = SegmentRewrite(self._maker.files, path, group, rules, self._maker.config.index_interval_bytes)
        try:
            with _putting_off():
                new = await rewrite.run()
            if new is None:
                self._maker.files.remove(path)
                return not any(segment.is_closed for segment in group)
            if not await self._log.replace_segments(group, new, self._rewrites):
                self._maker.files.remove(path)
                return False
        except OSError:
            # The log is offline now, and its manifest may name the new segment: it stays for the next opening.
            raise
        except BaseException:
            self._maker.files.remove(path)
            raise
        self._removed_records += rewrite.removed_records
        self._removed_bytes += sum(segment.size for segment in group) - new.facts.size
        return True


@contextmanager
def _putting_off() -> Iterator[None]:
    """Where all files that may be open are, it is for another time."""
    try:
        yield
    except OSError as error:
        if are_used_up(error):
            raise CannotCompactError(str(error)) from error
        raise


class Pace:
    """Lets everybody else go on after each small piece of work."""

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


async def survey_segments(segments: Sequence[SealedSegment], start: int, keys_max: int) -> Survey | None:
    """Of the segments from the offset on. None when one of them went meanwhile."""
    result, pace = Survey(start, keys_max), Pace()
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
                while not result.is_over and (some := list(islice(records, _RECORDS_AT_ONCE))):
                    result.note(header, some)
                    await pace.on_records(len(some))
            if result.is_over:
                return result
            result.finish(header)
        result.end = segment.end
    return result


def _sealed_batches(segment: SealedSegment) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and all bytes of each batch. KafkaError (CORRUPT_MESSAGE) unless offsets and epochs, too, which
    no batch's own checksum covers, are those that were sealed."""
    facts = segment.facts
    found = SegmentSummary(facts.base)
    for position, header, batch in walk_whole(segment.reader.log.get(), facts.size):
        reason = found.refuses(header)
        if reason is not None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"at position {position} of {facts.base}: {reason}")
        found.add(batch, header)
        yield position, header, batch
    # What recovery has stamped meanwhile is not replaced either.
    if found.checksum != facts.checksum and segment.facts is facts:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"segment {facts.base} is not what was sealed")


def _with_next(batches: Iterable[_Batch]) -> Iterator[tuple[_Batch, _Batch | None]]:
    before: _Batch | None = None
    for batch in batches:
        if before is not None:
            yield before, batch
        before = batch
    if before is not None:
        yield before, None


def _body(batch: Buffer, header: BatchHeader) -> bytes:
    """Damage must not get a new checksum that hides it."""
    if crc_of(batch, 0, header.size) != header.crc:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the checksum of the batch at offset {header.base_offset} does not match"
        )
    return open_body(batch, header)


class SegmentRewrite:
    """Writes neighbouring segments as one. As long as all stays as it is nothing is written."""

    def __init__(
        self, files: Files, path: str, group: Sequence[SealedSegment], rules: Rules, interval_bytes: int
    ) -> None:
        self.removed_records = 0
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
        """None when there is nothing to change, or a segment of the group went meanwhile."""
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
        return NewSegment(self._path, self._facts(), self._entries)

    def _batches(self) -> Iterator[_Batch]:
        for segment in self._group:
            if segment.is_closed:
                return
            source = segment.reader.log.get()
            for position, header, batch in _sealed_batches(segment):
                yield source, position, header, batch

    async def _replacement(self, header: BatchHeader, batch: Buffer, *, is_last: bool) -> Buffer | None:
        """What stands in place of the batch: itself, with fewer records, or nothing. The header changes along."""
        if self._rules.looks_into(header):
            body = _body(batch, header)
            kept = await self._kept_records(header, body)
            removed = header.record_count - kept.count
            if removed == 0:
                return batch
            self.removed_records += removed
            if kept.count:
                return kept.batch()
        elif header.record_count > 0 or header.is_control:
            return batch
        # The last batch of a segment says where it ends, also to whoever has lost the manifest; and the last one of a
        # leader epoch that there was this epoch. All replicas have one there, however they were compacted: so it is
        # where their logs can be compared.
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
        """The beginning of the first segment, which stays as it is; its batches were put already."""
        for position in range(0, end, _WRITE_BYTES):
            self._unwritten = [source.read_at(position, min(_WRITE_BYTES, end - position))]
            self._write()
            await self._pace.on_batch(_WRITE_BYTES)

    def _put(self, batch: Buffer, header: BatchHeader) -> None:
        summary = self._summary
        self._entries.on_batch(header.base_offset - summary.base, summary.size, summary.max_timestamp)
        summary.add(batch, header)
        if self._file is not None:
            # A view would keep all in memory that was read with it, however few batches are left of that.
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
            # Which ones began in it the log says when the segment takes its place, also where there are several.
            epoch_starts=None if is_plain else (),
        )
