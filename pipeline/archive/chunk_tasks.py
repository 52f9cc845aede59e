"""The tasks of a verification: each checks neighbouring chunks of a partition, on an executor."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from uuid import UUID

from msgspec import Struct

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.log_pieces import COMPACTION, DELETED, LogPiece

from .archive_manifest import Chunk
from .archive_proof import ChunkProof
from .chunk_checking import ReadLog, prove_chunk, records_of, together
from .compaction_planning import chunk_bytes
from .offset_runs import Run
from .record_rollup import HASHED_COLUMNS

_TASK_BYTES = 64 * 2**20
_TASK_CHUNKS_MAX = 64


class LogOfTopic(Struct, frozen=True):
    """What the driver has asked the brokers about a topic."""

    topic_id: UUID
    ends: Mapping[int, int]
    """The offset after the last committed one, by partition."""
    is_compacted: bool


class CheckTask(Struct, frozen=True):
    """Neighbouring chunks of a partition, which one task checks."""

    root: str
    chunks: tuple[Chunk, ...]
    brokers: tuple[str, ...] = ()
    log: LogOfTopic | None = None
    """None to check the archive alone."""


def check_chunks(task: CheckTask) -> list[ChunkProof]:
    """Does one task: checks chunks."""
    read_log = None if task.log is None else partial(_read_log, task.brokers, task.log)
    return [prove_chunk(task.root, chunk, read_log) for chunk in task.chunks]


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


def _read_log(brokers: Sequence[str], log: LogOfTopic, chunk: Chunk) -> ReadLog | str:
    """Reads the offsets of a chunk from the brokers. Returns a sentence if they cannot be read."""
    from tailrace.pipeline.brokers.broker_reading import BrokerRange, each_piece  # only this needs Trio

    end = log.ends[chunk.partition]
    wanted = BrokerRange(chunk.topic, log.topic_id, chunk.partition, chunk.start, min(chunk.end, end))
    collector = LogCollector()
    try:
        if wanted.start < wanted.end:
            each_piece(brokers, wanted, collector.take)
    except JobError as error:
        return str(error)
    return collector.read_log(end, is_compacted=log.is_compacted)


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
