"""The tasks of a verification: each checks neighbouring chunks of a partition, on an executor."""

from collections.abc import Iterable, Iterator
from functools import partial

from msgspec import Struct

from tailrace.pipeline.archive.manifest.archive_manifest import Chunk
from tailrace.pipeline.archive.manifest.offset_runs import Run
from tailrace.pipeline.archive.manifest.record_rollup import HASHED_COLUMNS
from tailrace.pipeline.archive.rounds.chunk_reading import ArchiveTask, read_range
from tailrace.pipeline.archive.upkeep.compaction_planning import chunk_bytes
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.log_gaps import COMPACTION, DELETED
from tailrace.pipeline.segments.log_pieces import LogPiece
from tailrace.pipeline.segments.segment_reading import SegmentError

from .archive_proof import ChunkProof
from .chunk_checking import ReadLog, prove_chunk, records_of, together

_TASK_BYTES = 64 * 2**20
_TASK_CHUNKS_MAX = 64


class ChunkLog(Struct, frozen=True):
    """Where the log has the offsets of a chunk."""

    reads: tuple[ArchiveTask, ...]
    """What to read, in the order of offsets; nothing if the log ends before the chunk."""
    end: int
    """The offset after the last committed one."""
    is_compacted: bool


class CheckTask(Struct, frozen=True):
    """Neighbouring chunks of a partition, which one task checks."""

    root: str
    chunks: tuple[Chunk, ...]
    logs: tuple[ChunkLog, ...] | None = None
    """The log of each chunk; None to check the archive alone."""


def check_chunks(task: CheckTask) -> list[ChunkProof]:
    """Does one task: checks chunks."""
    if task.logs is None:
        return [prove_chunk(task.root, chunk, None) for chunk in task.chunks]
    return [
        prove_chunk(task.root, chunk, partial(_read_log, log))
        for chunk, log in zip(task.chunks, task.logs, strict=True)
    ]


class LogCollector:
    """Collects what the log has of the offsets of a chunk from the pieces that a reader hands over."""

    def __init__(self) -> None:
        self._parts = [records_of(())]
        self._gaps: dict[str, list[Run]] = {}

    def take(self, piece: LogPiece) -> None:
        """Takes the next piece."""
        rows = piece.arrow(HASHED_COLUMNS)
        if rows is not None:
            self._parts.append(records_of([rows]))
        for gap in piece.gaps:
            self._gaps.setdefault(gap.why, []).append((gap.first, gap.last))

    def read_log(self, end: int, *, is_compacted: bool) -> ReadLog:
        """Returns what all pieces have. Compaction explains nothing: the proof knows whether a topic is compacted."""
        never = {why: tuple(runs) for why, runs in self._gaps.items() if why not in (COMPACTION, DELETED)}
        return ReadLog(together(self._parts), end, tuple(self._gaps.get(DELETED, ())), never, is_compacted)


def _read_log(log: ChunkLog) -> ReadLog | str:
    """Reads the offsets of a chunk from the log. Returns a sentence if they cannot be read."""
    collector = LogCollector()
    try:
        for each in log.reads:
            read_range(each, collector.take)
    except (JobError, SegmentError) as error:
        return str(error)
    return collector.read_log(log.end, is_compacted=log.is_compacted)


def plan_checks(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, ...]]:
    """Yields neighbouring chunks of a partition, as many as one task checks."""
    group: list[Chunk] = []
    size = 0
    for chunk in chunks:
        size += chunk_bytes(chunk)
        if group and (group[-1].key != chunk.key or size > _TASK_BYTES or len(group) == _TASK_CHUNKS_MAX):
            yield tuple(group)
            group, size = [], chunk_bytes(chunk)
        group.append(chunk)
    if group:
        yield tuple(group)
