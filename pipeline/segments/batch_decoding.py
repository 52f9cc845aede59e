"""Decodes the records of neighbouring batches together, and without a copy where that is possible."""

from collections.abc import Sequence

import numpy as np

from tailrace.protocol.batches.record_batch import COMPRESSION_MASK, HEADER_SIZE
from tailrace.protocol.batches.records import open_body

from .record_columns import PADDING, RecordColumns, decode_bodies, decode_places
from .segment_reading import ReadBatch

DECODED_RECORDS_MAX = 32 * 1024
"""About how many records are decoded together. A batch is never split."""
DECODED_BYTES_MAX = 8 * 2**20
"""About how many decompressed bytes are decoded together. A batch is never split."""


class DecodedSize:
    """The size of some batches that are decoded together."""

    def __init__(self) -> None:
        self._records = self._bytes = 0

    def add(self, batch: ReadBatch) -> bool:
        """Adds the next batch, and opens it if it is compressed. Returns False if another group begins with it.

        Only the opened batch tells its size: compressed records may be thousands of times as large. Raises KafkaError
        (CORRUPT_MESSAGE).
        """
        header = batch.header
        size = header.size
        if header.attributes & COMPRESSION_MASK:
            batch.body = open_body(batch.content or b"", header)
            size = len(batch.body)
        self._records += header.record_count
        self._bytes += size
        if self._records <= DECODED_RECORDS_MAX and self._bytes <= DECODED_BYTES_MAX:
            return True
        self._records, self._bytes = header.record_count, size
        return False


def decode_batches(batches: Sequence[ReadBatch]) -> RecordColumns:
    """Decodes the records of batches that were read as a whole. Raises KafkaError (CORRUPT_MESSAGE) and nothing else.

    Batches of one chunk without compression are decoded where they lie.
    """
    chunk = batches[0].chunk if batches else None
    if chunk is None or not _lie_in(chunk, batches):
        return decode_bodies((each.header, _body(each)) for each in batches)
    starts = np.array([each.within + HEADER_SIZE for each in batches], dtype=np.int64)
    ends = np.array([each.within + each.header.size for each in batches], dtype=np.int64)
    return decode_places(chunk, [each.header for each in batches], starts, ends)


def _body(batch: ReadBatch) -> bytes:
    return open_body(batch.content or b"", batch.header) if batch.body is None else batch.body


def _lie_in(chunk: bytes, batches: Sequence[ReadBatch]) -> bool:
    """Returns whether the bodies lie in the chunk as they are, with enough bytes after the last one."""
    last = batches[-1]
    return last.within + last.header.size + len(PADDING) <= len(chunk) and all(
        each.chunk is chunk and not each.header.attributes & COMPRESSION_MASK for each in batches
    )
