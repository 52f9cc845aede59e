"""A roll-up of records: the sum, modulo 2**64, of a 64-bit hash of each record.

The sum does not depend on the order of the records, and the sums of parts add up. So the roll-up of a range of offsets
can be computed from Parquet files, from a broker, or from segments, in batches of any size, and must be equal.

The hash covers offset, timestamp, key, value and headers, and tells null from empty. It finds every flipped bit. It is
no protection against somebody who forges records on purpose.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from tailrace.pipeline.segments.arrow_rows import ArrowBatch
from tailrace.pipeline.segments.record_columns import Column

from .rollup_sums import add

HASHED_COLUMNS = ("offset", "timestamp", "key", "value", "headers")
"""The columns that a record batch must have for its roll-up."""
EMPTY = 0
"""The roll-up of no records."""

_NULL = np.uint64(2**64 - 1)
"""The word of a field without a value. No field with a value has it, because a length has fewer than 32 bits."""
_STEP = np.uint64(0x9E3779B97F4A7C15)
"""An odd number with many different bits: 2**64 divided by the golden ratio."""
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""The factors of the finalizer of SplitMix64."""
_COPIED_BYTES_MAX = 256
"""Copying values that are shorter on average takes less time than making a view of each."""


def rollup_of(batches: Iterable[ArrowBatch]) -> int:
    """Returns the roll-up of the records in these batches, which have the columns of HASHED_COLUMNS and any others."""
    return add(*map(batch_rollup, batches))


def batch_rollup(batch: ArrowBatch) -> int:
    """Returns the roll-up of the records in one batch or table."""
    return int(np.add.reduce(record_hashes(batch), dtype=np.uint64))


def record_hashes(batch: ArrowBatch) -> Column:
    """Returns the hash of each record."""
    offset, timestamp, key, value, headers = (_in_one(batch.column(name)) for name in HASHED_COLUMNS)
    hashes = _mixed(_numbers(offset) + _STEP)
    for words in (_times(timestamp), _words(key), _words(value), _header_words(headers)):
        hashes = _mixed((hashes + _STEP) ^ words)
    return hashes


def _in_one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numbers(column: Any) -> Column:
    return np.asarray(column.cast(pa.int64())).view(np.uint64)


def _times(column: Any) -> Column:
    """Returns the microseconds. Readers of Parquet may give timestamps in another unit."""
    microseconds = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    words = np.asarray(microseconds.fill_null(0)).view(np.uint64)
    return np.where(_is_null(column), _NULL, words) if column.null_count else words


def _words(column: Any) -> Column:
    """Returns length and CRC-32C of each value in one number."""
    count = len(column)
    column = column.cast(pa.large_binary())
    _, bounds, data = column.buffers()
    ends = np.frombuffer(bounds, np.int64)[column.offset : column.offset + count + 1] if count else np.zeros(1, int)
    sizes = np.diff(ends).astype(np.uint64)
    if data is None or ends[-1] == ends[0]:
        words = sizes
    else:
        if ends[-1] - ends[0] <= _COPIED_BYTES_MAX * count:
            values = (column.fill_null(b"") if column.null_count else column).to_pylist()
        else:
            view, places = memoryview(data), ends.tolist()
            values = [view[start:end] for start, end in pairwise(places)]
        words = sizes << np.uint64(32) | np.fromiter(map(crc32c, values), np.uint64, count)
    return np.where(_is_null(column), _NULL, words) if column.null_count else words


def _header_words(column: Any) -> Column:
    """Returns a number for the headers of each record; 0 for none. Null and an empty list both mean none."""
    counts = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    ends = np.cumsum(counts)
    if not len(ends) or not ends[-1]:
        return np.zeros(len(column), np.uint64)
    flat = column.flatten()
    names, values = flat.flatten()
    places = np.arange(len(flat)) - np.repeat(ends - counts, counts) + 1
    hashes = _mixed(places.astype(np.uint64) * _STEP ^ _words(names))
    hashes = _mixed((hashes + _STEP) ^ _words(values))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)))
    return sums[ends] - sums[ends - counts]


def _is_null(column: Any) -> Column:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def _mixed(words: Column) -> Column:
    """Spreads each bit of a number over all of its bits, and maps no two numbers to the same one."""
    words = (words ^ words >> np.uint64(30)) * _FIRST_FACTOR
    words = (words ^ words >> np.uint64(27)) * _SECOND_FACTOR
    return words ^ words >> np.uint64(31)
