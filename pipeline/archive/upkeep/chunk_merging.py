"""What a task of a compaction does: copies the records of neighbouring chunks into one chunk."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from tailrace.pipeline.archive.chunks.archive_reading import archive_rows, unreadable
from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget, WrittenChunks, remove_files, write_chunks
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk
from tailrace.pipeline.archive.manifest.rollup_sums import add
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.schemas.value_schemas import DATA, DATA_ERROR, VALUE_COLUMNS
from tailrace.pipeline.segments.arrow_rows import ArrowBatch, RecordRows
from tailrace.pipeline.segments.log_gaps import Gap
from tailrace.pipeline.segments.log_pieces import LogPiece
from tailrace.pipeline.segments.record_columns import Column
from tailrace.pipeline.segments.segment_columns import RECORD_COLUMNS
from tailrace.runtime.chance import Chance, RandomChance

from .compaction_planning import Merge

_ONE_CHUNK = 2**62
_US_PER_MS = 1000
_OTHER_SCHEMA = "the value was decoded by a schema with other types, and a merged file has those of the newest one"


class MergeTask(Struct, frozen=True):
    """Chunks that one task merges."""

    directory: str
    merge: Merge


class StoredRows:
    """Rows of an archive, which a writer takes like rows of a log."""

    def __init__(self, batch: ArrowBatch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def timestamps(self) -> Column:
        """Returns the times in milliseconds; -1 for none."""
        microseconds = self._batch.column("timestamp").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        return np.asarray(microseconds.fill_null(-_US_PER_MS)) // _US_PER_MS

    def record_batch(self, columns: Any) -> ArrowBatch:
        """Returns the rows with these columns, and with those of their values."""
        values = [name for name in self._batch.schema.names if name in VALUE_COLUMNS]
        return self._batch.select([*columns, *values])


def merge_chunks(task: MergeTask) -> WrittenChunks:
    """Does one task. Raises JobError, also if the files do not hold what the manifest says."""
    return merge_into_one(task, RandomChance())


def merge_into_one(task: MergeTask, chance: Chance) -> WrittenChunks:
    """Writes the records of the chunks into one chunk, or into several if they have too many dates."""
    first = task.merge.chunks[0]
    target = ChunkTarget(task.directory, first.topic, first.topic_id, first.partition, _ONE_CHUNK)
    values = value_type(task.directory, task.merge.chunks)

    def read(add_piece: Any) -> None:
        for chunk in task.merge.chunks:
            for piece in pieces_of(task.directory, chunk, values):
                add_piece(piece)

    written = write_chunks(target, chance, read)
    expected = sum(each.records for each in task.merge.chunks), add(*(each.rollup for each in task.merge.chunks))
    if (sum(each.records for each in written.chunks), add(*(each.rollup for each in written.chunks))) != expected:
        remove_files(task.directory, written.chunks)
        last = task.merge.chunks[-1]
        raise JobError(
            f"the files of {first.topic}/{first.partition} do not hold what the manifest says for the offsets "
            f"{first.start} to {last.end - 1}: `tailrace pipeline archive verify {task.directory}` shows what is wrong"
        )
    return written


def value_type(directory: str, chunks: Sequence[Chunk]) -> Any:
    """Returns the type that decoded values get; None if no file has any. Raises JobError.

    It has the fields of all chunks, unless a type was changed: then it is the type of the newest chunk.
    """
    values: Any = None
    for chunk in chunks:
        if (found := _value_type_of(directory, chunk)) is not None:
            both = None if values is None else with_fields_of_both(values, found)
            values = found if both is None else both
    return values


def _value_type_of(directory: str, chunk: Chunk) -> Any:
    """Returns the type of decoded values in a chunk, whose files have the same columns; None without them."""
    if not chunk.files:
        return None
    path = f"{directory}/{chunk.files[0].path}"
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error
    return schema.field(DATA).type if DATA in schema.names else None


def pieces_of(directory: str, chunk: Chunk, values: Any = None) -> Iterator[LogPiece]:
    """Yields a chunk in pieces like those of a log. `values` is the type that decoded values get; None for none."""
    position = chunk.start
    known = _value_type_of(directory, chunk) if values is not None else None
    columns = (*RECORD_COLUMNS, *(VALUE_COLUMNS if known is not None else ()))
    for batch in archive_rows(directory, chunk, columns):
        if not batch.num_rows:
            continue
        if values is not None:
            batch = _with_values(batch, values, known)
        end = int(batch.column("offset")[batch.num_rows - 1].as_py()) + 1
        yield LogPiece(position, end, cast("RecordRows", StoredRows(batch)), _gaps_within(chunk, position, end))
        position = end
    if position < chunk.end:
        yield LogPiece(position, chunk.end, None, _gaps_within(chunk, position, chunk.end))


def _with_values(batch: ArrowBatch, values: Any, known: Any) -> ArrowBatch:
    """Returns the rows with decoded values of one type. Fields that rows do not have are null there.

    Rows whose values have other types keep their raw values only.
    """
    if known == values:
        return batch
    records = batch.select(list(RECORD_COLUMNS))
    if known is None:
        data, errors = pa.nulls(batch.num_rows, values), pa.nulls(batch.num_rows, pa.string())
    elif with_fields_of_both(values, known) == values:
        data, errors = widened(batch.column(DATA), values), batch.column(DATA_ERROR)
    else:
        data = pa.nulls(batch.num_rows, values)
        errors = pa.array([_OTHER_SCHEMA] * batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*records.columns, data, errors], [*records.schema.names, *VALUE_COLUMNS])


def with_fields_of_both(older: Any, newer: Any) -> Any:
    """Returns the type of Arrow with the fields of both types; None if a field has another type in each."""
    if older == newer:
        return newer
    if pa.types.is_struct(older) and pa.types.is_struct(newer):
        known = {field.name: field.type for field in older}
        found = {
            field.name: with_fields_of_both(known[field.name], field.type) if field.name in known else field.type
            for field in newer
        }
        return None if None in found.values() else pa.struct(list({**known, **found}.items()))
    if pa.types.is_list(older) and pa.types.is_list(newer):
        element = with_fields_of_both(older.value_type, newer.value_type)
        return None if element is None else pa.list_(pa.field(newer.value_field.name, element))
    if pa.types.is_map(older) and pa.types.is_map(newer) and older.key_type == newer.key_type:
        item = with_fields_of_both(older.item_type, newer.item_type)
        return None if item is None else pa.map_(newer.key_type, item)
    return None


def widened(values: Any, kind: Any) -> Any:
    """Returns the array with a type that has more fields, which are null. Older versions of Arrow cannot cast so."""
    return _widened(values.take(pa.array(range(len(values)), pa.int32())), kind)


def _widened(values: Any, kind: Any) -> Any:
    """Widens an array that is no part of another one."""
    if values.type == kind:
        return values
    if pa.types.is_struct(kind):
        known = {field.name for field in values.type}
        columns = [
            _widened(values.field(field.name), field.type) if field.name in known else pa.nulls(len(values), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=values.is_null())
    is_null = np.concatenate((np.asarray(values.is_null()), [False]))
    offsets = pa.array(np.asarray(values.offsets), pa.int32(), mask=is_null)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(offsets, _widened(values.values, kind.value_type), type=kind)
    return pa.MapArray.from_arrays(offsets, values.keys, _widened(values.items, kind.item_type), type=kind)


def _gaps_within(chunk: Chunk, start: int, end: int) -> tuple[Gap, ...]:
    return tuple(
        Gap(max(gap.first, start), min(gap.last, end - 1), gap.why)
        for gap in chunk.gaps
        if gap.first < end and gap.last >= start
    )
