"""Reads the chunks of an archive in the order of offsets, on executors or on the driver."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.pipeline.archive.manifest.archive_manifest import Chunk, DataFile
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.arrow_rows import ArrowBatch
from tailrace.pipeline.segments.record_columns import Column
from tailrace.pipeline.segments.segment_columns import RECORD_COLUMNS

BATCH_ROWS = 16 * 1024
"""The largest number of rows in a batch of a file."""
_OFFSET = "offset"


def archive_rows(
    directory: str,
    chunk: Chunk,
    columns: Sequence[str] = tuple(RECORD_COLUMNS),
    *,
    start: int = 0,
    end: int = 2**63 - 1,
) -> Iterator[ArrowBatch]:
    """Yields the records of a chunk with offsets in [start, end), in the order of offsets.

    A chunk has a file for each date, and the dates of records need not follow the offsets. So files are merged; only
    those are open that have records around the same offset. Raises JobError if a file is missing or damaged, or has
    another number of records than the manifest says.
    """
    wanted = sorted(
        (file for file in chunk.files if file.first < end and file.last >= start), key=lambda file: file.first
    )
    names = list(dict.fromkeys((*columns, _OFFSET)))
    opened: list[_FileRows] = []
    while wanted or opened:
        if not opened or (wanted and wanted[0].first <= min(each.last for each in opened)):
            opened.append(_FileRows(directory, wanted.pop(0), names, start))
        else:
            # No file that is not open has a record up to here.
            bound = min(each.last for each in opened)
            rows = _merged([each.take(bound) for each in opened])
            opened = [each for each in opened if not each.is_done]
            offsets = np.asarray(rows.column(_OFFSET))
            rows = rows.slice(0, int(np.searchsorted(offsets, end)))
            if rows.num_rows:
                yield rows.select(list(columns))
        opened = [each for each in opened if not each.is_done and each.first < end]


def group_batches(file: Any, rows_max: int, columns: Sequence[str]) -> Iterator[ArrowBatch]:
    """Yields the rows of an open Parquet file, at most so many at a time, and never of two row groups together.

    A row group has a bounded size, and so many rows of large values may have gigabytes.
    """
    for group in range(file.num_row_groups):
        for batch in file.iter_batches(rows_max, row_groups=[group], columns=list(columns), use_threads=False):
            if batch.num_rows:
                yield batch


def unreadable(path: str, error: Exception) -> JobError:
    """Returns the error for a file that is missing or damaged."""
    reason = "it is missing" if isinstance(error, FileNotFoundError) else " ".join(str(error).split())
    return JobError(
        f"{path} is a part of the archive and cannot be read: {reason}; "
        "`tailrace pipeline archive verify` shows what is wrong"
    )


class _FileRows:
    """The rows of a file that were not taken yet. One batch of them is in memory."""

    def __init__(self, directory: str, file: DataFile, names: Sequence[str], start: int) -> None:
        self._path = f"{directory}/{file.path}"
        self._records = file.records
        self._batches = self._read(names)
        self._rows: ArrowBatch | None = None
        self._offsets: Column = np.zeros(0, dtype=np.int64)
        self._next()
        while not self.is_done and self.last < start:
            self._next()
        if not self.is_done and self.first < start:
            self._drop(int(np.searchsorted(self._offsets, start)))

    @property
    def is_done(self) -> bool:
        return self._rows is None

    @property
    def first(self) -> int:
        """The first offset in memory."""
        return int(self._offsets[0])

    @property
    def last(self) -> int:
        """The last offset in memory."""
        return int(self._offsets[-1])

    def take(self, bound: int) -> ArrowBatch:
        """Takes the rows in memory up to and including this offset."""
        assert self._rows is not None
        count = int(np.searchsorted(self._offsets, bound, side="right"))
        found = self._rows.slice(0, count)
        self._drop(count)
        return found

    def _drop(self, count: int) -> None:
        assert self._rows is not None
        if count == len(self._offsets):
            self._next()
        else:
            self._rows, self._offsets = self._rows.slice(count), self._offsets[count:]

    def _next(self) -> None:
        self._rows = next(self._batches, None)
        if self._rows is not None:
            self._offsets = np.asarray(self._rows.column(_OFFSET))

    def _read(self, names: Sequence[str]) -> Iterator[ArrowBatch]:
        try:
            with pq.ParquetFile(self._path) as file:
                count = file.metadata.num_rows
                if count != self._records:
                    what = f"it has {count} records, and the manifest says {self._records}"
                    raise unreadable(self._path, ValueError(what))
                yield from group_batches(file, BATCH_ROWS, names)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(self._path, error) from error


def _merged(parts: Sequence[ArrowBatch]) -> ArrowBatch:
    parts = [each for each in parts if each.num_rows]
    if len(parts) == 1:
        return parts[0]
    together = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
    return together.take(pa.array(np.argsort(np.asarray(together.column(_OFFSET)), kind="stable")))
