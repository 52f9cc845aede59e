"""The task of an archive that reads a range from brokers or segments, and writes it as chunks, on an executor."""

from collections.abc import Callable
from functools import partial
from uuid import UUID

from msgspec import Struct

from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget, WrittenChunks, write_chunks
from tailrace.pipeline.segments.log_pieces import LogPiece, deleted_piece
from tailrace.pipeline.segments.segment_pieces import each_segment_piece
from tailrace.pipeline.segments.segment_reading import SegmentRange
from tailrace.runtime.chance import RandomChance


class ArchiveTask(Struct, frozen=True):
    """Offsets `[start, end)` of a partition, and where they are read."""

    target: ChunkTarget
    wave: str
    """The digits with which the tokens of this task's attempts begin."""
    log_id: UUID
    """The topic id that the brokers know."""
    start: int
    end: int
    brokers: tuple[str, ...] = ()
    ranges: tuple[SegmentRange, ...] = ()
    """The segments, if there are no brokers."""


def archive_range(task: ArchiveTask) -> WrittenChunks:
    """Reads and writes. Raises JobError and SegmentError, and leaves no files then."""
    return write_chunks(task.target, RandomChance(), partial(read_range, task), task.wave)


def read_range(task: ArchiveTask, handle: Callable[[LogPiece], None]) -> None:
    """Reads the offsets of a task, and hands over one piece after the other. Raises JobError and SegmentError."""
    if task.brokers:
        _read_from_brokers(task, handle)
        return
    first = task.ranges[0].start if task.ranges else task.end
    if task.start < first:
        handle(deleted_piece(task.start, first))
    each_segment_piece(task.ranges, handle)


def _read_from_brokers(task: ArchiveTask, handle: Callable[[LogPiece], None]) -> None:
    from tailrace.pipeline.brokers.broker_reading import BrokerRange, each_piece  # a task on segments needs no Trio

    wanted = BrokerRange(task.target.topic, task.log_id, task.target.partition, task.start, task.end)
    each_piece(task.brokers, wanted, handle)
