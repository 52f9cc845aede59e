"""Decodes the records of neighbouring batches together, and without a copy where that is possible."""

from collections.abc import Sequence

import numpy as np

from tailrace.protocol.batches.record_batch import COMPRESSION_MASK, HEADER_SIZE
from tailrace.protocol.batches.records import open_body

from .record_columns import PADDING, RecordColumns, decode_bodies, decode_places
from .segment_reading import ReadBatch


def decode_batches(batches: Sequence[ReadBatch]) -> RecordColumns:
    """Decodes the records of batches that were read as a whole. Raises KafkaError (CORRUPT_MESSAGE) and nothing else.

    Batches of one chunk without compression are decoded where they lie.
    """
    chunk = batches[0].chunk if batches else None
    if chunk is None or not _lie_in(chunk, batches):
        return decode_bodies((each.header, open_body(each.content or b"", each.header)) for each in batches)
    starts = np.array([each.within + HEADER_SIZE for each in batches], dtype=np.int64)
    ends = np.array([each.within + each.header.size for each in batches], dtype=np.int64)
    return decode_places(chunk, [each.header for each in batches], starts, ends)


def _lie_in(chunk: bytes, batches: Sequence[ReadBatch]) -> bool:
    """Returns whether the bodies lie in the chunk as they are, with enough bytes after the last one."""
    last = batches[-1]
    return last.within + last.header.size + len(PADDING) <= len(chunk) and all(
        each.chunk is chunk and not each.header.attributes & COMPRESSION_MASK for each in batches
    )
