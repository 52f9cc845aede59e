"""What a task of a compaction does: copies the records of neighbouring chunks into one chunk."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
from msgspec import Struct

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.arrow_rows import ArrowBatch, RecordRows
from tailrace.pipeline.segments.log_pieces import Gap, LogPiece
from tailrace.pipeline.segments.record_columns import Column
from tailrace.runtime.chance import Chance, RandomChance

from .archive_manifest import Chunk
from .archive_reading import archive_rows
from .chunk_writing import ChunkTarget, WrittenChunks, remove_files, write_chunks
from .compaction_planning import Merge
from .record_rollup import add

_ONE_CHUNK = 2**62
_US_PER_MS = 1000


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
        return self._batch.select(list(columns))


def merge_chunks(task: MergeTask) -> WrittenChunks:
    """Does one task. Raises JobError, also if the files do not hold what the manifest says."""
    return merge_into_one(task, RandomChance())


def merge_into_one(task: MergeTask, chance: Chance) -> WrittenChunks:
    """Writes the records of the chunks into one chunk, or into several if they have too many dates."""
    first = task.merge.chunks[0]
    target = ChunkTarget(task.directory, first.topic, first.topic_id, first.partition, _ONE_CHUNK)

    def read(add_piece: Any) -> None:
        for chunk in task.merge.chunks:
            for piece in pieces_of(task.directory, chunk):
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


def pieces_of(directory: str, chunk: Chunk) -> Iterator[LogPiece]:
    """Yields a chunk in pieces like those of a log."""
    position = chunk.start
    for batch in archive_rows(directory, chunk):
        if not batch.num_rows:
            continue
        end = int(batch.column("offset")[batch.num_rows - 1].as_py()) + 1
        yield LogPiece(position, end, cast("RecordRows", StoredRows(batch)), _gaps_within(chunk, position, end))
        position = end
    if position < chunk.end:
        yield LogPiece(position, chunk.end, None, _gaps_within(chunk, position, chunk.end))


def _gaps_within(chunk: Chunk, start: int, end: int) -> tuple[Gap, ...]:
    return tuple(
        Gap(max(gap.first, start), min(gap.last, end - 1), gap.why)
        for gap in chunk.gaps
        if gap.first < end and gap.last >= start
    )
