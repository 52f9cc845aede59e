"""Makes record batches of rows, so that events from Spark take the path of those that a replica fetches. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tailrace.protocol.batches.records import Record, build_batch

BATCH_RECORDS_MAX = 500
BATCH_BYTES_MAX = 256 * 1024
"""A batch ends with the record that exceeds this size."""
_RECORD_BYTES = 100
"""About how much memory a record takes besides its content."""


class RowOrderError(Exception):
    """The rows of a task are not those of one shard in their order. The message is one sentence."""


class RowBatch(NamedTuple):
    """Some rows of one shard as a record batch."""

    data: bytes
    end: int
    """The offset after the last record."""


SparkRow = Sequence[Any]
"""Key, value, partition, offset, time in milliseconds, and headers, as Spark's Kafka source has them."""


def batches_of(rows: Iterable[SparkRow], number: int, start: int) -> Iterator[RowBatch]:
    """Yields the rows of one shard from the offset `start` on. Raises RowOrderError."""
    records: list[Record] = []
    size, last = 0, -1
    for key, value, partition, offset, timestamp_ms, headers in rows:
        if partition != number or offset <= last:
            raise RowOrderError(
                f"offset {offset} of partition {partition} comes after {last} of {number}: a task must get the rows "
                "of one partition in their order; remove minPartitions and other settings that mix them"
            )
        last = offset
        if offset < start:
            continue
        records.append(Record(offset, timestamp_ms, _bytes(key), _bytes(value), _headers(headers)))
        size += _RECORD_BYTES + len(key or b"") + len(value or b"")
        if len(records) == BATCH_RECORDS_MAX or size > BATCH_BYTES_MAX:
            yield _batch(records)
            records, size = [], 0
    if records:
        yield _batch(records)


def _batch(records: Sequence[Record]) -> RowBatch:
    return RowBatch(bytes(build_batch(records, base_offset=records[0].offset)), records[-1].offset + 1)


def _bytes(content: bytes | bytearray | None) -> bytes | None:
    return None if content is None else bytes(content)


def _headers(headers: Iterable[tuple[str, bytes | bytearray | None]] | None) -> list[tuple[str, bytes | None]]:
    return [(name, _bytes(value)) for name, value in headers or ()]
