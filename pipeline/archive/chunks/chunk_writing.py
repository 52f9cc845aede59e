"""What a task of the archive does: reads a range of offsets, and writes chunks of Parquet files.

A file gets its name when it is complete and on the disk. The name has the token of this attempt, so an attempt that
Spark has given up, and that still runs, writes other files than the next attempt. No file counts before a commit.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from tailrace.pipeline.archive.manifest.archive_layout import (
    DATA,
    NO_DATE,
    TOKEN_DIGITS,
    FileFacts,
    data_path,
    date_of_day,
    temporary_name,
)
from tailrace.pipeline.archive.manifest.archive_manifest import CHUNK_BYTES, Chunk, DataFile
from tailrace.pipeline.archive.manifest.record_rollup import batch_rollup
from tailrace.pipeline.archive.manifest.rollup_sums import add
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.schemas.value_schemas import ValueDecoder, ValueSchema
from tailrace.pipeline.segments.arrow_rows import ArrowBatch
from tailrace.pipeline.segments.log_gaps import Gap
from tailrace.pipeline.segments.log_pieces import LogPiece, merged_gaps
from tailrace.pipeline.segments.record_columns import Column
from tailrace.runtime.chance import Chance
from tailrace.runtime.embedded.plain_files import HashedFile, make_directories, remove

DATES_MAX = 64
"""How many dates a chunk may have. Each has a file of its own, which is open at the same time."""
_GROUP_BYTES = 16 * 2**20
"""About how many bytes of columns a row group has."""
_BUFFERED_BYTES_MAX = 32 * 2**20
"""How many bytes of columns may wait for their row groups in all files of a chunk together."""
_COMPRESSION = "zstd"
_DICTIONARIES = ["topic", "partition", "timestampType", "epoch", "entryType", "producerId", "producerEpoch", "batchCrc"]
_STATISTICS = ["offset", "timestamp", "epoch"]
_DAY_MS = 86_400_000
_NO_DAY = np.iinfo(np.int64).min
_DISK_FULL = (28, 122)  # ENOSPC, EDQUOT


class ChunkTarget(Struct, frozen=True):
    """Where the chunks of one partition go."""

    directory: str
    """The archive."""
    topic: str
    topic_id: str
    partition: int
    chunk_bytes: int = CHUNK_BYTES
    value_schema: ValueSchema | None = None
    """The schema by which files get the columns `data` and `dataError`; None for raw values only."""


class WrittenChunks(Struct, frozen=True):
    """What a task has written, and from how much."""

    chunks: tuple[Chunk, ...]
    source_bytes: int
    unfit: int = 0
    """How many values do not fit the schema."""


class ChunkWriter:
    """Writes the pieces of a partition into chunks, the one after the other."""

    def __init__(self, target: ChunkTarget, chance: Chance, wave: str = "") -> None:
        """`wave`: the first digits of the attempt's token."""
        self._target = target
        self._token = token_in(wave, chance)
        self._open: _OpenChunk | None = None
        self._done: list[Chunk] = []
        self._source_bytes = 0
        self._unfit = 0
        self._decoder = None if target.value_schema is None else ValueDecoder(target.value_schema)

    def add(self, piece: LogPiece) -> None:
        """Writes a piece. Raises OSError."""
        self._source_bytes += piece.source_bytes
        for part in self._parts(piece):
            if self._open is None:
                self._open = _OpenChunk(self._target, self._token, part.start)
            self._open.add(part, piece)
            if part.end < piece.end:
                self._close_chunk()
        assert self._open is not None, "a piece is never empty"
        if self._open.source_bytes >= self._target.chunk_bytes:
            self._close_chunk()

    def finish(self) -> WrittenChunks:
        """Completes the last chunk. Raises OSError."""
        self._close_chunk()
        return WrittenChunks(tuple(self._done), self._source_bytes, self._unfit)

    def discard(self) -> None:
        """Removes all files of this attempt, as far as possible."""
        if self._open is not None:
            self._open.discard()
        remove_files(self._target.directory, self._done)

    def _parts(self, piece: LogPiece) -> Iterator["_Part"]:
        """Splits a piece so that no chunk gets too many dates."""
        batch, days = self._with_data(piece.arrow()), _days_of(piece)
        start = piece.start
        while batch is not None:
            rows = _rows_within(days, self._open.days if self._open is not None else set(), DATES_MAX)
            if rows == len(days):
                break
            end = int(batch.column("offset")[rows].as_py())
            yield _Part(start, end, batch.slice(0, rows), days[:rows], _gaps_within(piece, start, end))
            batch, days, start = batch.slice(rows), days[rows:], end
        yield _Part(start, piece.end, batch, days, _gaps_within(piece, start, piece.end))

    def _with_data(self, batch: ArrowBatch | None) -> ArrowBatch | None:
        """Decodes the values if there is a schema."""
        if batch is None or self._decoder is None:
            return batch
        decoded = self._decoder.with_data(batch)
        self._unfit += decoded.unfit
        return decoded.batch

    def _close_chunk(self) -> None:
        if self._open is not None:
            self._done.append(self._open.finish())
            self._open = None


def token_in(wave: str, chance: Chance) -> str:
    """Returns a token that begins with the digits of a wave, so that the files of a failed wave can be found."""
    digits = TOKEN_DIGITS - len(wave)
    return f"{wave}{chance.below(16**digits):0{digits}x}"


def write_chunks(
    target: ChunkTarget, chance: Chance, read: Callable[[Callable[[LogPiece], None]], None], wave: str = ""
) -> WrittenChunks:
    """Writes everything that `read` hands over. Raises JobError, and leaves no files then."""
    writer = ChunkWriter(target, chance, wave)
    try:
        read(writer.add)
        return writer.finish()
    except OSError as error:
        writer.discard()
        raise JobError(_why_not_written(target, error)) from error
    except BaseException:
        writer.discard()
        raise


def remove_files(directory: str, chunks: Sequence[Chunk]) -> None:
    """Removes the files of chunks that were not committed, as far as possible."""
    for chunk in chunks:
        for file in chunk.files:
            with suppress(OSError):
                remove(f"{directory}/{file.path}")


def _why_not_written(target: ChunkTarget, error: OSError) -> str:
    if error.errno in _DISK_FULL:
        return f"the disk of {target.directory} is full, and the archive is as it was: free some space, and run again"
    path = error.filename or target.directory
    return f"{path} cannot be written, and the archive is as it was: {error.strerror or error}"


class _Part(Struct):
    """The part of a piece that goes into one chunk."""

    start: int
    end: int
    batch: ArrowBatch | None
    days: Column
    gaps: list[Gap]


class _OpenChunk:
    """A chunk that is being written."""

    def __init__(self, target: ChunkTarget, token: str, start: int) -> None:
        self._target = target
        self._token = token
        self._start = self._end = start
        self._gaps: list[Gap] = []
        self._files: dict[int, _OpenFile] = {}
        self._epochs: list[int] = []
        self.source_bytes = 0

    @property
    def days(self) -> set[int]:
        return set(self._files)

    def add(self, part: _Part, piece: LogPiece) -> None:
        assert part.start == self._end, "pieces follow one another"
        self._end = part.end
        self._gaps += part.gaps
        self.source_bytes += piece.source_bytes
        if part.batch is None or not part.batch.num_rows:
            return
        epochs = part.batch.column("epoch")
        self._epochs = [*self._epochs[:1], epochs[0].as_py(), epochs[-1].as_py()]
        found = np.unique(part.days)
        for day in found.tolist():
            rows = part.batch if len(found) == 1 else part.batch.filter(pa.array(part.days == day))
            if day not in self._files:
                self._files[day] = _OpenFile(self._target, self._token, day, rows.schema)
            self._files[day].add(rows)
        while sum(each.buffered_bytes for each in self._files.values()) > _BUFFERED_BYTES_MAX:
            max(self._files.values(), key=lambda each: each.buffered_bytes).flush()

    def finish(self) -> Chunk:
        files = tuple(self._files[day].finish() for day in sorted(self._files))
        return Chunk(
            topic=self._target.topic,
            topic_id=self._target.topic_id,
            partition=self._target.partition,
            start=self._start,
            end=self._end,
            token=self._token,
            records=sum(each.records for each in files),
            rollup=add(*(each.rollup for each in files)),
            files=files,
            gaps=tuple(merged_gaps(self._gaps)),
            epoch_first=self._epochs[0] if self._epochs else -1,
            epoch_last=self._epochs[-1] if self._epochs else -1,
        )

    def discard(self) -> None:
        for each in self._files.values():
            each.discard()


class _OpenFile:
    """A Parquet file that is being written: the records of a chunk with one date."""

    def __init__(self, target: ChunkTarget, token: str, day: int, schema: Any) -> None:
        self._target = target
        self._token = token
        self._date = NO_DATE if day == _NO_DAY else date_of_day(day)
        directory = f"{target.directory}/{DATA}/{target.topic}/date={self._date}"
        make_directories(directory)
        self._path = f"{directory}/{temporary_name(target.topic_id, target.partition, token, self._date)}"
        self._file = HashedFile(self._path)
        self._schema = schema
        self._writer: Any = None
        self._waiting: list[ArrowBatch] = []
        self.buffered_bytes = 0
        self._first = self._last = self._epoch = -1
        self._records = 0
        self._rollup = 0

    def add(self, rows: ArrowBatch) -> None:
        offsets = rows.column("offset")
        if not self._records:
            self._first = offsets[0].as_py()
        self._last, self._epoch = offsets[-1].as_py(), rows.column("epoch")[-1].as_py()
        self._records += rows.num_rows
        self._rollup = add(self._rollup, batch_rollup(rows))
        self._waiting.append(rows)
        self.buffered_bytes += rows.nbytes
        if self.buffered_bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes a row group."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._file,
                self._schema,
                compression=_COMPRESSION,
                use_dictionary=_DICTIONARIES,
                write_statistics=_STATISTICS,
            )
        table = pa.Table.from_batches(self._waiting, self._schema)
        self._waiting, self.buffered_bytes = [], 0
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)

    def finish(self) -> DataFile:
        self.flush()
        self._writer.close()
        facts = FileFacts(
            self._target.topic_id, self._target.partition, self._first, self._last, self._epoch, self._token
        )
        path = data_path(self._target.topic, self._date, facts.name)
        size, sha256 = self._file.publish(f"{self._target.directory}/{path}")
        self._path = f"{self._target.directory}/{path}"
        return DataFile(path, self._date, self._first, self._last, self._records, size, self._rollup, sha256)

    def discard(self) -> None:
        with suppress(Exception):  # it is half written
            self._writer.close()
        self._file.close()
        with suppress(OSError):
            remove(self._path)


def _days_of(piece: LogPiece) -> Column:
    """Returns the day of each record, counted from 1970-01-01."""
    if piece.rows is None:
        return np.zeros(0, dtype=np.int64)
    times = piece.rows.timestamps()
    days = times // _DAY_MS
    outside = (times == -1) | np.isin(days, [day for day in np.unique(days).tolist() if date_of_day(day) == NO_DATE])
    return np.where(outside, _NO_DAY, days) if outside.any() else days


def _rows_within(days: Column, known: set[int], dates_max: int) -> int:
    """Returns how many rows from the first on have at most this many dates, with those that are known."""
    found, firsts = np.unique(days, return_index=True)
    new = sorted(first for day, first in zip(found.tolist(), firsts.tolist(), strict=True) if day not in known)
    allowed = dates_max - len(known)
    return new[allowed] if len(new) > allowed else len(days)


def _gaps_within(piece: LogPiece, start: int, end: int) -> list[Gap]:
    if start == piece.start and end == piece.end:
        return list(piece.gaps)
    return [
        Gap(max(gap.first, start), min(gap.last, end - 1), gap.why)
        for gap in piece.gaps
        if gap.first < end and gap.last >= start
    ]
