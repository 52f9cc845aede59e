"""Walks over the batches of a segment from header to header, and reads little of what lies between."""

from collections.abc import Iterator
from typing import Protocol

from tailrace.protocol.batches.control_batches import CONTROL_BATCH_BYTES_MAX, ControlKind, bridge_epoch, control_kind
from tailrace.protocol.batches.record_batch import HEADER_SIZE, BatchHeader, read_header
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.files import UnreadableError

NEAR_BYTES = 4096
"""The read size for the few batches between an index entry and the batch that is searched."""
FAR_BYTES = 256 * 1024
"""The read size for a whole segment."""


class Readable(Protocol):
    """A file, or a file whose reads are counted."""

    def read_at(self, position: int, count: int) -> bytes: ...


def read_ahead(file: Readable, position: int, count: int, needed: int) -> bytes:
    """Reads up to `count` bytes.

    If the disk cannot read them all, returns those before the failure if these are at least `needed`.
    """
    try:
        return file.read_at(position, count)
    except UnreadableError as error:
        if len(error.before) < needed:
            raise
        return error.before


def walk(
    file: Readable, position: int, end: int, chunk_bytes: int = NEAR_BYTES
) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """Yields the position, the header and the header's bytes of each batch. Stops at an incomplete batch.

    Raises KafkaError (CORRUPT_MESSAGE) at an impossible header.
    """
    chunk, chunk_position = b"", position
    while end - position >= HEADER_SIZE:
        within = position - chunk_position
        if len(chunk) - within < HEADER_SIZE:
            chunk = read_ahead(file, position, min(chunk_bytes, end - position), HEADER_SIZE)
            chunk_position, within = position, 0
        header = read_header(chunk, within)
        if position + header.size > end:
            return
        yield position, header, chunk[within : within + HEADER_SIZE]
        position += header.size


def kind_at(file: Readable, position: int, header: BatchHeader) -> ControlKind | None:
    """Returns the kind of a control batch that recovery wrote.

    Returns None for other batches, and reads nothing for non-control ones.
    """
    return control_kind(header, file.read_at(position, CONTROL_BATCH_BYTES_MAX)) if header.is_control else None


def bridge_epoch_at(file: Readable, position: int, header: BatchHeader) -> int | None:
    """Returns the epoch that begins with the bridge at the position; None if the batch is no bridge."""
    batch = file.read_at(position, CONTROL_BATCH_BYTES_MAX)
    return bridge_epoch(batch) if control_kind(header, batch) is ControlKind.BRIDGE else None


def walk_whole(file: Readable, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yields the position, the header and all bytes of each batch.

    Raises KafkaError (CORRUPT_MESSAGE) unless the batches end exactly at `end`.
    """
    chunk, position, within = memoryview(b""), 0, 0
    while position < end:
        if len(chunk) - within < HEADER_SIZE:
            chunk, within = memoryview(file.read_at(position, min(FAR_BYTES, end - position))), 0
        header = read_header(chunk, within)
        size = header.size
        if len(chunk) - within < size:
            chunk, within = memoryview(file.read_at(position, min(max(FAR_BYTES, size), end - position))), 0
            if len(chunk) < size:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at position {position} is truncated")
        yield position, header, chunk[within : within + size]
        position += size
        within += size
