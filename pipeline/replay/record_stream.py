"""The records of one partition of the source: read from Arrow batches, chosen, masked and hashed."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from tailrace.pipeline.archive.record_rollup import record_hashes
from tailrace.pipeline.segments.arrow_rows import ArrowBatch
from tailrace.protocol.batches.records import NO_TIMESTAMP, Record

from .record_choice import RecordChooser
from .record_masks import MaskError, RecordMasks
from .replay_line import ReplayError, SourceRecord, record_size

COLUMNS = ("offset", "timestamp", "key", "value", "headers")
"""The columns that a source needs."""
ROWS_MAX = 4096
"""How many records become Python objects together."""
_MICROSECONDS = 1000


class RecordStream:
    """An iterator over the records to send, which knows how far it has read."""

    def __init__(
        self, name: str, batches: Iterable[ArrowBatch], chooser: RecordChooser, masks: RecordMasks, read: int = 0
    ) -> None:
        """`name` is that of the source partition. `read` is how many records were read before these."""
        self._name = name
        self._chooser = chooser
        self._masks = masks
        self._records = self._all(batches)
        self.read = read
        """How many records were read in all."""

    def next(self) -> SourceRecord | None:
        """Returns the next record to send; None at the end. Raises ReplayError, and the errors of the source."""
        return next(self._records, None)

    def _all(self, batches: Iterable[ArrowBatch]) -> Iterator[SourceRecord]:
        for whole in batches:
            for start in range(0, whole.num_rows, ROWS_MAX):
                yield from self._chosen(whole.slice(start, ROWS_MAX))

    def _chosen(self, batch: ArrowBatch) -> Iterator[SourceRecord]:
        records = records_of(batch)
        chosen = None if self._chooser.takes_all else [self._chooser.takes(each) for each in records]
        if self._masks:
            for number, record in enumerate(records):
                if chosen is None or chosen[number]:
                    self._mask(record)
            batch = batch_of(records)
        hashes = record_hashes(batch).tolist()
        for number, record in enumerate(records):
            self.read += 1
            if chosen is None or chosen[number]:
                yield SourceRecord(record.offset, record, record_size(record), hashes[number], self.read)

    def _mask(self, record: Record) -> None:
        try:
            self._masks.apply(record)
        except MaskError as error:
            raise ReplayError(f"offset {record.offset} of {self._name}: {error}") from None


def records_of(batch: ArrowBatch) -> list[Record]:
    """Returns the rows of an Arrow batch as records with their offsets."""
    offsets, times, keys, values = (batch.column(name) for name in COLUMNS[:4])
    milliseconds = [
        NO_TIMESTAMP if each is None else each // _MICROSECONDS
        for each in times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    ]
    columns = (
        offsets.to_pylist(),
        milliseconds,
        keys.to_pylist(),
        values.to_pylist(),
        _headers(batch.column(COLUMNS[4])),
    )
    return [Record(*fields) for fields in zip(*columns, strict=True)]


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
