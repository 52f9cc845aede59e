"""Scrubs one segment while the log is in use: finds corrupt batches, and repairs them from copies.

The caller rests between the steps and fetches a copy of a damaged batch from another replica. The copy itself is not
trusted. Only if the whole segment with the copy has the checksum that was noted when it was sealed are the bytes of the
copy the lost ones, and only then are they written. So a repair can make nothing worse. If all batches are valid but the
segment is not, a base offset or an epoch is corrupt: the segment is read again with corrections that the neighbouring
batches suggest.

Timestamps that were noted while a header was corrupt are found and corrected at the same time.
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
"""How much is checked behind an offset; more than a follower is sent at once."""
NO_CORRECTIONS: Mapping[int, tuple[int, int]] = {}
"""The corrections of a first scrub: none."""


def first_corrupt_segment(segments: Iterable[Segment], offset: int, epoch_max: int) -> Segment | None:
    """Returns the first of these consecutive segments that has corrupt batches soon after the offset; None if there
    is none."""
    left = CHECKED_BYTES_MIN
    for segment in segments:
        if not _is_sound(segment, offset, epoch_max):
            return segment
        left -= segment.size - segment.position_of(offset)
        if left <= 0:
            break
    return None


def _is_sound(segment: Segment, offset: int, epoch_max: int) -> bool:
    """Returns whether the next batches from the offset on are valid and in order."""
    try:
        start = segment.position_of(offset)
    except KafkaError:
        start = segment.size
    if start == segment.size:
        return False  # a batch before it is damaged
    end = segment.base
    scan = BatchScan(segment.reader.log.get(), segment.size)
    scan.seek(start)
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
    """A batch that failed its check."""

    position: int
    offset: int
    """The offset at which to look for a copy."""
    reason: str
    header: BatchHeader | None
    """The header as it is stored locally, if it can be read at all."""


class OpenSegmentPrefix:
    """What an open segment held when this object was made.

    The facts that were noted then prove it as those of a sealed segment do, as long as the log has only been appended
    to.
    """

    def __init__(
        self, segment: OpenSegment, facts: SegmentFacts, rewrites: int, is_there: Callable[["OpenSegmentPrefix"], bool]
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
    """Reads one segment step by step, and collects the repairs."""

    def __init__(
        self, segment: SealedSegment | OpenSegmentPrefix, headers: Mapping[int, tuple[int, int]] = NO_CORRECTIONS
    ) -> None:
        """Starts a scrub.

        `headers` are base offsets and epochs to assume at some positions instead of the stored ones.
        """
        self.segment = segment
        self.facts = segment.facts
        self.repairs: dict[int, bytes] = {}
        """The bytes to write, by position, once `is_proven`."""
        self.entries = IndexEntries(segment.reader.interval_bytes)
        """The entries of the segment's index, with repaired timestamps."""
        self.sound_end: tuple[int, int] | None = None
        """The position and the offset at which the first damaged batch begins, according to the batches before it."""
        self._scan = BatchScan(segment.reader.log.get(), self.facts.size)
        self._summary = SegmentSummary(self.facts.base)
        self._showed_other_times = False
        self._headers = headers
        self._corrections = HeaderCorrections(self.facts)

    @property
    def is_outdated(self) -> bool:
        """Whether the segment has changed since the scrub began, so that the scrub can find out nothing more."""
        return self.segment.is_closed or self.segment.facts is not self.facts

    @property
    def position(self) -> int:
        return self._scan.position

    @property
    def is_at_end(self) -> bool:
        return self._scan.position >= self.facts.size

    @property
    def is_unreadable(self) -> bool:
        """Whether the disk could not read the next bytes."""
        return self._scan.is_unreadable

    @property
    def is_proven(self) -> bool:
        """Whether everything that was read, with the repairs, is what was sealed."""
        found, facts = self._summary, self.facts
        return (found.size, found.checksum) == (facts.size, facts.checksum)

    @property
    def times(self) -> tuple[int, int]:
        """The first and the largest timestamp of everything that was read, with the repairs."""
        return self._summary.first_timestamp, self._summary.max_timestamp

    @property
    def has_other_times(self) -> bool:
        """Whether timestamps in the facts, or perhaps in the index, were taken from a damaged header."""
        return self._showed_other_times or self.times != (self.facts.first_timestamp, self.facts.max_timestamp)

    def step(self) -> DamagedBatch | None:
        """Reads on for a while, or up to the next damaged batch; then call `repair` or `skip` for it."""
        damaged = self._read_on()
        if damaged is not None and self.sound_end is None:
            self.sound_end = damaged.position, self._summary.end
        return damaged

    def _read_on(self) -> DamagedBatch | None:
        scan, until = self._scan, self._scan.position + STEP_BYTES
        for batch in scan:
            if not batch.checksum_matches:
                scan.seek(batch.position)
                header = batch.header
                return DamagedBatch(batch.position, header.base_offset, "its checksum does not match", header)
            start, header = batch.start, batch.header
            if batch.position in self._headers:
                start = self.repairs[batch.position] = _stamped(start, *self._headers[batch.position])
                header = read_header(start)
            self._take(batch.position, start, header)
            if scan.position >= until:
                return None
        if scan.failure is not None:
            return DamagedBatch(scan.position, self._summary.end, scan.failure, None)
        return None

    def repair(self, damaged: DamagedBatch, copy: Buffer) -> bool:
        """Continues behind the batch as if it were this copy. Returns False if the copy does not fit.

        `copy` may contain more bytes after the batch.
        """
        try:
            header = read_header(copy)
        except KafkaError:
            return False
        size = header.size
        if crc_of(copy, 0, size) != header.crc:
            return False
        # Copies may have different epochs, because they were stamped at different times.
        epoch = self._epoch_at(header.base_offset) if damaged.header is None else damaged.header.leader_epoch
        place = self._headers.get(damaged.position, (header.base_offset, epoch))
        batch = self.repairs[damaged.position] = _stamped(copy[:size], *place)
        if damaged.header is not None and _time_of(damaged.header) != _time_of(header):
            self._showed_other_times = True
        self._take(damaged.position, batch[:HEADER_SIZE], read_header(batch))
        self._scan.seek(damaged.position + size)
        return True

    def skip(self, damaged: DamagedBatch) -> None:
        """Continues behind a batch that has no copy. The scrub will prove nothing.

        If the end of the batch is unknown, the scrub ends.
        """
        size = self.facts.size - damaged.position if damaged.header is None else damaged.header.size
        self._scan.seek(damaged.position + size)

    def with_other_headers(self) -> list["SegmentScrub"]:
        """Returns scrubs to run, in order, until one proves the segment, after this one read all of it and did not.

        The list is empty if no header seems wrong.
        """
        self._corrections.end()
        return [SegmentScrub(self.segment, guess) for guess in self._corrections.guesses]

    def _epoch_at(self, offset: int) -> int:
        """Returns the likely epoch of an unreadable batch: that of the batch before, unless the manifest names a
        later one."""
        epoch = max(self._summary.epoch, LeaderEpochs(self.facts.epoch_starts or ()).at(offset))
        return epoch if epoch != NO_EPOCH else self.facts.epoch

    def _take(self, position: int, start: bytes, header: BatchHeader) -> None:
        summary = self._summary
        if summary.refuses(header) is None:  # otherwise its base offset is corrupt, and nothing is proven
            self.entries.on_batch(header.base_offset - summary.base, position, summary.max_timestamp)
        summary.add(start, header)
        self._corrections.add(position, header)


class OpenSegmentCheck:
    """Checks step by step that an open segment still holds what had been appended when the check began."""

    def __init__(self, segment: OpenSegment, rewrites: int) -> None:
        self.segment = segment
        self.rewrites = rewrites
        """How often the log had been truncated or stamped. If that changes, the check finds out nothing."""
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
        """Reads on for a while. Returns False if something is corrupt."""
        until = self._scan.position + STEP_BYTES
        for batch in self._scan:
            if not batch.checksum_matches:
                return False
            self._found.add(batch.start, batch.header)
            if self._scan.position >= until:
                break
        return self._scan.failure is None and (not self.is_at_end or self._found.checksum == self._checksum)


def _time_of(header: BatchHeader) -> tuple[int, bool]:
    """Returns the batch's largest timestamp and whether there is a record that has it."""
    return header.max_timestamp, header.record_count > 0


def _stamped(batch: Buffer, base: int, epoch: int) -> bytes:
    stamped = bytearray(batch)
    stamp(stamped, 0, base, epoch)
    return bytes(stamped)
