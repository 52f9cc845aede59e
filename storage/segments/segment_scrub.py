"""Reads a segment again, every byte, while the log is in use: have all bits stayed what they were?

Whoever drives it rests between the steps, and brings a copy of a batch that is damaged here. What a copy may say is not
believed: only when the whole segment with it has the checksum that was noted when it was sealed are its bytes the ones
that were lost, and can be written where they were. So nothing that was right can be made wrong. Where each batch is
what it was and the segment is not, an offset or an epoch is wrong, which the neighbours tell: it is read again so.

What was taken from a header while it was damaged, times that is, is found to be wrong on that occasion as well.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from tailrace.protocol.batches.record_batch import HEADER_SIZE, BatchHeader, crc_of, read_header, stamp
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import NO_EPOCH
from tailrace.runtime.files import Buffer
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.manifest.leader_epochs import LeaderEpochs
from tailrace.storage.manifest.manifest import SegmentFacts

from .batch_scan import BatchScan
from .header_corrections import HeaderCorrections
from .open_segment import OpenSegment
from .sealed_segment import SealedSegment
from .segment_list import Segment
from .segment_summary import SegmentSummary

STEP_BYTES = 64 * 1024
CHECKED_BYTES_MIN = 2**20
"""More than a follower is sent at once."""
AS_THEY_ARE: Mapping[int, tuple[int, int]] = {}


def first_unsound(segments: Iterable[Segment], offset: int, epoch_max: int) -> Segment | None:
    """Of these, which follow each other, the first with batches soon after the offset that are not what they were."""
    left = CHECKED_BYTES_MIN
    for segment in segments:
        if not _is_sound(segment, offset, epoch_max):
            return segment
        left -= segment.size - segment.position_of(offset)
        if left <= 0:
            break
    return None


def _is_sound(segment: Segment, offset: int, epoch_max: int) -> bool:
    """Whether the next batches from an offset in it on are whole and in order."""
    try:
        start = segment.position_of(offset)
    except KafkaError:
        start = segment.size
    if start == segment.size:
        return False  # what is on the way to it is not whole
    end = segment.base
    scan = BatchScan(segment.reader.log.get(), segment.size)
    scan.go_to(start)
    for batch in scan:
        header = batch.header
        is_in_place = end <= header.base_offset < header.next_offset <= segment.end
        if not (batch.checksum_matches and is_in_place and 0 <= header.leader_epoch <= epoch_max):
            return False
        if batch.position >= start + CHECKED_BYTES_MIN:
            return True
        end = header.next_offset
    return scan.failure is None


class DamagedBatch(Struct, frozen=True):
    position: int
    offset: int
    """Where a copy of it is to be looked for."""
    reason: str
    header: BatchHeader | None
    """As it is here, if it can be read at all."""


class OpenBeginning:
    """What an open segment held when this was made. What was noted of that proves it as that of a sealed one does, as
    long as nothing but appends has happened to the log."""

    def __init__(
        self, segment: OpenSegment, facts: SegmentFacts, rewrites: int, is_there: Callable[["OpenBeginning"], bool]
    ) -> None:
        self.segment = segment
        self.reader = segment.reader
        self.facts = facts
        self.rewrites = rewrites
        self._is_there = is_there

    @property
    def base(self) -> int:
        return self.facts.base

    @property
    def is_closed(self) -> bool:
        return not self._is_there(self)


class SegmentScrub:
    def __init__(
        self, segment: SealedSegment | OpenBeginning, headers: Mapping[int, tuple[int, int]] = AS_THEY_ARE
    ) -> None:
        """With other offsets and epochs at some positions."""
        self.segment = segment
        self.facts = segment.facts
        self.mended: dict[int, bytes] = {}
        """What is to be written at which positions, once `is_proven`."""
        self.entries = IndexEntries(segment.reader.interval_bytes)
        """Of the index, with the times that there were."""
        self.sound_end: tuple[int, int] | None = None
        """Position and offset at which the first damaged batch begins, by those before it."""
        self._scan = BatchScan(segment.reader.log.get(), self.facts.size)
        self._summary = SegmentSummary(self.facts.base)
        self._showed_other_times = False
        self._headers = headers
        self._corrections = HeaderCorrections(self.facts)

    @property
    def is_over(self) -> bool:
        """Whether the segment is no longer what it was when this began: there is nothing to be found out any more."""
        return self.segment.is_closed or self.segment.facts is not self.facts

    @property
    def position(self) -> int:
        return self._scan.position

    @property
    def is_at_end(self) -> bool:
        return self._scan.position >= self.facts.size

    @property
    def is_unreadable(self) -> bool:
        """What comes next: the disk does not give it."""
        return self._scan.is_unreadable

    @property
    def is_proven(self) -> bool:
        """Of all that was read, with what was mended: these are the bytes that were sealed."""
        found, facts = self._summary, self.facts
        return (found.size, found.checksum) == (facts.size, facts.checksum)

    @property
    def times(self) -> tuple[int, int]:
        """The first and the largest one, of all that was read, with what was mended."""
        return self._summary.first_timestamp, self._summary.max_timestamp

    @property
    def has_other_times(self) -> bool:
        """Than were noted, or perhaps are in the index: whoever came by the damaged header has believed it."""
        return self._showed_other_times or self.times != (self.facts.first_timestamp, self.facts.max_timestamp)

    def step(self) -> DamagedBatch | None:
        """Reads on for a while, or up to the next batch that is damaged; then `mend` or `pass_over` it."""
        damaged = self._read_on()
        if damaged is not None and self.sound_end is None:
            self.sound_end = damaged.position, self._summary.end
        return damaged

    def _read_on(self) -> DamagedBatch | None:
        scan, until = self._scan, self._scan.position + STEP_BYTES
        for batch in scan:
            if not batch.checksum_matches:
                scan.go_to(batch.position)
                header = batch.header
                return DamagedBatch(batch.position, header.base_offset, "its checksum does not match", header)
            start, header = batch.start, batch.header
            if batch.position in self._headers:
                start = self.mended[batch.position] = _stamped(start, *self._headers[batch.position])
                header = read_header(start)
            self._take(batch.position, start, header)
            if scan.position >= until:
                return None
        if scan.failure is not None:
            return DamagedBatch(scan.position, self._summary.end, scan.failure, None)
        return None

    def mend(self, damaged: DamagedBatch, copy: Buffer) -> bool:
        """Goes on behind the batch as if it were this copy, which may have more after it; False if it cannot be."""
        try:
            header = read_header(copy)
        except KafkaError:
            return False
        size = header.size
        if crc_of(copy, 0, size) != header.crc:
            return False
        # Copies differ in the epoch that they were stamped with last.
        epoch = self._epoch_at(header.base_offset) if damaged.header is None else damaged.header.leader_epoch
        place = self._headers.get(damaged.position, (header.base_offset, epoch))
        batch = self.mended[damaged.position] = _stamped(copy[:size], *place)
        if damaged.header is not None and _time_of(damaged.header) != _time_of(header):
            self._showed_other_times = True
        self._take(damaged.position, batch[:HEADER_SIZE], read_header(batch))
        self._scan.go_to(damaged.position + size)
        return True

    def pass_over(self, damaged: DamagedBatch) -> None:
        """Nobody has a copy. Goes on behind the batch if that is known to be somewhere, and will prove nothing."""
        size = self.facts.size - damaged.position if damaged.header is None else damaged.header.size
        self._scan.go_to(damaged.position + size)

    def with_other_headers(self) -> list["SegmentScrub"]:
        """To read once more, at the end of a segment that is not proven, until one is; none if nothing seems out of
        place."""
        self._corrections.end()
        return [SegmentScrub(self.segment, guess) for guess in self._corrections.guesses]

    def _epoch_at(self, offset: int) -> int:
        """Of a batch that cannot be read: as the one before, unless the manifest says that a later epoch had begun."""
        epoch = max(self._summary.epoch, LeaderEpochs(self.facts.epoch_starts or ()).at(offset))
        return epoch if epoch != NO_EPOCH else self.facts.epoch

    def _take(self, position: int, start: bytes, header: BatchHeader) -> None:
        summary = self._summary
        if summary.refuses(header) is None:  # else its offset is damaged, and this proves nothing
            self.entries.on_batch(header.base_offset - summary.base, position, summary.max_timestamp)
        summary.add(start, header)
        self._corrections.add(position, header)


class OpenSegmentCheck:
    """Reads what an open segment held when this began: is it still what was appended?"""

    def __init__(self, segment: OpenSegment, rewrites: int) -> None:
        self.segment = segment
        self.rewrites = rewrites
        """How often the log had been cut or stamped: when it is again, this finds out nothing."""
        self._size, self._checksum = segment.size, segment.summary.checksum
        self._scan = BatchScan(segment.reader.log.get(), self._size)
        self._found = SegmentSummary(segment.base)

    @property
    def position(self) -> int:
        return self._scan.position

    @property
    def is_at_end(self) -> bool:
        return self._scan.position >= self._size

    def step(self) -> bool:
        """Reads on for a while. False if something is not what it was."""
        until = self._scan.position + STEP_BYTES
        for batch in self._scan:
            if not batch.checksum_matches:
                return False
            self._found.add(batch.start, batch.header)
            if self._scan.position >= until:
                break
        return self._scan.failure is None and (not self.is_at_end or self._found.checksum == self._checksum)


def _time_of(header: BatchHeader) -> tuple[int, bool]:
    """And whether there is a record that has it."""
    return header.max_timestamp, header.record_count > 0


def _stamped(batch: Buffer, base: int, epoch: int) -> bytes:
    stamped = bytearray(batch)
    stamp(stamped, 0, base, epoch)
    return bytes(stamped)
