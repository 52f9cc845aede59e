"""Reads a `.log` file completely from its beginning and trusts nothing in it, for dumping and verification.

Memory is bounded whatever lengths a damaged header claims: the file is read in pieces, and checksums are computed piece
by piece.
"""

from collections.abc import Iterator

import crc32c
from msgspec import Struct

from tailrace.protocol.batches.record_batch import CRC_START, HEADER_SIZE, BatchHeader

from .batch_walk import Readable, read_ahead
from .segment_recovery import header_at

PIECE_BYTES = 2**20


class ScannedBatch(Struct, frozen=True):
    """A batch with a plausible header."""

    position: int
    header: BatchHeader
    start: bytes
    """The bytes of the header."""
    checksum_matches: bool


class BatchScan:
    """Iterates over batches. It continues after a wrong checksum, and stops where no batch can be found."""

    __slots__ = ("_file", "_piece", "_piece_position", "failure", "is_unreadable", "position", "size")

    def __init__(self, file: Readable, size: int) -> None:
        self.size = size
        self.position = 0
        """The end of the last batch that was yielded."""
        self.failure: str | None = None
        """Why the scan stopped before the end of the file."""
        self.is_unreadable = False
        """Whether the scan stopped because the disk could not read these bytes."""
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

    def seek(self, position: int) -> None:
        """Continues at a position at which the caller knows that a batch begins."""
        self.position = position
        self.failure = None
        self.is_unreadable = False

    def _next(self) -> ScannedBatch | str:
        """Returns the next batch, or why there is none."""
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
                raise OSError("it was truncated during the scan")
            checksum = crc32c.crc32c(piece, checksum)
            position += len(piece)
        return checksum

    def _from(self, position: int, count_min: int) -> memoryview:
        """Returns buffered bytes from the position on, at least `count_min` of them unless the file ends before."""
        within = position - self._piece_position
        if not 0 <= within <= len(self._piece) - count_min:
            within = 0
            self._piece = memoryview(
                read_ahead(self._file, position, min(PIECE_BYTES, self.size - position), count_min)
            )
            self._piece_position = position
        return self._piece[within:]
