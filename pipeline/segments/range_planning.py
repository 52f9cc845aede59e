"""Plans the ranges that tasks read: from which copy, in which segment, and at which position they begin."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

import crc32c
from msgspec import Struct

from tailrace.protocol.batches.records import read_records
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.files import Files
from tailrace.storage.directory.layout import Kind, file_name
from tailrace.storage.indexes import offset_index, time_index
from tailrace.storage.indexes.offset_index import ENTRY_BYTES

from .copy_choice import Choice, Extent, Piece, choose_copies
from .copy_transactions import CopyTransactions, spans_of
from .log_copies import CopySegment, LogCopy
from .segment_options import SegmentOptions, offset_for
from .segment_reading import SegmentError, SegmentRange, SegmentReading
from .walked_segments import WalkedSegments


class PartitionPlan:
    """The plan for one partition, from its copies."""

    def __init__(
        self,
        files: Files,
        copies: Sequence[LogCopy],
        options: SegmentOptions,
        walked: WalkedSegments | None = None,
    ) -> None:
        """`walked`: what an earlier plan has read. Raises SegmentError."""
        self._files = files
        self._copies = copies
        self._options = options
        self._extents = [copy.extent(options) for copy in copies]
        self._transactions: list[CopyTransactions] = []
        """The transactions of each copy; none if records of all transactions are read."""
        if options.committed_only:
            for place, (copy, extent) in enumerate(zip(copies, self._extents, strict=True)):
                self._transactions.append(CopyTransactions(files, copy, extent.end, walked))
                self._extents[place] = Extent(extent.start, max(extent.start, self._transactions[-1].stable_end))

    @property
    def extent(self) -> Extent:
        """The offsets from the first to the last that any copy has for the query."""
        present = [extent for extent in self._extents if extent.start < extent.end]
        start = min((extent.start for extent in present or self._extents), default=0)
        return Extent(start, max((extent.end for extent in present), default=start))

    def ranges(self) -> list[SegmentRange]:
        """Returns the ranges that the options ask for. Raises SegmentError if records are missing."""
        options = self._options
        if options.all_copies:
            pieces = [
                Piece(place, extent.start, extent.end)
                for place, extent in enumerate(self._extents)
                if extent.start < extent.end
            ]
            start, end = self._bounds()
            return [
                found
                for piece in pieces
                for found in self._piece(
                    Piece(piece.copy, max(piece.start, start or 0), piece.end if end is None else min(piece.end, end))
                )
            ]
        return self.between(*self._bounds())

    def between(self, start: int | None, end: int | None) -> list[SegmentRange]:
        """Returns the ranges for the offsets in [start, end). None means all that there is on that side."""
        choice = choose_copies(self._extents, start, end)
        self._check_gaps(choice)
        return [found for piece in choice.pieces for found in self._piece(piece)]

    def first_offset(self) -> int:
        """Returns the offset with which a stream begins."""
        if self._options.starts_at_end:
            return self.extent.end
        start, _ = self._bounds()
        return self.extent.start if start is None else start

    def _bounds(self) -> tuple[int | None, int | None]:
        """Returns the offsets in which the query begins and ends, by offsets or by times."""
        options, copy = self._options, self._copies[0]
        start = offset_for(options.starting_offsets, copy.topic, copy.partition)
        end = offset_for(options.ending_offsets, copy.topic, copy.partition)
        if options.starting_timestamp_ms is not None:
            start = self.offset_at(options.starting_timestamp_ms)
        if options.ending_timestamp_ms is not None:
            end = self.offset_at(options.ending_timestamp_ms)
        # A range in options may go beyond what there is.
        return start, None if end is None else min(end, self.extent.end)

    def _check_gaps(self, choice: Choice) -> None:
        if not choice.gaps or not self._options.fail_on_data_loss:
            return
        gap, copy = choice.gaps[0], self._copies[0]
        directories = ", ".join(each.directory for each in self._copies)
        last = self.extent
        raise SegmentError(
            f"offsets {gap.start} to {gap.end - 1} of {copy.topic}/{copy.partition} are not in {directories}, which "
            f"have offsets {last.start} to {last.end - 1}: add the directories of the SPUs that have them, or set "
            "failOnDataLoss to false to go on without them"
        )

    # segments

    def _piece(self, piece: Piece) -> Iterator[SegmentRange]:
        copy = self._copies[piece.copy]
        aborted = self._transactions[piece.copy].aborted(piece.start, piece.end) if self._transactions else ()
        is_first = True
        for segment in copy.segments:
            start, end = max(segment.base, piece.start), min(segment.end, piece.end)
            if start < end:
                for found in self._split(copy, segment, start, end):
                    yield SegmentRange(
                        copy.topic, str(copy.topic_id), copy.partition, copy.directory, segment.base, found.start,
                        found.end, found.position, segment.size, is_first and found.start == start, found.bytes,
                        spans_of(aborted, found.start, found.end),
                    )  # fmt: skip
                is_first = False

    def _split(self, copy: LogCopy, segment: CopySegment, start: int, end: int) -> Iterator["_Split"]:
        """Splits a range at batches that the index names, so that each part has at most about the allowed size."""
        entries = self._offset_entries(copy, segment)
        first = offset_index.last_at_or_before(entries, start - segment.base)
        position = offset_index.position_of(entries[first]) if first >= 0 else 0
        last_position = self._end_position(copy, segment, entries, end)
        for entry in entries[first + 1 :]:
            offset, at = segment.base + offset_index.relative_offset_of(entry), offset_index.position_of(entry)
            if offset >= end:
                break
            if at - position >= self._options.max_split_bytes and offset > start:
                yield _Split(start, offset, position, at - position)
                start, position = offset, at
        yield _Split(start, end, position, max(0, last_position - position))

    def _end_position(self, copy: LogCopy, segment: CopySegment, entries: "array[int]", end: int) -> int:
        """Returns about where the range ends in the file."""
        if end < segment.end:
            last = offset_index.last_at_or_before(entries, end - segment.base)
            return offset_index.position_of(entries[last]) if last >= 0 else 0
        if segment.facts is not None:
            return segment.facts.size
        with suppress(FileNotFoundError):
            return self._files.size(f"{copy.directory}/{file_name(segment.base, Kind.LOG)}")
        return 0

    def _offset_entries(self, copy: LogCopy, segment: CopySegment) -> "array[int]":
        """Returns the entries of the offset index; none if it is missing or damaged: then it only takes longer.

        No checksum covers the index of an open segment. A wrong entry does no harm, because tasks check positions, and
        a split at any offset is right.
        """
        facts = segment.facts
        return self._entries(
            f"{copy.directory}/{file_name(segment.base, Kind.INDEX)}",
            "Q",
            None if facts is None else (facts.index_entries, facts.index_checksum),
        )

    def _time_entries(self, copy: LogCopy, segment: CopySegment) -> "array[int]":
        facts = segment.facts
        if facts is None:
            return array("q")
        path = f"{copy.directory}/{file_name(segment.base, Kind.TIME_INDEX)}"
        return self._entries(path, "q", (facts.index_entries, facts.time_index_checksum))

    def _entries(self, path: str, kind: str, expected: tuple[int, int] | None) -> "array[int]":
        content = b""
        with suppress(FileNotFoundError):
            content = self._files.read(path)
        if expected is not None:
            content = content[: expected[0] * ENTRY_BYTES]
            if len(content) != expected[0] * ENTRY_BYTES or crc32c.crc32c(content) != expected[1]:
                content = b""
        found = array(kind)
        found.frombytes(content[: len(content) // ENTRY_BYTES * ENTRY_BYTES])
        if expected is None and any(entry <= before for before, entry in pairwise(found)):
            return array(kind)
        return found

    # times

    def offset_at(self, timestamp_ms: int) -> int:
        """Returns the offset of the first record at or after the time; the end if there is none."""
        extent = self.extent
        for piece in choose_copies(self._extents, None, None).pieces:
            copy = self._copies[piece.copy]
            for segment in copy.segments:
                if segment.end <= piece.start or segment.base >= piece.end:
                    continue
                if segment.facts is not None and segment.facts.max_timestamp < timestamp_ms:
                    continue
                found = self._first_at(copy, segment, timestamp_ms, max(segment.base, piece.start), piece.end)
                if found is not None:
                    return found
        return extent.end

    def _first_at(self, copy: LogCopy, segment: CopySegment, timestamp_ms: int, start: int, end: int) -> int | None:
        position = 0
        entries, times = self._offset_entries(copy, segment), self._time_entries(copy, segment)
        if len(times) == len(entries) and (before := time_index.last_before(times, timestamp_ms)) >= 0:
            offset = segment.base + offset_index.relative_offset_of(entries[before])
            if offset > start:
                start, position = offset, offset_index.position_of(entries[before])
        wanted = SegmentRange(
            copy.topic, str(copy.topic_id), copy.partition, copy.directory, segment.base, start,
            min(segment.end, end), position, segment.size,
        )  # fmt: skip
        for header_only in SegmentReading(wanted, header_only=True, checks_crc=False).batches():
            header = header_only.header
            if header.is_control or header.max_timestamp < timestamp_ms:
                continue
            part = SegmentRange(
                copy.topic, str(copy.topic_id), copy.partition, copy.directory, segment.base,
                max(start, header.base_offset), min(header.next_offset, segment.end, end), header_only.position,
                segment.size,
            )  # fmt: skip
            reading = SegmentReading(part)
            for batch in reading.batches():
                try:
                    records = read_records(batch.content or b"")
                except KafkaError as error:
                    raise reading.undecodable(batch, error) from None
                for record in records:
                    if record.timestamp >= timestamp_ms and part.start <= record.offset < part.end:
                        return record.offset
        return None


class _Split(Struct, frozen=True):
    """A part of a segment."""

    start: int
    end: int
    position: int
    bytes: int
