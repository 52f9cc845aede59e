"""What a task does on an executor: reads its ranges, and yields Arrow record batches."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from tailrace.protocol.error_codes import KafkaError

from .arrow_rows import ArrowBatch, RecordRows, RowFilter, Source, StoredBatch, batch_rows
from .batch_decoding import DECODED_RECORDS_MAX, DecodedSize, decode_batches
from .record_columns import Column
from .segment_columns import ENTRY_TYPES
from .segment_reading import ReadBatch, SegmentError, SegmentGoneError, SegmentRange, SegmentReading

ROWS_MAX = DECODED_RECORDS_MAX
"""The largest number of rows in an Arrow batch."""
LATEST_KEYS_MAX = 4_000_000
"""How many keys a task remembers for `latestByKey`: with short keys about 600 MB."""


class RowSettings(Struct, frozen=True):
    """What a query wants of its ranges: the same for all tasks."""

    columns: tuple[str, ...]
    header_only: bool = False
    checks_crc: bool = True
    entry_types: tuple[str, ...] = ENTRY_TYPES[:1]
    as_of_ms: int | None = None
    """The time after which no row may be; None for any time."""
    latest_by_key: bool = False
    fails_on_data_loss: bool = True


def rows_of(ranges: Sequence[SegmentRange], settings: RowSettings) -> Iterator[ArrowBatch]:
    """Yields the rows of the ranges. Raises SegmentError."""
    if settings.header_only:
        for wanted in ranges:
            yield from _batch_rows(wanted, settings)
        return
    latest = _latest_offsets(ranges, settings) if settings.latest_by_key else None
    for wanted in ranges:
        for rows in _record_rows(wanted, settings):
            if latest is not None:
                rows.keep(np.isin(rows.offsets, latest))
            if len(rows):
                yield from _sliced(rows.record_batch(settings.columns))


def _sliced(batch: ArrowBatch) -> Iterator[ArrowBatch]:
    for start in range(0, batch.num_rows, ROWS_MAX):
        yield batch.slice(start, ROWS_MAX)


def _latest_offsets(ranges: Sequence[SegmentRange], settings: RowSettings) -> Column:
    """Returns the offset of the last row of each key."""
    latest: dict[bytes | None, int] = {}
    for wanted in ranges:
        for rows in _record_rows(wanted, settings):
            latest.update(zip(rows.keys().to_pylist(), rows.offsets.tolist(), strict=True))
            if len(latest) > LATEST_KEYS_MAX:
                raise SegmentError(
                    f"{wanted.topic}/{wanted.partition} has more than {LATEST_KEYS_MAX} keys, too many for the memory "
                    "of one task: read without latestByKey, and call latest_by_key(frame), which uses all executors"
                )
    return np.array(sorted(latest.values()), dtype=np.int64)


def _batch_rows(wanted: SegmentRange, settings: RowSettings) -> Iterator[ArrowBatch]:
    source = _source(wanted)
    for _, group in _groups(wanted, settings, decodes=False):
        stored = [_stored(batch) for batch in group]
        yield batch_rows(source, stored, settings.columns)


def _record_rows(wanted: SegmentRange, settings: RowSettings) -> Iterator[RecordRows]:
    source = _source(wanted)
    row_filter = RowFilter(wanted.start, wanted.end, settings.as_of_ms)
    for reading, group in _groups(wanted, settings, decodes=True):
        yield _decoded(reading, group, source, row_filter)


def _decoded(reading: SegmentReading, group: Sequence[ReadBatch], source: Source, row_filter: RowFilter) -> RecordRows:
    try:
        return RecordRows(source, [_stored(batch) for batch in group], decode_batches(group), row_filter)
    except KafkaError as error:
        # Decoding them one by one finds the batch at fault.
        if len(group) == 1:
            raise reading.undecodable(group[0], error) from None
        for batch in group:
            _decoded(reading, [batch], source, row_filter)
        raise


def _groups(
    wanted: SegmentRange, settings: RowSettings, *, decodes: bool
) -> Iterator[tuple[SegmentReading, list[ReadBatch]]]:
    """Yields neighbouring batches of the wanted types, as many as become rows together.

    `decodes`: whether their records are decoded. Otherwise each batch is one row.
    """
    reading = SegmentReading(wanted, header_only=settings.header_only, checks_crc=settings.checks_crc)
    types = [ENTRY_TYPES.index(name) for name in settings.entry_types]
    group: list[ReadBatch] = []
    size = DecodedSize()
    try:
        for batch in reading.batches():
            if batch.is_aborted or batch.entry_type not in types:
                continue
            if group and batch.chunk is not group[0].chunk:  # batches of one chunk need no copy
                yield reading, group
                group, size = [], DecodedSize()
            is_full = not _fits(reading, size, batch) if decodes else len(group) >= ROWS_MAX
            if group and is_full:
                yield reading, group
                group = []
            group.append(batch)
    except SegmentGoneError:
        if settings.fails_on_data_loss:
            raise
    if group:
        yield reading, group


def _fits(reading: SegmentReading, size: DecodedSize, batch: ReadBatch) -> bool:
    try:
        return size.add(batch)
    except KafkaError as error:
        raise reading.undecodable(batch, error) from None


def _source(wanted: SegmentRange) -> Source:
    return Source(wanted.topic, wanted.topic_id, wanted.partition, wanted.directory, wanted.base)


def _stored(batch: ReadBatch) -> StoredBatch:
    return StoredBatch(batch.header, batch.position, batch.entry_type, batch.crc_matches)
