"""Decodes the records of many batches at once, by columns.

The length of a record tells where the next one begins, so the records of a batch are found one after the other, but in
many batches at the same time. Every other number is then decoded for all records together, with a few operations of
numpy for each column. Keys and values are not copied here: the columns say where they lie.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError

Column = Any
"""An array of numpy."""

PADDING = bytes(64)
"""What follows the last body, so that a corrupt number near the end is read without a bounds check."""

_RUN_RECORDS_MIN = 16
_RUN_GROWTH = 4
"""A run of records of the same length is first looked for in a few records, and then in ever more."""
_BATCHES_TOGETHER_MIN = 160
"""From so many batches on, finding their records together takes less time than one after the other."""
_VARINT_SHIFT_MAX = 63
_ZIGZAG = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(256)], dtype=np.int64)


class RecordColumns(Struct):
    """The records of some batches. Each column has an entry for each record, in the order of the batches."""

    data: bytes
    """What the bodies lie in. Numbers are read without a bounds check, so it goes on after the last body."""
    batch: Column
    """The number of the record's batch."""
    offset_delta: Column
    timestamp_delta: Column
    key_start: Column
    key_size: Column
    """The size of the key; negative for no key."""
    value_start: Column
    value_size: Column
    """The size of the value; negative for no value."""
    header_count: Column
    headers_start: Column
    end: Column
    """The position after the record."""

    def __len__(self) -> int:
        return len(self.batch)


def decode_bodies(batches: Iterable[tuple[BatchHeader, Buffer]]) -> RecordColumns:
    """Decodes the decompressed bodies of batches. Raises KafkaError (CORRUPT_MESSAGE) and nothing else."""
    batches = list(batches)
    data = b"".join([*(body for _, body in batches), PADDING])
    sizes: Column = np.array([len(body) for _, body in batches], dtype=np.int64)
    ends = np.cumsum(sizes)
    return decode_places(data, [header for header, _ in batches], ends - sizes, ends)


def decode_places(data: bytes, headers: Sequence[BatchHeader], starts: Column, ends: Column) -> RecordColumns:
    """Decodes the bodies of batches, which lie in `data` in their order, with at least as many bytes after the last one
    as PADDING has. Raises KafkaError (CORRUPT_MESSAGE) and nothing else."""
    counts: Column = np.array([header.record_count for header in headers], dtype=np.int64)
    is_wrong = (counts < 0) | (counts > ends - starts)
    if is_wrong.any():
        raise _corrupt(f"a batch cannot have {counts[is_wrong][0]} records")
    start = _record_starts(data, starts, ends, counts)
    end = np.empty_like(start)
    end[:-1] = start[1:]
    has_records = counts > 0
    end[np.cumsum(counts)[has_records] - 1] = ends[has_records]
    return _decode_fields(data, start, end, np.repeat(np.arange(len(headers)), counts))


def _record_starts(data: bytes, body_starts: Column, body_ends: Column, counts: Column) -> Column:
    """Returns the positions at which the records of all batches begin.

    The first records of all batches are found together, then the second, and so on. The rest of a few long batches is
    found one record after the other.
    """
    content = np.frombuffer(data, dtype=np.uint8)
    starts: Column = np.empty(int(counts.sum()), dtype=np.int64)
    order = np.argsort(-counts, kind="stable")
    counts_down = counts[order]
    at, ends, places = body_starts[order], body_ends[order], (np.cumsum(counts) - counts)[order]
    number, active = 0, int(np.searchsorted(-counts_down, 0))
    while active >= _BATCHES_TOGETHER_MIN:
        starts[places[:active] + number] = at[:active]
        size, content_start = varints(content, at[:active])
        at[:active] = following = content_start + size
        if ((following < content_start) | (following > ends[:active])).any():
            raise _corrupt("a record is truncated")
        number += 1
        active = int(np.searchsorted(-counts_down, -number))
    for each in range(active):
        found = array("q")
        _find_records(data, int(at[each]), int(ends[each]), found)
        if len(found) + number != counts_down[each]:
            raise _corrupt(f"a batch has {len(found) + number} records, and its header says {counts_down[each]}")
        starts[places[each] + number : places[each] + counts_down[each]] = found
    if (at[active:] != ends[active:]).any():
        raise _corrupt("bytes follow the last record of a batch")
    return starts


def _find_records(data: bytes, position: int, end: int, starts: "array[int]") -> None:
    """Appends the positions at which the records in [position, end) begin."""
    append = starts.append
    last_stride = 0
    while position < end:
        append(position)
        size = data[position]
        if size < 0x80:
            stride = 1 + (size >> 1)
        elif (second := data[position + 1]) < 0x80:
            stride = 2 + (size >> 1 & 0x3F | second << 6)
        else:
            size, width = _long_size(data, position)
            stride = width + (size >> 1)
        if stride == last_stride and data[position + stride : position + stride + 1] == data[position : position + 1]:
            run = _run_length(data, position, stride, end)
            following = np.arange(position + stride, position + run * stride, stride, dtype=np.int64)
            starts.frombytes(following.tobytes())
            position += run * stride
            last_stride = 0
        else:
            position += stride
            last_stride = stride
    if position != end:
        raise _corrupt("a record is truncated")


def _run_length(data: bytes, position: int, stride: int, end: int) -> int:
    """Returns how many records from this position on certainly have the same length.

    The length bytes of the next record lie one stride further if this record has the same length. So columns of equal
    length bytes prove the run.
    """
    width = 1
    while data[position + width - 1] >= 0x80:
        width += 1
    records, wanted = 1, _RUN_RECORDS_MIN
    while True:
        start = position + (records - 1) * stride  # the last record of the run so far
        found = wanted = min(wanted, (end - start) // stride)
        for at in range(start, start + width):
            column = data[at : at + found * stride : stride][:found]
            found = len(column) - len(column.lstrip(column[:1]))
        records += max(found, 1) - 1
        if found < wanted or wanted <= 1:
            return records
        wanted *= _RUN_GROWTH


def _long_size(data: bytes, position: int) -> tuple[int, int]:
    value = shift = width = 0
    while True:
        byte = data[position + width]
        value |= (byte & 0x7F) << shift
        width += 1
        if byte < 0x80:
            return value, width
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise _corrupt("a number in a record is too long")


def _decode_fields(data: bytes, start: Column, end: Column, batch: Column) -> RecordColumns:
    content = np.frombuffer(data, dtype=np.uint8)
    size, at = varints(content, start)
    if (size < 0).any():
        raise _corrupt("a record has a negative length")
    timestamp_delta, at = varints(content, at + 1)  # after the record's attributes
    offset_delta, at = varints(content, at)
    key_size, key_start = varints(content, at)
    key_end = _end_of_field(key_start, key_size, end)
    value_size, value_start = varints(content, key_end)
    value_end = _end_of_field(value_start, value_size, end)
    header_count, headers_start = varints(content, value_end)
    if (headers_start > end).any() or ((header_count == 0) & (headers_start != end)).any():
        raise _corrupt("a record has another length than its fields")
    if (header_count < 0).any():
        raise _corrupt("a record has a negative number of headers")
    return RecordColumns(
        data, batch, offset_delta, timestamp_delta, key_start, key_size, value_start, value_size, header_count,
        headers_start, end,
    )  # fmt: skip


def _end_of_field(start: Column, size: Column, end: Column) -> Column:
    field_end = start + np.maximum(size, 0)
    # A huge size wraps to a negative position.
    if (field_end > end).any() or (field_end < start).any():
        raise _corrupt("a record's field is longer than the record")
    return field_end


def varints(content: Column, at: Column) -> tuple[Column, Column]:
    """Decodes the zigzag varints at these positions. Returns them and the positions after them."""
    first = content[at]
    is_long = first >= 0x80
    if not is_long.any():
        return _ZIGZAG.take(first), at + 1
    second = content[at + 1]
    value = (first & 0x7F).astype(np.uint64) | ((second & 0x7F) * is_long).astype(np.uint64) << np.uint64(7)
    end = at + 1 + is_long
    rest = np.flatnonzero(is_long & (second >= 0x80))
    shift = 14
    while rest.size:
        if shift > _VARINT_SHIFT_MAX:
            raise _corrupt("a number in a record is too long")
        byte = content[end[rest]]
        value[rest] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        end[rest] += 1
        rest = rest[byte >= 0x80]
        shift += 7
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64), end


class HeaderColumns(Struct):
    """The headers of some records, in the order of the records."""

    count: Column
    """The number of headers of each record."""
    name_start: Column
    name_size: Column
    value_start: Column
    value_size: Column
    """The size of the value; negative for no value."""


def decode_headers(records: RecordColumns, chosen: Column) -> HeaderColumns:
    """Decodes the headers of the chosen records, which are given by their numbers: the first header of all records,
    then the second, and so on. Raises KafkaError (CORRUPT_MESSAGE)."""
    content = np.frombuffer(records.data, dtype=np.uint8)
    count, end = records.header_count[chosen], records.end[chosen]
    if (count > end - records.headers_start[chosen]).any():
        raise _corrupt("a record has more headers than bytes")
    first = np.concatenate(([0], np.cumsum(count)))[:-1]
    found = HeaderColumns(count, *(np.zeros(int(count.sum()), dtype=np.int64) for _ in range(4)))
    at = records.headers_start[chosen].copy()
    number = 0
    left = np.flatnonzero(count > 0)
    while left.size:
        place = first[left] + number
        name_size, name_start = varints(content, at[left])
        name_end = _end_of_field(name_start, name_size, end[left])
        value_size, value_start = varints(content, name_end)
        value_end = _end_of_field(value_start, value_size, end[left])
        if (name_size < 0).any():
            raise _corrupt("a record's header has no name")
        found.name_start[place], found.name_size[place] = name_start, name_size
        found.value_start[place], found.value_size[place] = value_start, value_size
        at[left] = value_end
        number += 1
        left = left[count[left] > number]
    if (at[count > 0] != end[count > 0]).any():
        raise _corrupt("a record has another length than its fields")
    return found


def _corrupt(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, sentence)
