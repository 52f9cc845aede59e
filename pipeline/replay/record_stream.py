"""The records of one partition of the source: read from Arrow batches, chosen, masked and hashed."""

from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.pipeline.archive.manifest.record_rollup import record_hashes
from tailrace.pipeline.segments.arrow_rows import ArrowBatch
from tailrace.protocol.batches.records import NO_TIMESTAMP, Record

from .record_choice import RecordChooser
from .record_masks import MaskError, RecordMasks
from .replay_line import ReplayError, SourceRecord

COLUMNS = ("offset", "timestamp", "key", "value", "headers")
"""The columns that a source needs."""
ROWS_MAX = 4096
"""How many records become Python objects together."""
RECORD_BYTES = 20
"""About how many bytes a record takes in a batch besides its content."""
_MICROSECONDS = 1000


class RecordStream:
    """The records to send, some at a time."""

    def __init__(
        self, name: str, batches: Iterable[ArrowBatch], chooser: RecordChooser, masks: RecordMasks, read: int = 0
    ) -> None:
        """`name` is that of the source partition. `read` is how many records were read before these."""
        self._name = name
        self._chooser = chooser
        self._masks = masks
        self._pieces = self._all(batches)
        self.read = read
        """How many records were read in all."""

    def next(self) -> list[SourceRecord] | None:
        """Returns the next records to send, at least one; None at the end.

        Raises ReplayError, and the errors of the source.
        """
        return next(self._pieces, None)

    def _all(self, batches: Iterable[ArrowBatch]) -> Iterator[list[SourceRecord]]:
        for whole in batches:
            for start in range(0, whole.num_rows, ROWS_MAX):
                if piece := self._chosen(whole.slice(start, ROWS_MAX)):
                    yield piece

    def _chosen(self, batch: ArrowBatch) -> list[SourceRecord]:
        records = records_of(batch)
        chosen = None if self._chooser.takes_all else [self._chooser.takes(each) for each in records]
        if self._masks:
            for record in records if chosen is None else compress(records, chosen):
                self._mask(record)
            batch = batch_of(records)
        read, self.read = self.read, self.read + len(records)
        found = map(
            SourceRecord,
            batch.column("offset").to_pylist(),
            records,
            _sizes(batch, records),
            record_hashes(batch).tolist(),
            range(read + 1, self.read + 1),
        )
        return list(found if chosen is None else compress(found, chosen))

    def _mask(self, record: Record) -> None:
        try:
            self._masks.apply(record)
        except MaskError as error:
            raise ReplayError(f"offset {record.offset} of {self._name}: {error}") from None


def records_of(batch: ArrowBatch) -> list[Record]:
    """Returns the rows of an Arrow batch as records with their offsets."""
    offsets, times, keys, values = (batch.column(name) for name in COLUMNS[:4])
    microseconds = times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).fill_null(NO_TIMESTAMP * _MICROSECONDS)
    milliseconds = (np.asarray(microseconds) // _MICROSECONDS).tolist()
    headers = _headers(batch.column(COLUMNS[4]))
    return list(map(Record, offsets.to_pylist(), milliseconds, keys.to_pylist(), values.to_pylist(), headers))


def _sizes(batch: ArrowBatch, records: list[Record]) -> list[int]:
    """Returns about how many bytes each record takes in a batch."""
    key_bytes, value_bytes = (pc.fill_null(pc.binary_length(batch.column(name)), 0) for name in ("key", "value"))
    sizes: list[int] = (np.asarray(key_bytes) + np.asarray(value_bytes) + RECORD_BYTES).tolist()
    for number, record in enumerate(records):
        for name, content in record.headers:
            sizes[number] += len(name) + len(content or b"")
    return sizes


def batch_of(records: list[Record]) -> ArrowBatch:
    """Returns records as an Arrow batch with the columns of `COLUMNS`."""
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    times = [None if each.timestamp == NO_TIMESTAMP else each.timestamp * _MICROSECONDS for each in records]
    arrays = [
        pa.array([each.offset for each in records], pa.int64()),
        pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        pa.array([each.key for each in records], pa.binary()),
        pa.array([each.value for each in records], pa.binary()),
        pa.array(
            [[{"key": name, "value": value} for name, value in each.headers] for each in records], pa.list_(header)
        ),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def _headers(column: Any) -> list[list[tuple[str, bytes | None]]]:
    flat = column.flatten()
    if not len(flat):
        return [[] for _ in range(len(column))]
    names, values = flat.flatten()
    pairs = list(zip(names.to_pylist(), values.to_pylist(), strict=True))
    found, at = [], 0
    for count in column.value_lengths().fill_null(0).to_pylist():
        found.append(pairs[at : at + count])
        at += count
    return found
