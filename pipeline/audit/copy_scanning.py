"""Reads the batches of one copy in a range of offsets, and goes on after damage.

What cannot be read becomes a finding. The comparison gets `Unreadable` for these offsets, so that one flipped bit is
reported once, for the copy in which it is.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import crc32c
from msgspec import Struct

from tailrace.protocol.batches.control_batches import CONTROL_BATCH_BYTES_MAX, ControlKind, bridge_epoch, control_kind
from tailrace.protocol.batches.record_batch import CONTROL, CRC_START, HEADER_SIZE, BatchHeader, crc_of, read_header
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.embedded.plain_files import PlainFile
from tailrace.storage.indexes import offset_index
from tailrace.storage.indexes.offset_index import ENTRY_BYTES
from tailrace.storage.manifest.manifest import SegmentFacts

from .audit_verdicts import EntryKind, Finding, Item, StoredBatch, Unreadable, Verdict
from .log_views import CLEANED_LOG, INDEX, LogView, ViewedSegment, segment_path

CHUNK_BYTES = 2**20
"""How much of each copy is in memory. A larger batch is read as a whole."""
_HEADER_CHUNK_BYTES = 4096

_KINDS = {ControlKind.HOLE: EntryKind.HOLE, ControlKind.BRIDGE: EntryKind.BRIDGE}


class ReadableFile(Protocol):
    """An open file."""

    def size(self) -> int: ...

    def read_at(self, position: int, count: int) -> bytes: ...


class SegmentPart(Struct, frozen=True):
    """What a range has seen of a sealed segment, to compare it with its checksum in the manifest."""

    copy: int
    base: int
    end: int
    size: int
    """The size of the segment according to the manifest."""
    checksum: int
    """The checksum according to the manifest."""
    first: int
    """The position at which the part begins."""
    last: int
    """The position at which the part ends."""
    batches: int
    found: int
    """The checksum of the headers in the part."""


class CopyScan:
    """The batches of one copy from `start` up to `end`. Iterating over `items` reads the files."""

    def __init__(
        self,
        number: int,
        view: LogView,
        start: int,
        end: int,
        high_watermark: int,
        *,
        checks_bodies: bool = True,
        open_file: Callable[[str], ReadableFile] = PlainFile,
    ) -> None:
        self.findings: list[Finding] = []
        self.parts: list[SegmentPart] = []
        self.bytes = 0
        self.has_more = False
        """Whether the log goes on beyond the high watermark."""
        self._number = number
        self._view = view
        self._start = start
        self._end = min(end, high_watermark)
        self._high_watermark = high_watermark
        self._checks_bodies = checks_bodies
        self._open_file = open_file
        self._reached = max(start, view.log_start)
        self._has_ended = False

    def items(self) -> Iterator[Item]:
        segments = self._view.segments
        for segment in segments:
            if segment.base >= self._end or self._has_ended:
                break
            if segment.end is not None and segment.end <= self._start:
                continue
            yield from self._segment(segment)
        if not self._has_ended and self._reached < self._end and (not segments or segments[-1].facts is not None):
            yield from self._ends_early(max(self._reached, self._view.log_start))

    def _segment(self, segment: ViewedSegment) -> Iterator[Item]:
        facts = segment.facts
        try:
            file = self._open(segment)
            yield from self._batches(segment, file)
        except FileNotFoundError:
            path = segment_path(self._view.directory, segment.base)
            yield from self._cannot_read(segment, Verdict.MISSING, segment.base, f"{path} is missing")
        except OSError as error:
            path = segment_path(self._view.directory, segment.base)
            reason = error.strerror or error
            first = self._reached if facts is not None else segment.base
            yield from self._cannot_read(segment, Verdict.ROTTEN, first, f"{path} cannot be read: {reason}")

    def _open(self, segment: ViewedSegment) -> ReadableFile:
        """Opens the segment. A compacted one has its new name from the moment at which the manifest names it, or a
        moment later."""
        file = self._open_file(segment_path(self._view.directory, segment.base))
        if segment.facts is not None and file.size() != segment.facts.size:
            try:
                cleaned = self._open_file(segment_path(self._view.directory, segment.base, CLEANED_LOG))
            except FileNotFoundError:
                return file
            if cleaned.size() == segment.facts.size:
                return cleaned
        return file

    def _batches(self, segment: ViewedSegment, file: ReadableFile) -> Iterator[Item]:
        facts, number = segment.facts, self._number
        path = segment_path(self._view.directory, segment.base)
        position = self._position(segment, file)
        chunk, within, end_before = b"", 0, segment.base
        chunk_bytes = CHUNK_BYTES if self._checks_bodies else _HEADER_CHUNK_BYTES
        part_first: int | None = None
        count = checksum = 0
        try:
            while True:
                if len(chunk) - within < HEADER_SIZE:
                    chunk, within = file.read_at(position, chunk_bytes), 0
                    if len(chunk) < HEADER_SIZE:
                        yield from self._at_end(segment, file, position, len(chunk), end_before)
                        return
                try:
                    header = read_header(chunk, within)
                except KafkaError as error:
                    sentence = f"{path} is damaged at position {position}: {error.message}"
                    yield from self._cannot_read(segment, Verdict.ROTTEN, end_before, sentence)
                    return
                size = header.size
                needed = size if self._checks_bodies else min(size, CONTROL_BATCH_BYTES_MAX)
                if len(chunk) - within < needed:
                    if position + size > file.size():
                        rest = file.size() - position
                        yield from self._at_end(segment, file, position, rest, end_before)
                        return
                    chunk, within = file.read_at(position, max(chunk_bytes, needed)), 0
                wrong = self._out_of_place(segment, header, end_before, facts)
                if wrong is not None:
                    is_whole = self._checks_bodies and crc_of(chunk, within, size) == header.crc
                    verdict = Verdict.DIVERGED if is_whole else Verdict.ROTTEN
                    sentence = f"{path} is not what was written at position {position}: {wrong}"
                    yield from self._cannot_read(segment, verdict, end_before, sentence)
                    return
                if header.base_offset >= self._end:
                    self._has_ended = True
                    self._reached = self._end
                    self.has_more = header.base_offset >= self._high_watermark
                    return
                if header.base_offset >= self._start:
                    part_first = position if part_first is None else part_first
                    checksum = crc32c.crc32c(chunk[within : within + CRC_START], checksum)
                    count += 1
                    self.bytes += size
                end_before = header.next_offset
                self._reached = max(self._reached, end_before)
                if end_before > max(self._start, self._view.log_start):
                    yield self._batch(header, chunk, within)
                position += size
                within = min(within + size, len(chunk))
        finally:
            if facts is not None and part_first is not None:
                self.parts.append(
                    SegmentPart(
                        number, facts.base, facts.end, facts.size, facts.checksum, part_first, position, count, checksum
                    )
                )

    def _out_of_place(
        self, segment: ViewedSegment, header: BatchHeader, end_before: int, facts: SegmentFacts | None
    ) -> str | None:
        """Returns why the batch cannot be in this place of the segment."""
        if header.last_offset_delta < 0 or header.record_count < 0:
            return f"the batch at offset {header.base_offset} has a negative number of records"
        if header.base_offset < end_before:
            return f"offset {header.base_offset} comes after offset {end_before - 1}"
        if facts is not None and header.next_offset > facts.end:
            return f"offset {header.last_offset} is in a segment that ends at offset {facts.end}"
        return None

    def _batch(self, header: BatchHeader, chunk: bytes, within: int) -> StoredBatch:
        kind, named_epoch, is_sound = EntryKind.EVENT, -1, True
        content: memoryview | bytes = b""
        if self._checks_bodies:
            is_sound = crc_of(chunk, within, header.size) == header.crc
            content = memoryview(chunk)[within : within + header.size]
        if header.attributes & CONTROL:
            control = control_kind(header, chunk, within)
            kind = _KINDS[control] if control is not None else EntryKind.MARKER
            named_epoch = bridge_epoch(chunk, within) if kind is EntryKind.BRIDGE else -1
        return StoredBatch(header, kind, named_epoch, is_sound, content)

    def _at_end(self, segment: ViewedSegment, file: ReadableFile, position: int, rest: int, end: int) -> Iterator[Item]:
        """Decides whether a file may end at this position. `rest`: how many bytes follow, which are no whole batch."""
        facts, path = segment.facts, segment_path(self._view.directory, segment.base)
        if facts is not None:
            if file.size() < facts.size:
                sentence = f"{path} has {file.size()} bytes, and had {facts.size} when it was sealed"
                yield from self._cannot_read(segment, Verdict.MISSING, end, sentence)
            elif file.size() > facts.size or rest:
                sentence = f"{path} is damaged at position {position}: no batch of a sealed segment is there"
                yield from self._cannot_read(segment, Verdict.ROTTEN, end, sentence)
            elif end < facts.end:
                sentence = f"{path} ends at offset {end}, and its last one was {facts.end - 1} when it was sealed"
                yield from self._cannot_read(segment, Verdict.MISSING, end, sentence)
        elif segment.end is None and end < self._end:
            yield from self._ends_early(max(end, self._start, self._view.log_start))
        elif rest and segment.end is not None:
            sentence = f"{path} is damaged at position {position}: no batch is there"
            yield from self._cannot_read(segment, Verdict.ROTTEN, end, sentence)

    def _ends_early(self, end: int) -> Iterator[Item]:
        self._has_ended = True
        if end < self._end:
            sentence = f"the log ends at offset {end}, and everything below {self._high_watermark} was committed"
            self.findings.append(Finding(self._number, Verdict.MISSING, end, self._high_watermark - 1, sentence))
            yield Unreadable(end, self._end, is_missing=True)

    def _cannot_read(self, segment: ViewedSegment, verdict: Verdict, first: int, sentence: str) -> Iterator[Item]:
        """Reports that nothing from `first` up to the end of the segment can be read."""
        first = max(first, self._start, self._view.log_start)
        end = self._end if segment.end is None else min(segment.end, self._end)
        self._reached = max(self._reached, end)
        self._has_ended = self._has_ended or segment.end is None
        if first < end:
            self.findings.append(Finding(self._number, verdict, first, end - 1, sentence))
            yield Unreadable(first, end, is_missing=verdict is Verdict.MISSING)

    # the index

    def _position(self, segment: ViewedSegment, file: ReadableFile) -> int:
        """Returns a position at or before the first batch of the range, by the index if it is right."""
        if self._start <= segment.base:
            return 0
        try:
            index = self._open_file(segment_path(self._view.directory, segment.base, INDEX))
        except OSError:
            return 0
        entry = _last_at_or_before(index, self._start - segment.base)
        if entry is None:
            return 0
        position = offset_index.position_of(entry)
        try:
            header = read_header(file.read_at(position, HEADER_SIZE))
        except KafkaError:
            return 0
        return position if header.base_offset == segment.base + offset_index.relative_offset_of(entry) else 0


def _last_at_or_before(index: ReadableFile, relative_offset: int) -> int | None:
    """Returns the last entry of an index whose batch begins at or before the offset."""
    low, high = 0, index.size() // ENTRY_BYTES
    found = None
    while low < high:
        middle = (low + high) // 2
        entry = int.from_bytes(index.read_at(middle * ENTRY_BYTES, ENTRY_BYTES), "little")
        if offset_index.relative_offset_of(entry) <= relative_offset:
            low, found = middle + 1, entry
        else:
            high = middle
    return found
