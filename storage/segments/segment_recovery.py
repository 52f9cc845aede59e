"""Given a segment that was not sealed and synced: what of it survives, where it is cut, and why.

The steps have the numbers of docs/formats.md, "Recovering a segment".
"""

from msgspec import Struct, field

from tailrace.protocol.batches.record_batch import HEADER_SIZE, MAGIC, MAGIC_AT, BatchHeader, crc_of, read_header
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.files import Buffer
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.manifest.leader_epochs import EpochMark

from .batch_walk import FAR_BYTES, Readable, bridge_epoch_at, read_ahead
from .segment_summary import SegmentSummary

SEARCHED_BYTES = 2**20
"""Behind what is damaged, for a batch that is not."""
_MAGIC_BYTE = bytes([MAGIC])


class LogDamagedError(OSError):
    """Records that were safely on the disk are not what they were. Nothing is cut: the replica stays offline."""


class WouldLoseRecordsError(OSError):
    """A batch would be cut off, with all behind it, that is there as a whole and is not what it was. If the machine has
    gone on since, it had been written: a process that ends tears the last write and no more. Nothing is cut yet."""


class RecoveryReport(Struct):
    was_clean: bool = False
    """The log was closed properly and nothing had to be scanned."""
    scanned_bytes: int = 0
    cut_bytes: int = 0
    indexes_rebuilt: int = 0
    """Of the segments that were scanned; the others' are looked at when they are first used."""
    events: list[str] = field(default_factory=list)
    """Sentences: what was cut, dropped or finished, and why."""


class RecoveredSegment(Struct):
    summary: SegmentSummary
    """Of what survives; its size is where the segment has to be cut."""
    entries: IndexEntries
    cut_reason: str | None
    """Why what lies beyond cannot be believed; None when all of the segment survives."""
    marks: list[EpochMark]
    """What it tells of leader epochs."""
    ends_behind_gap: bool = False
    """The last batch is not where the one before it ends: compaction has been here, or its offset has flipped."""
    is_torn: bool = True
    """What is cut may never have been written as a whole."""
    trusted_size: int = 0
    """What comes first and lies below the trusted end, in bytes."""

    @property
    def ends_with_bridge(self) -> bool:
        return bool(self.marks) and self.marks[-1].is_bridge and self.marks[-1].start == self.summary.end - 1


def recover(file: Readable, size: int, base: int, *, trusted_end: int, interval_bytes: int) -> RecoveredSegment:
    """Below offset `trusted_end` everything has once been synced: headers are read, but no checksum is computed."""
    summary = SegmentSummary(base)
    entries = IndexEntries(interval_bytes)
    marks: list[EpochMark] = []
    chunk, chunk_position = memoryview(b""), 0
    reason = None
    is_torn = True
    trusted_size = 0
    gap: tuple[int, int] | None = None
    """Before the newest batch: where the log ended, and the batch's position."""
    while (position := summary.size) < size:
        within = position - chunk_position
        if len(chunk) - within < HEADER_SIZE:
            count = min(FAR_BYTES, size - position)
            chunk, chunk_position, within = _read(file, position, count, HEADER_SIZE), position, 0
        header = header_at(chunk, within, size - position)
        if isinstance(header, str):
            reason = header
            is_torn = not _has_batch_behind(file, position, size, summary.end)
            break
        if header.next_offset > trusted_end:
            if len(chunk) - within < header.size:
                count = min(max(FAR_BYTES, header.size), size - position)
                chunk, chunk_position, within = _read(file, position, count, header.size), position, 0
            # Step 4: what was on its way to the disk may have arrived in part, and not from its beginning.
            if len(chunk) - within < header.size or not _is_whole(chunk, within, header):
                reason = f"the checksum of the batch at offset {header.base_offset} does not match"
                is_torn = False
                break
        # Step 5.
        if (reason := summary.refuses(header)) is not None:
            is_torn = False
            if gap is not None and gap[0] <= header.base_offset < summary.end:
                # It would follow, were it not for the one before it, whose offset is wrong: no checksum covers that.
                before = recover(file, gap[1], base, trusted_end=trusted_end, interval_bytes=interval_bytes)
                before.cut_reason, before.is_torn = reason, is_torn
                return before
            break
        gap = (summary.end, position) if header.base_offset > summary.end else None
        entries.on_batch(header.base_offset - base, position, summary.max_timestamp)
        if header.leader_epoch != summary.epoch:
            marks.append(EpochMark(header.leader_epoch, header.base_offset, is_bridge=False))
        if header.is_control and (epoch := bridge_epoch_at(file, position, header)) is not None:
            marks.append(EpochMark(epoch, header.base_offset, is_bridge=True))
        summary.add(chunk[within : within + HEADER_SIZE], header)
        if header.next_offset <= trusted_end:
            trusted_size = summary.size
    return RecoveredSegment(summary, entries, reason, marks, gap is not None, is_torn, trusted_size)


def _has_batch_behind(file: Readable, position: int, size: int, end: int) -> bool:
    """Whether a whole one lies behind the position, where none can be read: then something was written there before."""
    content = file.read_at(position, min(SEARCHED_BYTES, size - position))
    found = content.find(_MAGIC_BYTE, MAGIC_AT + 1)
    while found >= 0:
        start = found - MAGIC_AT
        header = header_at(memoryview(content), start, len(content) - start)
        if isinstance(header, BatchHeader) and header.base_offset >= end and _is_whole(content, start, header):
            return True
        found = content.find(_MAGIC_BYTE, found + 1)
    return False


def _is_whole(data: Buffer, position: int, header: BatchHeader) -> bool:
    return crc_of(data, position, header.size) == header.crc


def _read(file: Readable, position: int, count: int, needed: int) -> memoryview:
    return memoryview(read_ahead(file, position, count, needed))


def header_at(chunk: memoryview, within: int, bytes_left: int) -> BatchHeader | str:
    """The header, or why there is none."""
    # Step 1: a header that was not written as a whole.
    if len(chunk) - within < HEADER_SIZE:
        return f"{bytes_left} bytes are too few for a batch"
    # Step 2: bytes that are no header, such as the zeros of a page that never reached the disk.
    try:
        header = read_header(chunk, within)
    except KafkaError as error:
        return f"no batch: {error}"
    if header.last_offset_delta < 0 or header.base_offset < 0:
        return f"a batch with impossible offsets ({header.base_offset} + {header.last_offset_delta})"
    # Step 3: a batch of which the end was not written.
    if header.size > bytes_left:
        return f"the batch at offset {header.base_offset} has {header.size} bytes and {bytes_left} are there"
    return header
