"""Makes Arrow record batches of decoded records and of batch headers, with the columns that a query asked for."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import APPEND_TIME, COMPRESSION_MASK, SEQUENCE_END, BatchHeader

from .record_columns import Column, RecordColumns, decode_headers
from .segment_columns import BATCH_COLUMNS, ENTRY_TYPES, RECORD_COLUMNS

ArrowBatch = Any
"""A `pyarrow.RecordBatch`."""

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_ARROW_TYPES = {
    "binary": pa.binary(),
    "string": pa.string(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": _TIMESTAMP,
    RECORD_COLUMNS["headers"]: pa.list_(pa.field("element", _HEADER)),
}
_ENTRY_TYPES = pa.array(ENTRY_TYPES, pa.string())
_CODECS = [each.name.lower() for each in Compression]
_MICROSECONDS = 1000
_TIMESTAMP_MS_MAX = (2**63 - 1) // _MICROSECONDS
"""The largest time that fits into a timestamp of Spark. Producers may send any number."""


class Source(Struct, frozen=True):
    """Where the rows come from: what is the same for all of them."""

    topic: str
    topic_id: str
    partition: int
    directory: str
    segment: int
    """The base offset of the segment."""


class StoredBatch(Struct, frozen=True):
    """A batch as it lies in a segment."""

    header: BatchHeader
    position: int
    entry_type: int
    """The place of its type in `ENTRY_TYPES`."""
    crc_matches: bool | None = None
    """Whether its checksum matches; None if it was not computed."""


class RowFilter(Struct, frozen=True):
    """Which records become rows."""

    start: int
    end: int
    """The offset after the last row."""
    as_of_ms: int | None = None
    """The time after which no row may be; None for any time."""


class RecordRows:
    """The records of some batches that pass a filter, before they become Arrow columns."""

    def __init__(self, source: Source, batches: Sequence[StoredBatch], records: RecordColumns, wanted: RowFilter):
        self._source = source
        self._records = records
        self._headers = [batch.header for batch in batches]
        self._types = np.array([batch.entry_type for batch in batches], dtype=np.int8)
        chosen = np.arange(len(records))
        offsets = self._of_batches("base_offset")[records.batch] + records.offset_delta
        if len(offsets) and (offsets.min() < wanted.start or offsets.max() >= wanted.end):
            chosen = np.flatnonzero((offsets >= wanted.start) & (offsets < wanted.end))
        self._chosen = chosen
        self._batch = records.batch[chosen]
        self.offsets = offsets[chosen]
        self._times: Column = None
        if wanted.as_of_ms is not None:
            self.keep(self.timestamps() <= wanted.as_of_ms)

    def __len__(self) -> int:
        return len(self._chosen)

    def keep(self, mask: Column) -> None:
        """Keeps only the rows for which the mask is true."""
        if not mask.all():
            self._chosen, self._batch, self.offsets = self._chosen[mask], self._batch[mask], self.offsets[mask]
            self._times = None

    def timestamps(self) -> Column:
        """Returns the times in milliseconds. They wrap like the 64-bit numbers of clients."""
        if self._times is None:
            base = self._of_batches("base_timestamp")[self._batch]
            with np.errstate(over="ignore"):
                times = base + self._records.timestamp_delta[self._chosen]
            is_append_time = self._append_times()[self._batch]
            if is_append_time.any():
                times = np.where(is_append_time, self._of_batches("max_timestamp")[self._batch], times)
            self._times = times
        return self._times

    def keys(self) -> Any:
        """Returns the keys as an Arrow array."""
        records = self._records
        return _bytes_at(records.data, records.key_start[self._chosen], records.key_size[self._chosen])

    def record_batch(self, columns: Sequence[str]) -> ArrowBatch:
        """Returns the rows with these columns."""
        arrays = [_COLUMN_OF[name](self) for name in columns]
        types = [_ARROW_TYPES[RECORD_COLUMNS[name]] for name in columns]
        return _record_batch(columns, arrays, types)

    # columns

    def value(self) -> Any:
        records = self._records
        return _bytes_at(records.data, records.value_start[self._chosen], records.value_size[self._chosen])

    def topic(self) -> Any:
        return _repeated(self._source.topic, len(self))

    def partition(self) -> Column:
        return np.full(len(self), self._source.partition, dtype=np.int32)

    def offset(self) -> Column:
        return self.offsets

    def timestamp(self) -> Any:
        return _timestamps(self.timestamps())

    def timestamp_type(self) -> Column:
        return self._append_times()[self._batch].astype(np.int32)

    def headers(self) -> Any:
        found = decode_headers(self._records, self._chosen)
        data = self._records.data
        names = _texts(_bytes_at(data, found.name_start, found.name_size))
        values = _bytes_at(data, found.value_start, found.value_size)
        ends = np.cumsum(found.count)
        starts = np.concatenate((ends - found.count, ends[-1:] if len(ends) else [0])).astype(np.int32)
        mask = np.concatenate((found.count == 0, [False]))
        return pa.ListArray.from_arrays(
            pa.array(starts, pa.int32(), mask=mask),
            pa.StructArray.from_arrays([names, values], fields=list(_HEADER)),
            type=_ARROW_TYPES[RECORD_COLUMNS["headers"]],
        )

    def epoch(self) -> Column:
        return self._of_batches("leader_epoch")[self._batch].astype(np.int32)

    def entry_type(self) -> Any:
        return _ENTRY_TYPES.take(pa.array(self._types[self._batch]))

    def producer_id(self) -> Column:
        return self._of_batches("producer_id")[self._batch]

    def producer_epoch(self) -> Column:
        return self._of_batches("producer_epoch")[self._batch].astype(np.int16)

    def sequence(self) -> Column:
        base = self._of_batches("base_sequence")[self._batch]
        return np.where(base < 0, -1, (base + self._records.offset_delta[self._chosen]) % SEQUENCE_END).astype(np.int32)

    def batch_crc(self) -> Column:
        return self._of_batches("crc")[self._batch]

    def _of_batches(self, field: str) -> Column:
        return np.array([getattr(header, field) for header in self._headers], dtype=np.int64)

    def _append_times(self) -> Column:
        return np.array([bool(header.attributes & APPEND_TIME) for header in self._headers], dtype=bool)


_COLUMN_OF: dict[str, Callable[[RecordRows], Any]] = {
    "key": RecordRows.keys,
    "value": RecordRows.value,
    "topic": RecordRows.topic,
    "partition": RecordRows.partition,
    "offset": RecordRows.offset,
    "timestamp": RecordRows.timestamp,
    "timestampType": RecordRows.timestamp_type,
    "headers": RecordRows.headers,
    "epoch": RecordRows.epoch,
    "entryType": RecordRows.entry_type,
    "producerId": RecordRows.producer_id,
    "producerEpoch": RecordRows.producer_epoch,
    "sequence": RecordRows.sequence,
    "batchCrc": RecordRows.batch_crc,
}


def batch_rows(source: Source, batches: Sequence[StoredBatch], columns: Sequence[str]) -> ArrowBatch:
    """Returns a row for each batch, with these columns."""
    count = len(batches)
    headers = [batch.header for batch in batches]
    makers: dict[str, Callable[[], Any]] = {
        "topic": lambda: _repeated(source.topic, count),
        "topicId": lambda: _repeated(source.topic_id, count),
        "partition": lambda: [source.partition] * count,
        "offset": lambda: [header.base_offset for header in headers],
        "lastOffset": lambda: [header.last_offset for header in headers],
        "records": lambda: [header.record_count for header in headers],
        "timestamp": lambda: _timestamps(np.array([header.base_timestamp for header in headers], dtype=np.int64)),
        "maxTimestamp": lambda: _timestamps(np.array([header.max_timestamp for header in headers], dtype=np.int64)),
        "timestampType": lambda: [int(header.is_log_append_time) for header in headers],
        "epoch": lambda: [header.leader_epoch for header in headers],
        "entryType": lambda: [ENTRY_TYPES[batch.entry_type] for batch in batches],
        "producerId": lambda: [header.producer_id for header in headers],
        "producerEpoch": lambda: [header.producer_epoch for header in headers],
        "sequence": lambda: [header.base_sequence for header in headers],
        "compression": lambda: [_codec(header.attributes) for header in headers],
        "bytes": lambda: [header.size for header in headers],
        "batchCrc": lambda: [header.crc for header in headers],
        "crcMatches": lambda: [batch.crc_matches for batch in batches],
        "directory": lambda: _repeated(source.directory, count),
        "segment": lambda: [source.segment] * count,
        "position": lambda: [batch.position for batch in batches],
    }
    types = [_ARROW_TYPES[BATCH_COLUMNS[name]] for name in columns]
    made = [makers[name]() for name in columns]
    return _record_batch(columns, made, types)


def record_schema(columns: Sequence[str] = tuple(RECORD_COLUMNS)) -> Any:
    """Returns the schema of Arrow that records have with these columns."""
    return pa.schema([(name, _ARROW_TYPES[RECORD_COLUMNS[name]]) for name in columns])


def _record_batch(columns: Sequence[str], made: Sequence[Any], types: Sequence[Any]) -> ArrowBatch:
    arrays = [
        each if isinstance(each, pa.Array) else pa.array(each, kind) for each, kind in zip(made, types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(zip(columns, types, strict=True))))


def _codec(attributes: int) -> str:
    number = attributes & COMPRESSION_MASK
    return _CODECS[number] if number < len(_CODECS) else f"unknown ({number})"


def _bytes_at(data: bytes, start: Column, size: Column) -> Any:
    """Returns the bytes at these places; null where the size is negative.

    The places become every second element of an array over the data, so that Arrow copies them without a loop in
    Python.
    """
    bounds = np.empty(2 * len(start) + 1, dtype=np.int32)
    bounds[0:-1:2] = start
    bounds[1::2] = start + np.maximum(size, 0)
    bounds[-1] = bounds[-2] if len(start) else 0
    pieces = pa.BinaryArray.from_buffers(pa.binary(), 2 * len(start), [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    places = np.arange(0, 2 * len(start), 2)
    is_null = size < 0
    return pieces.take(pa.array(places, mask=is_null) if is_null.any() else pa.array(places))


def _texts(found: Any) -> Any:
    """Returns the bytes as text. A byte that is not UTF-8 becomes a replacement character."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([each.decode(errors="replace") for each in found.to_pylist()], pa.string())


def _timestamps(times_ms: Column) -> Any:
    """Returns the times as Spark's timestamps; null for records without a time."""
    is_none = times_ms == -1
    times = np.clip(times_ms, -_TIMESTAMP_MS_MAX, _TIMESTAMP_MS_MAX) * _MICROSECONDS
    return pa.array(times, pa.int64(), mask=is_none if is_none.any() else None).cast(_TIMESTAMP)


def _repeated(text: str, count: int) -> Any:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(count, dtype=np.int8)))
