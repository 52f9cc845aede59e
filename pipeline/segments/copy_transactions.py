"""Finds the transactions of a copy that were aborted, and the offset before which every transaction is decided.

An SPU keeps both beside its segments: lists of aborted transactions, and snapshots of the states of producers. So only
what follows the last snapshot is read, such as the open segment, and only the headers of its batches.
"""

from bisect import bisect_left
from collections.abc import Sequence

from tailrace.protocol.batches.record_batch import HEADER_SIZE, TRANSACTIONAL, read_header
from tailrace.protocol.batches.transaction_markers import is_marker, marker_of
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.files import Files
from tailrace.storage.directory.layout import Kind, file_name
from tailrace.storage.manifest.manifest import AbortedFacts
from tailrace.storage.producers.producer_snapshots import NO_PRODUCERS, checksum_of
from tailrace.storage.producers.producer_state import SNAPSHOT_MAGIC, ProducerStates
from tailrace.storage.transactions.aborted_transactions import (
    BEHIND_COPY,
    AbortedTransaction,
    decode_aborted,
    facts_of,
)

from .aborted_spans import AbortedSpan
from .log_copies import CopySegment, LogCopy
from .segment_reading import SegmentError, SegmentGoneError, SegmentRange, SegmentReading
from .walked_segments import WalkedSegment, WalkedSegments

_Opened = dict[int, int]
"""The first offsets of open transactions by producer, in the order of these offsets."""


class CopyTransactions:
    """The transactions of one copy."""

    def __init__(self, files: Files, copy: LogCopy, end: int, walked: WalkedSegments | None = None) -> None:
        """`end`: the offset after the last record that a query may read, apart from transactions.

        `walked`: what an earlier plan has read. Raises SegmentError.
        """
        self._walked = WalkedSegments() if walked is None else walked
        self._files = files
        self._copy = copy
        self._decided_before = min(copy.end, copy.high_watermark)
        """The offset before which a marker counts."""
        self._read: dict[int, list[AbortedTransaction]] = {}
        """The aborted transactions that end in segments about which the manifest says nothing, by base."""
        self.stable_end: int = min([end, *self._open_at(end).values()])
        """The offset before which a query may read: there, every transaction is decided."""

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions that overlap [start, end), in the order of their ends.

        Raises SegmentError.
        """
        found: list[AbortedTransaction] = []
        for segment in self._copy.segments:
            if segment.end > start:
                in_segment = self._of_segment(segment)
                found += in_segment
                if any(each.stable_offset >= end for each in in_segment):
                    break  # later transactions begin there or later
        return sorted((each for each in found if each.first_offset < end), key=lambda each: each.last_offset)

    # how far readers may read

    def _open_at(self, end: int) -> _Opened:
        """Returns the transactions that begin before `end`, and are not decided."""
        copy = self._copy
        if copy.log_start >= end or (copy.is_shelf and end <= copy.sealed_end):
            return {}  # a shelf gets only what is decided
        segments = copy.segments
        opened, place = self._last_snapshot(end)
        for segment in segments[place:]:
            if segment.base < end:
                self._pass(segment, opened, segment.base, min(segment.end, end))
        for segment in segments if opened else ():
            last = min(segment.end, self._decided_before)
            if end < last:
                self._pass(segment, opened, max(segment.base, end), last)
        return {producer_id: first for producer_id, first in opened.items() if first < end}

    def _pass(self, segment: CopySegment, opened: _Opened, start: int, end: int) -> None:
        """Applies the batches in [start, end) to the open transactions. Notes what was aborted if no list has it."""
        if segment.facts is not None:
            self._walk(segment, opened, start, end)
            return
        directory, base = self._copy.directory, segment.base
        known = self._walked.get(directory, base)
        if known is None or known.opened_before != opened or known.end > end or not self._is_as_walked(base, known):
            walked = WalkedSegment(dict(opened), dict(opened), [], start)
        else:
            walked = known.copy()  # what is known stays right if the rest cannot be read
        walked.aborted += self._walk(segment, walked.opened, walked.end, end, walked)
        self._walked.put(directory, base, walked)
        self._read[base] = list(walked.aborted)
        opened.clear()
        opened.update(walked.opened)

    def _is_as_walked(self, base: int, walked: WalkedSegment) -> bool:
        """Returns whether the last batch that was read is still in its place."""
        if walked.header is None:
            return True
        try:
            file = self._files.open(self._path(base, Kind.LOG))
            return read_header(file.read_at(walked.position, HEADER_SIZE)) == walked.header
        except (OSError, KafkaError):
            return False

    def _last_snapshot(self, end: int) -> tuple[_Opened, int]:
        """Returns the open transactions at the end of a segment, and the number of segments up to there."""
        segments = self._copy.segments
        for place in range(len(segments), 0, -1):
            before = segments[place - 1]
            if before.facts is not None and before.end <= end:
                opened = self._snapshot(before.end, before.facts.producers_checksum)
                if opened is not None:
                    return opened, place
        return (self._snapshot(segments[0].base, None) if segments else None) or {}, 0

    def _snapshot(self, offset: int, checksum: int | None) -> _Opened | None:
        """Reads a snapshot. Returns None if it is missing or not the one with this checksum."""
        if checksum == NO_PRODUCERS:
            return {}
        try:
            data = self._files.read(self._path(offset, Kind.PRODUCERS))
        except FileNotFoundError:
            return None
        if checksum not in (None, checksum_of(data)):
            return None
        if checksum is not None and data.startswith(SNAPSHOT_MAGIC):
            return {}  # no producer has ever written to a transaction
        states = ProducerStates.restore(data)
        return None if states is None else dict(states.open_transactions)

    def _walk(
        self, segment: CopySegment, opened: _Opened, start: int, end: int, walked: WalkedSegment | None = None
    ) -> list[AbortedTransaction]:
        """Applies the batches in [start, end) to the open transactions. Returns what was aborted.

        `walked` says where to begin, and is told where this ends.
        """
        copy = self._copy
        found: list[AbortedTransaction] = []
        wanted = SegmentRange(
            copy.topic, str(copy.topic_id), copy.partition, copy.directory, segment.base, start, end,
            0 if walked is None else walked.position, segment.size,
        )  # fmt: skip
        for batch in SegmentReading(wanted, header_only=True, checks_crc=False).batches():
            header = batch.header
            if is_marker(header):
                marker = marker_of(header, batch.control)
                first = None if marker is None else opened.pop(header.producer_id, None)
                if marker is not None and first is not None and not marker.is_commit:
                    stable = next(iter(opened.values()), header.next_offset)
                    found.append(AbortedTransaction(header.producer_id, first, header.base_offset, stable))
            elif header.attributes & TRANSACTIONAL:
                opened.setdefault(header.producer_id, header.base_offset)
            if walked is not None:
                walked.end, walked.position, walked.header = header.next_offset, batch.position, header
        return found

    # what was aborted

    def _of_segment(self, segment: CopySegment) -> Sequence[AbortedTransaction]:
        """Returns the aborted transactions with markers in the segment."""
        if segment.facts is None:
            return self._read.get(segment.base, ())
        if segment.facts.aborted is None:
            return ()
        listed = self._listed(segment, segment.facts.aborted)
        if listed is None:
            if segment.facts.aborted.foretold:
                path = self._path(segment.base, Kind.ABORTED)
                raise SegmentError(
                    f"{path} is missing or damaged, and only this file tells which records of {self._copy.topic}/"
                    f"{self._copy.partition} belong to aborted transactions: read other copies, or set committedOnly "
                    "to false"
                )
            listed = self._derived(segment)
        return [
            # The list of the next segment has the transaction again. Until its marker is known, the producer may
            # have another one there.
            AbortedTransaction(each.producer_id, each.first_offset, segment.end)
            if each.last_offset == BEHIND_COPY
            else each
            for each in listed
            if each.last_offset == BEHIND_COPY or each.last_offset < self._decided_before
        ]

    def _derived(self, segment: CopySegment) -> list[AbortedTransaction]:
        """Reads what was aborted from the batches; nothing if they were deleted meanwhile, as the task will notice."""
        opened, place = self._last_snapshot(segment.base)
        try:
            for before in self._copy.segments[place:]:
                if before.base < segment.base:
                    self._walk(before, opened, before.base, before.end)
            return self._walk(segment, opened, segment.base, segment.end)
        except SegmentGoneError:
            return []

    def _listed(self, segment: CopySegment, facts: AbortedFacts) -> list[AbortedTransaction] | None:
        """Reads the list beside a segment. Returns None if it is not the list that the manifest describes."""
        try:
            found = decode_aborted(self._files.read(self._path(segment.base, Kind.ABORTED)))
        except FileNotFoundError:
            return None
        return found if found is not None and facts_of(found) == facts else None

    def _path(self, offset: int, kind: Kind) -> str:
        return f"{self._copy.directory}/{file_name(offset, kind)}"


def spans_of(aborted: Sequence[AbortedTransaction], start: int, end: int) -> tuple[AbortedSpan, ...]:
    """Returns what a reader of [start, end) must know of aborted transactions in the order of their ends."""
    later = aborted[bisect_left(aborted, start, key=lambda each: each.last_offset) :]
    return tuple((each.producer_id, each.first_offset, each.last_offset) for each in later if each.first_offset < end)
