"""Recovers a segment that was not sealed and synced: finds what is valid, where to truncate, and why.

The numbers of the steps are those of docs/formats.md, "Recovering a segment".

The rule for a torn tail is this. A crash tears only what was not synced, and a process that dies tears only its last
write. So the tail of an unsealed segment is truncated at the first batch that is not valid, except in two cases. Below
the trusted end everything was synced, so damage there is no torn tail: LogDamagedError, and the replica goes offline
until it is repaired from a copy. If a whole batch is damaged, or valid batches follow, then records may be lost that
were written completely: WouldLoseRecordsError, unless the caller says that they may be lost.

The rule is applied in these places:

- here: finds the end of the valid batches, and whether the rest is torn;
- `segment_maker.SegmentMaker.recovered_segment`: decides, and truncates the file;
- `log_opening.LogOpening`: removes the segments behind a truncated one;
- `broker.controller_link.replica_opener`: decides whether a log may lose records (`may_lose`);
- `log_truncation.truncate_before_damage` and `broker.upkeep.scrubbing`: truncate the damaged uncommitted end of a log
  that no other store has, while the log is in use;
- `segment_verification`: reports, offline, what an opening would truncate.
"""

from msgspec import Struct, field

from tailrace.protocol.batches.record_batch import HEADER_SIZE, MAGIC, MAGIC_AT, BatchHeader, crc_of, read_header
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.files import Buffer
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.manifest.leader_epochs import EpochEvidence

from .batch_walk import FAR_BYTES, Readable, bridge_epoch_at, read_ahead
from .segment_summary import SegmentSummary

SEARCHED_BYTES = 2**20
"""How far behind a damaged batch a valid one is searched."""
_MAGIC_BYTE = bytes([MAGIC])


class LogDamagedError(OSError):
    """Records that were safely on the disk are damaged. Nothing is truncated: the replica stays offline."""


class WouldLoseRecordsError(OSError):
    """Truncation would remove a damaged batch that had been written completely, and everything behind it.

    If the machine has not stopped since, the batch had been written: a process that dies tears only its last write.
    Nothing has been truncated yet.
    """


class RecoveryReport(Struct):
    """What the opening of a log found and did."""

    was_clean: bool = False
    """Whether the log was closed cleanly and nothing had to be scanned."""
    scanned_bytes: int = 0
    truncated_bytes: int = 0
    indexes_rebuilt: int = 0
    """The number of indexes of scanned segments that were rebuilt. Other indexes are verified at their first use."""
    events: list[str] = field(default_factory=list)
    """Sentences about what was truncated, removed or finished, and why."""


class RecoveredSegment(Struct):
    """What recovery found in a segment."""

    summary: SegmentSummary
    """The summary of the valid batches. Its size is where the segment has to be truncated."""
    entries: IndexEntries
    truncation_reason: str | None
    """Why the bytes behind the valid batches are invalid; None if the whole segment is valid."""
    epoch_evidence: list[EpochEvidence]
    """What the batches say about leader epochs."""
    ends_behind_gap: bool = False
    """Whether there is a gap before the last batch: because of compaction, or because its base offset is corrupt."""
    is_torn: bool = True
    """Whether the invalid bytes may be a write that was never completed."""
    trusted_size: int = 0
    """The size of the batches below the trusted end."""

    @property
    def ends_with_bridge(self) -> bool:
        return (
            bool(self.epoch_evidence)
            and self.epoch_evidence[-1].is_bridge
            and self.epoch_evidence[-1].start == self.summary.end - 1
        )


def recover_segment(file: Readable, size: int, base: int, *, trusted_end: int, interval_bytes: int) -> RecoveredSegment:
    """Finds the valid batches at the beginning of a segment.

    Below offset `trusted_end` everything has once been synced, so only headers are read there, and no checksums are
    computed.
    """
    summary = SegmentSummary(base)
    entries = IndexEntries(interval_bytes)
    evidence: list[EpochEvidence] = []
    chunk, chunk_position = memoryview(b""), 0
    reason = None
    is_torn = True
    trusted_size = 0
    # If there is a gap before the newest batch: where the gap begins, and the position of the batch.
    gap: tuple[int, int] | None = None
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
            # Step 4: a crash may have let any part of the batch reach the disk, not only its beginning.
            if len(chunk) - within < header.size or not _is_whole(chunk, within, header):
                reason = f"the checksum of the batch at offset {header.base_offset} does not match"
                is_torn = False
                break
        # Step 5.
        if (reason := summary.refuses(header)) is not None:
            is_torn = False
            if gap is not None and gap[0] <= header.base_offset < summary.end:
                # This batch would be valid but for the one before it, whose base offset is corrupt; no checksum covers
                # that.
                before = recover_segment(file, gap[1], base, trusted_end=trusted_end, interval_bytes=interval_bytes)
                before.truncation_reason, before.is_torn = reason, is_torn
                return before
            break
        gap = (summary.end, position) if header.base_offset > summary.end else None
        entries.on_batch(header.base_offset - base, position, summary.max_timestamp)
        if header.leader_epoch != summary.epoch:
            evidence.append(EpochEvidence(header.leader_epoch, header.base_offset, is_bridge=False))
        if header.is_control and (epoch := bridge_epoch_at(file, position, header)) is not None:
            evidence.append(EpochEvidence(epoch, header.base_offset, is_bridge=True))
        summary.add(chunk[within : within + HEADER_SIZE], header)
        if header.next_offset <= trusted_end:
            trusted_size = summary.size
    return RecoveredSegment(summary, entries, reason, evidence, gap is not None, is_torn, trusted_size)


def _has_batch_behind(file: Readable, position: int, size: int, end: int) -> bool:
    """Returns whether a valid batch lies behind the position.

    Then the invalid bytes were written completely before it.
    """
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
    """Returns the header, or why there is none."""
    # Step 1: the header was not written completely.
    if len(chunk) - within < HEADER_SIZE:
        return f"{bytes_left} bytes are too few for a batch"
    # Step 2: these bytes are no header, but for example zeros of a page that never reached the disk.
    try:
        header = read_header(chunk, within)
    except KafkaError as error:
        return f"no batch: {error}"
    if header.last_offset_delta < 0 or header.base_offset < 0:
        return f"a batch with impossible offsets ({header.base_offset} + {header.last_offset_delta})"
    # Step 3: the end of the batch was not written.
    if header.size > bytes_left:
        return f"the batch at offset {header.base_offset} has {header.size} bytes and {bytes_left} are there"
    return header
