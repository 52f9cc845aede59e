"""Walks along the batches of a segment from header to header, reading little of what lies between."""

from collections.abc import Iterator
from typing import Protocol

from tailrace.protocol.record_batch import HEADER_SIZE, BatchHeader, read_header

NEAR_BYTES = 4096
"""For the few batches between an index entry and what is looked for."""
FAR_BYTES = 256 * 1024
"""For a whole segment."""


class Readable(Protocol):
    def read_at(self, position: int, count: int) -> bytes: ...


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
            chunk, chunk_position, within = file.read_at(position, min(chunk_bytes, end - position)), position, 0
        header = read_header(chunk, within)
        if position + header.size > end:
            return
        yield position, header, chunk[within : within + HEADER_SIZE]
        position += header.size
