"""Makes rows for the function of the records of an archive's chunk. It reads files, and waits for nothing else."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tailrace.pipeline.archive.chunks.archive_reading import archive_rows
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk
from tailrace.pipeline.segments.arrow_rows import ArrowBatch

from .backfill_planning import Window
from .row_batches import SparkRow

_COLUMNS = ("key", "value", "offset", "timestamp", "headers")
_NO_TIME_MS = -1


def rows_of_chunk(directory: str, chunk: Chunk, start: int, window: Window) -> Iterator[SparkRow]:
    """Yields the records of a chunk from the offset `start` on that are in the window. Raises JobError."""
    if not any(window.may_have(file.date) for file in chunk.files):
        return
    for batch in archive_rows(directory, chunk, _COLUMNS, start=start):
        yield from rows_of_batch(batch, chunk.partition, window)


def rows_of_batch(batch: ArrowBatch, partition: int, window: Window) -> Iterator[SparkRow]:
    """Yields the records of an Arrow batch that are in the window."""
    times = batch.column("timestamp").cast(pa.timestamp("us")).cast(pa.int64())
    times_ms = np.where(np.asarray(times.is_null()), _NO_TIME_MS, np.asarray(times.fill_null(0)) // 1000)
    if not window.is_everything:
        mask = times_ms != _NO_TIME_MS
        if window.begin_ms is not None:
            mask &= times_ms >= window.begin_ms
        if window.end_ms is not None:
            mask &= times_ms < window.end_ms
        batch, times_ms = batch.filter(pa.array(mask)), times_ms[mask]
    columns = [batch.column(name).to_pylist() for name in ("key", "value", "offset", "headers")]
    for key, value, offset, headers, time_ms in zip(*columns, times_ms.tolist(), strict=True):
        yield key, value, partition, offset, time_ms, [(each["key"], each["value"]) for each in headers or ()]
