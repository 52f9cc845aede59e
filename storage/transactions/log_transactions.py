"""The transactions of one log: how far committed readers may read, and what they must skip.

Which transactions are open is part of the states of producers. This object adds which transactions have ended although
their markers may not be committed yet, and which transactions were aborted. All of it is a function of the log: it is
derived again from the segments whenever what is noted about them is missing, damaged or in doubt.

A copy of a part of a log, on a shelf, may end before the markers of its transactions. The leader that fills it tells in
advance which of them are aborted. Only the copy's own files tell that later.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter

from msgspec.structs import replace

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.batches.transaction_markers import is_marker, marker_of
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.files import Buffer, File, Files
from tailrace.storage.directory.layout import Kind, file_name
from tailrace.storage.manifest.manifest import UNKNOWN_ABORTED, AbortedFacts
from tailrace.storage.producers.producer_snapshots import ProducerSnapshots
from tailrace.storage.producers.producer_state import CompletedTransaction, ProducerStates
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_list import Segment, Segments
from tailrace.storage.segments.segment_recovery import LogDamagedError

from .aborted_transactions import (
    BEHIND_COPY,
    AbortedTransaction,
    aborted_of,
    decode_aborted,
    encode_aborted,
    facts_of,
)

CACHED_SEGMENTS_MAX = 8
"""The number of sealed segments whose aborted transactions are kept in memory."""
UNSTABLE_MIN = 1000
"""The number of transactions that are open or undecided up to which settled ones may stay behind an open one."""
_NOWHERE = 0
"""Stands for the end of a range of offsets that is empty."""

_by_first = attrgetter("first_offset")
_by_last = attrgetter("last_offset")


class LogTransactions:
    """The open, undecided and aborted transactions of one log."""

    __slots__ = (
        "_aborted",
        "_cache",
        "_closed",
        "_directory",
        "_doubtful_end",
        "_doubtful_from",
        "_ended",
        "_files",
        "_foretold",
        "_is_known",
        "_open_base",
        "_producers",
        "_segments",
        "_snapshots",
        "_sweep_at",
        "_unstable",
        "_unsynced",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        segments: Segments,
        snapshots: ProducerSnapshots,
        producers: ProducerStates,
        completed: dict[int, list[CompletedTransaction]],
        closed: AbortedFacts | None,
        *,
        is_known: bool,
    ) -> None:
        """`completed` are the transactions that end in each segment that was read when the log was opened, by its base.

        If the open segment is not among these, `closed` is what the manifest says about it, or UNKNOWN_ABORTED.
        `is_known`: whether the states of producers are known.
        """
        self._files = files
        self._directory = directory
        self._segments = segments
        self._snapshots = snapshots
        self._producers = producers
        self._is_known = is_known
        self._cache: OrderedDict[int, list[AbortedTransaction]] = OrderedDict()
        """The aborted transactions of sealed segments, by base."""
        self._ended: dict[int, list[CompletedTransaction]] | None = completed
        """What the opening of the log has read, until the first question about committed transactions."""
        self._doubtful_end: int = segments.open.end
        """The log end at the opening. Of the transactions that ended before it, those with uncommitted markers are not
        in `_unstable` yet."""
        self._unstable: dict[int, int | None] = dict.fromkeys(producers.open_transactions.values())
        """The transactions that are open, or whose markers may not be committed: from the first offset to the offset of
        the marker, in the order of the first offsets."""
        self._sweep_at = UNSTABLE_MIN
        """The size of `_unstable` at which settled transactions are removed that are behind an open one."""
        open_segment = segments.open
        self._open_base: int = open_segment.base
        self._closed: AbortedFacts | None = closed
        """What the manifest says about the open segment, until that changes."""
        self._aborted: list[AbortedTransaction] | None = None
        """The aborted transactions of the open segment, in the order of their markers. None means that they must be
        read: from the file that `_closed` describes, or from the segment."""
        self._foretold: dict[int, int] = {}
        """The open transactions that will be aborted, in a copy: the first offset here, by producer id."""
        self._unsynced: set[int] = set()
        """The bases of sealed segments whose files alone tell what was foretold, and may not be on the disk."""
        unknown = [segment.base for segment in segments.sealed if segment.facts.aborted == UNKNOWN_ABORTED]
        self._doubtful_from: int | None = min(unknown, default=None)
        if open_segment.base in completed:
            self._aborted = aborted_of(completed[open_segment.base])
            if open_segment.size and self._doubtful_from is None:
                self._doubtful_from = open_segment.base
        for segment in segments.sealed:
            if segment.base in completed and segment.facts.aborted == UNKNOWN_ABORTED:
                self._keep(segment, aborted_of(completed[segment.base]))

    # what readers may see

    @property
    def is_unsettled(self) -> bool:
        """Whether something is noted that a higher high watermark may settle."""
        return bool(self._unstable) or self._ended is not None

    def first_unstable(self, high_watermark: int) -> int | None:
        """Returns the first offset of the transactions that are open, or whose marker is not below the high watermark.

        The high watermark must not fall, unless the log is truncated. Returns 0 while the transactions are not known.
        """
        if (self._ended is not None or not self._is_known) and not self._resolve_doubt(high_watermark):
            return 0
        unstable = self._unstable
        if len(unstable) >= self._sweep_at:
            self._sweep(high_watermark)
            unstable = self._unstable
        while unstable:
            first = next(iter(unstable))
            marker_offset = unstable[first]
            if marker_offset is None or marker_offset >= high_watermark:
                return first
            del unstable[first]
        return None

    def _sweep(self, high_watermark: int) -> None:
        """Forgets settled transactions. One that stays open for long would otherwise keep all that follow it."""
        self._unstable = {
            first: marker for first, marker in self._unstable.items() if marker is None or marker >= high_watermark
        }
        self._sweep_at = max(UNSTABLE_MIN, 2 * len(self._unstable))

    def may_have_aborted(self, start: int) -> bool:
        """Returns whether an aborted transaction may end behind this offset. Reads nothing."""
        segments = self._segments
        if self._aborted is None or self._aborted or self._foretold:
            return True
        if start >= segments.open.base:
            return False
        return any(sealed.facts.aborted is not None for sealed in segments.sealed[segments.place_of(start) :])

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions that overlap the offsets in [start, end), sorted by their first offsets.

        Raises OSError and KafkaError if a segment has to be read, and that fails.
        """
        found: list[AbortedTransaction] = []
        segments = self._segments
        if start < segments.open.base:
            for sealed in segments.sealed[segments.place_of(start) :]:
                facts = sealed.facts.aborted
                if facts is None or (facts != UNKNOWN_ABORTED and facts.first_offset >= end):
                    continue
                if _add_overlapping(found, self._of_sealed(sealed), start, end):
                    return sorted(found, key=_by_first)
        _add_overlapping(found, self._of_open(), start, end)
        if self._foretold:
            _add_overlapping(found, self._behind(), start, end)
        return sorted(found, key=_by_first)

    # changes

    def on_appended(self, producers: ProducerStates, header: BatchHeader, data: Buffer, position: int) -> None:
        """Accounts for a batch of a transaction, or for a marker, at this position in the data."""
        if not is_marker(header):
            if producers.on_transactional(header):
                self._unstable[header.base_offset] = None
            return
        marker = marker_of(header, data, position)
        if marker is None:
            return
        completed = producers.on_marker(header, marker)
        if completed is None:
            return
        if completed.first_offset in self._unstable:
            self._unstable[completed.first_offset] = completed.last_offset
        if not completed.is_commit:
            self._load_before_change()
            if self._aborted is not None:
                self._aborted += aborted_of([completed])
            self._foretold.pop(completed.producer_id, None)

    def _load_before_change(self) -> None:
        """Reads the file of the open segment before what the manifest says of it is not true any more.

        If the file cannot be read, the segment is read when needed.
        """
        if self._aborted is None:
            self._aborted = self._read_open()
            self._closed = UNKNOWN_ABORTED

    def write_open(self) -> AbortedFacts | None:
        """Writes the file of the open segment as it is, and returns what the manifest must say about it."""
        return self._closed if self._aborted is None else self._write(self._open_base, self._aborted + self._behind())

    def on_rolled(self, base: int) -> None:
        """Notes that the open segment was sealed, and that the segment with this base is the open one."""
        if self._aborted is not None:
            aborted = self._aborted + self._behind()
            self._cache_it(self._open_base, aborted)
            if any(each.last_offset == BEHIND_COPY for each in aborted):
                self._unsynced.add(self._open_base)
        self._begin(base)

    def _begin(self, base: int) -> None:
        self._open_base, self._closed, self._aborted = base, None, []

    def on_truncated(self, first: Segment, producers: ProducerStates, *, is_known: bool) -> None:
        """Notes that the end of the log was removed, from `first` on, and that what remains of it is the open segment.

        `producers` are those of the remaining log if `is_known`.
        """
        segments = self._segments
        end, base = segments.open.end, segments.open.base
        aborted = self._aborted
        if isinstance(first, SealedSegment):
            aborted = self._cache.get(base)
            aborted = self._read(base, first.facts.aborted) if aborted is None else aborted
        self._aborted = None if aborted is None else [each for each in aborted if each.last_offset < end]
        self._open_base, self._closed = base, UNKNOWN_ABORTED
        opened, behind = producers.open_transactions, aborted or ()
        self._foretold = {
            each.producer_id: each.first_offset
            for each in (*behind, *self._behind())
            if each.last_offset == BEHIND_COPY and each.producer_id in opened and each.first_offset < end
        }
        if self._doubtful_from is None or self._doubtful_from > base:
            self._doubtful_from = base
        for each in [each for each in self._cache if each >= base]:
            del self._cache[each]
        self._unsynced = {each for each in self._unsynced if each < base}
        if self._ended is not None:
            self._ended = {each: some for each, some in self._ended.items() if each < base}
        self._doubtful_end = min(self._doubtful_end, end)
        self.on_producers(producers, is_known=is_known)

    def on_producers(self, producers: ProducerStates, *, is_known: bool) -> None:
        """Takes over the states of producers of the whole log. If they are not known, nothing is stable."""
        self._producers, self._is_known = producers, is_known
        end = self._segments.open.end
        unstable = dict.fromkeys(producers.open_transactions.values())
        unstable |= {first: marker for first, marker in self._unstable.items() if marker is not None and marker < end}
        self._unstable = dict(sorted(unstable.items()))

    def on_started_over(self, producers: ProducerStates) -> None:
        """Notes that all segments were removed, and that the log begins again with these states of producers."""
        self._cache.clear()
        self._unsynced.clear()
        self._unstable.clear()
        self._foretold.clear()
        self._ended, self._doubtful_end, self._doubtful_from = None, _NOWHERE, None
        self._begin(self._segments.open.base)
        self.on_producers(producers, is_known=True)

    def merged(self, old: Sequence[SealedSegment], dropped_markers: Container[int] = ()) -> AbortedFacts | None:
        """Writes the file of a segment that replaces these ones, and returns what the manifest must say about it.

        The new segment has no marker at the offsets in `dropped_markers`. A client that was told of such a transaction
        would skip all later records of its producer, because it would wait for the marker.
        """
        if all(each.facts.aborted is None for each in old):
            return None
        try:
            aborted = [
                transaction
                for each in old
                for transaction in self._of_sealed(each)
                if transaction.last_offset not in dropped_markers
            ]
        except (KafkaError, OSError):
            return UNKNOWN_ABORTED
        for each in old:
            self._cache.pop(each.base, None)
        return self._write(old[0].base, aborted)

    # copies that may end before markers

    def foretell(self, first_offsets: Mapping[int, int]) -> None:
        """Notes which of the open transactions will be aborted, in a copy that may end before their markers.

        `first_offsets` are those of the last aborted transaction of each producer in what was appended just now.
        """
        producers = self._producers
        for producer_id, first_offset in producers.open_transactions.items():
            known = first_offsets.get(producer_id)
            if known is not None and known > producers.marker_offset(producer_id):
                self._load_before_change()
                self._foretold[producer_id] = first_offset

    def on_producers_forgotten(self) -> None:
        """Notes that a copy forgets its producers, before the open segment is sealed."""
        self._aborted = self._of_open() + self._behind()
        self._foretold.clear()
        self._unstable.clear()

    def unsynced_files(self) -> list[File]:
        """Returns the files that must reach the disk before others rely on a copy. Raises OSError."""
        return [self._files.open(self._path(base)) for base in sorted(self._unsynced)]

    def on_synced(self) -> None:
        """Notes that the files that `unsynced_files` has returned are on the disk."""
        self._unsynced.clear()

    @property
    def doubtful_from(self) -> int | None:
        """The offset from which a copy may have lost what was foretold; None if it has not."""
        producers = self._producers
        has_transactions = bool(producers.open_transactions) or producers.has_markers_from(0)
        return self._doubtful_from if has_transactions else None

    def _behind(self) -> list[AbortedTransaction]:
        return [AbortedTransaction(each, first, BEHIND_COPY, first) for each, first in self._foretold.items()]

    # what is derived again

    def _resolve_doubt(self, high_watermark: int) -> bool:
        """Looks for transactions that ended before the log was opened, with markers that are not committed.

        Returns whether all transactions are known.
        """
        if not self._is_known:
            return False
        if self._doubtful_end > high_watermark and self._producers.has_markers_from(high_watermark):
            doubtful = self._segments.between(high_watermark, self._doubtful_end)
            try:
                ended = [each for segment in doubtful for each in self._ended_in(segment)]
            except (KafkaError, OSError):
                return False
            uncommitted = {
                each.first_offset: each.last_offset
                for each in ended
                if high_watermark <= each.last_offset < self._doubtful_end
            }
            self._unstable = dict(sorted((uncommitted | self._unstable).items()))
        self._ended, self._doubtful_end = None, _NOWHERE
        return True

    def _ended_in(self, segment: Segment) -> Sequence[CompletedTransaction]:
        found = self._ended.get(segment.base) if self._ended is not None else None
        return self._completed_in(segment) if found is None else found

    def _completed_in(self, segment: Segment) -> list[CompletedTransaction]:
        sealed = self._segments.sealed
        before = [each for each in sealed if each.base < segment.base]
        return self._snapshots.completed_in(before, segment)

    def _of_open(self) -> list[AbortedTransaction]:
        if self._aborted is None:
            found = self._read_open()
            if found is None:
                self._check_derivable(self._open_base, self._closed)
                found = aborted_of(self._completed_in(self._segments.open))
            self._aborted = found
        return self._aborted

    def _read_open(self) -> list[AbortedTransaction] | None:
        found = self._read(self._open_base, self._closed)
        if found is None:
            return None
        opened = self._producers.open_transactions
        behind = {each.producer_id: each.first_offset for each in found if each.last_offset == BEHIND_COPY}
        self._foretold |= {each: first for each, first in behind.items() if each in opened}
        return [each for each in found if each.last_offset != BEHIND_COPY]

    def _check_derivable(self, base: int, facts: AbortedFacts | None) -> None:
        """Raises LogDamagedError if the batches of the segment do not tell what a lost file told."""
        if facts is not None and facts.foretold:
            raise LogDamagedError(f"{self._path(base)} is damaged, and only this file tells what was aborted")

    def _of_sealed(self, segment: SealedSegment) -> list[AbortedTransaction]:
        facts = segment.facts.aborted
        if facts is None:
            return []
        found = self._cache.get(segment.base)
        if found is not None:
            self._cache.move_to_end(segment.base)
            return found
        found = self._read(segment.base, facts)
        if found is not None:
            self._cache_it(segment.base, found)
            return found
        self._check_derivable(segment.base, facts)
        found = aborted_of(self._completed_in(segment))
        self._keep(segment, found)
        return found

    def _keep(self, segment: SealedSegment, aborted: list[AbortedTransaction]) -> None:
        """Notes what was read of a sealed segment. The manifest says it when it is written the next time."""
        segment.facts = replace(segment.facts, aborted=self._write(segment.base, aborted))
        self._cache_it(segment.base, aborted)

    def _cache_it(self, base: int, aborted: list[AbortedTransaction]) -> None:
        if aborted:
            self._cache[base] = aborted
            if len(self._cache) > CACHED_SEGMENTS_MAX:
                self._cache.popitem(last=False)

    # files

    def _read(self, base: int, facts: AbortedFacts | None) -> list[AbortedTransaction] | None:
        """Reads a file. Returns None if it is not the one that the facts describe."""
        if facts is None:
            return []
        if facts == UNKNOWN_ABORTED:
            return None
        with suppress(OSError):
            found = decode_aborted(self._files.read(self._path(base)))
            if found is not None and facts_of(found) == facts:
                return found
        return None

    def _write(self, base: int, aborted: Sequence[AbortedTransaction]) -> AbortedFacts | None:
        """Writes a file, and returns what describes it.

        If the disk has no room for the file, the facts do not match it, and the segment is read when that is needed.
        """
        facts = facts_of(aborted)
        if facts is None:
            return None
        data = encode_aborted(aborted)
        path = self._path(base)
        with suppress(OSError):
            if self._files.exists(path) and self._files.read(path) == data:
                return facts
            self._files.remove(path)
            self._files.open(path, create=True).append(data)
        return facts

    def _path(self, base: int) -> str:
        return f"{self._directory}/{file_name(base, Kind.ABORTED)}"


def _add_overlapping(
    found: list[AbortedTransaction], aborted: Sequence[AbortedTransaction], start: int, end: int
) -> bool:
    """Adds the transactions that overlap [start, end). Returns whether none with a later marker can overlap it."""
    for each in aborted[bisect_left(aborted, start, key=_by_last) :]:
        if each.first_offset < end:
            found.append(each)
        if each.stable_offset >= end:
            return True
    return False
