"""Walks along the batches of a segment from header to header, reading little of what lies between."""

from collections.abc import Iterator
from typing import Protocol

from tailrace.protocol.batches.control_batches import CONTROL_BATCH_BYTES_MAX, ControlKind, bridge_epoch, control_kind
from tailrace.protocol.batches.record_batch import HEADER_SIZE, BatchHeader, read_header
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.files import UnreadableError

NEAR_BYTES = 4096
"""For the few batches between an index entry and what is looked for."""
FAR_BYTES = 256 * 1024
"""For a whole segment."""


class Readable(Protocol):
    def read_at(self, position: int, count: int) -> bytes: ...


def read_ahead(file: Readable, position: int, count: int, needed: int) -> bytes:
    """So many bytes, or as many as there are before what the disk does not give, if it gives those that are needed."""
    try:
        return file.read_at(position, count)
    except UnreadableError as error:
        if len(error.before) < needed:
            raise
        return error.before


def walk(
    file: Readable, position: int, end: int, chunk_bytes: int = NEAR_BYTES
) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """Position, header and the header's bytes of each batch; stops at one that is cut short.

    An absurd header raises KafkaError (CORRUPT_MESSAGE).
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
    """What recovery wrote there; None for the batches of producers and transactions, for which nothing is read."""
    return control_kind(header, file.read_at(position, CONTROL_BATCH_BYTES_MAX)) if header.is_control else None


def bridge_epoch_at(file: Readable, position: int, header: BatchHeader) -> int | None:
    """The epoch that begins with the bridge there; None where there is none."""
    batch = file.read_at(position, CONTROL_BATCH_BYTES_MAX)
    return bridge_epoch(batch) if control_kind(header, batch) is ControlKind.BRIDGE else None


def walk_whole(file: Readable, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and all bytes of each batch. KafkaError (CORRUPT_MESSAGE) unless they end exactly there."""
    chunk, position, within = memoryview(b""), 0, 0
    while position < end:
        if len(chunk) - within < HEADER_SIZE:
            chunk, within = memoryview(file.read_at(position, min(FAR_BYTES, end - position))), 0
        header = read_header(chunk, within)
        size = header.size
        if len(chunk) - within < size:
            chunk, within = memoryview(file.read_at(position, min(max(FAR_BYTES, size), end - position))), 0
            if len(chunk) < size:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at position {position} is cut short")
        yield position, header, chunk[within : within + size]
        position += size
        within += size
