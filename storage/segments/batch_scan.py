"""Reads a `.log` file from its beginning, every byte of it, for those who trust nothing: dump and verify.

Memory stays bounded whatever lengths a damaged header claims: the file comes in pieces, and so do its checksums.
"""

from collections.abc import Iterator

import crc32c
from msgspec import Struct

from tailrace.protocol.batches.record_batch import CRC_START, HEADER_SIZE, BatchHeader

from .batch_walk import Readable, read_ahead
from .segment_recovery import header_at

PIECE_BYTES = 2**20


class ScannedBatch(Struct, frozen=True):
    position: int
    header: BatchHeader
    start: bytes
    """The header's bytes."""
    checksum_matches: bool


class BatchScan:
    """Goes on after a wrong checksum, and stops where no batch can be found any more."""

    __slots__ = ("_file", "_piece", "_piece_position", "failure", "is_unreadable", "position", "size")

    def __init__(self, file: Readable, size: int) -> None:
        self.size = size
        self.position = 0
        """Everything before it are batches that were handed out."""
        self.failure: str | None = None
        """Why nothing follows, though there are bytes left."""
        self.is_unreadable = False
        """Nothing is known of these bytes: the disk does not give them."""
        self._file = file
        self._piece = memoryview(b"")
        self._piece_position = 0

    def __iter__(self) -> Iterator[ScannedBatch]:
        while self.failure is None and self.position < self.size:
            batch = self._next()
            if isinstance(batch, str):
                self.failure = batch
                return
            self.position += batch.header.size
            yield batch

    def go_to(self, position: int) -> None:
        """Goes on there, for those who know where a batch begins."""
        self.position = position
        self.failure = None
        self.is_unreadable = False

    def _next(self) -> ScannedBatch | str:
        """The next batch, or why there is none."""
        position = self.position
        try:
            start = bytes(self._from(position, HEADER_SIZE)[:HEADER_SIZE])
            header = header_at(memoryview(start), 0, self.size - position)
            if isinstance(header, str):
                return header
            checksum = self._checksum(position + CRC_START, position + header.size)
        except OSError as error:
            self.is_unreadable = True
            return f"the file cannot be read: {error.strerror or error}"
        return ScannedBatch(position, header, start, checksum == header.crc)

    def _checksum(self, position: int, end: int) -> int:
        checksum = 0
        while position < end:
            piece = self._from(position, 1)[: end - position]
            if not piece:
                raise OSError("it has become shorter meanwhile")
            checksum = crc32c.crc32c(piece, checksum)
            position += len(piece)
        return checksum

    def _from(self, position: int, count_min: int) -> memoryview:
        """What is at hand from the position on; shorter than asked for only at the end of the file."""
        within = position - self._piece_position
        if not 0 <= within <= len(self._piece) - count_min:
            within = 0
            self._piece = memoryview(
                read_ahead(self._file, position, min(PIECE_BYTES, self.size - position), count_min)
            )
            self._piece_position = position
        return self._piece[within:]
