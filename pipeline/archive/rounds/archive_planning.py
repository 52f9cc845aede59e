"""Plans what the tasks of an archive read: ranges of about the same size, which follow one another. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from msgspec import Struct

from tailrace.pipeline.archive.manifest.archive_layout import archived_topic_id
from tailrace.pipeline.archive.manifest.archive_manifest import ArchivedPartition, PartitionKey, Positions
from tailrace.runtime.wall_clock import moment_ms

T = TypeVar("T")

EARLIEST, LATEST = "earliest", "latest"
When = str | int
"""EARLIEST, LATEST, or a time in milliseconds."""
RECORD_BYTES = 256
"""The size of a record if nothing is known about a partition."""
TASK_RECORDS_MAX = 4_000_000
_DURATION = re.compile(r"(\d{1,9})(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?")


class PlanError(Exception):
    """What the caller wants cannot be planned; the message is one sentence."""


class LogExtent(Struct, frozen=True):
    """What the source has of a partition."""

    topic: str
    log_id: UUID
    """The topic id that the source gives; zero for none."""
    partition: int
    start: int
    end: int
    """The offset after the last one that is archived now."""
    first: int
    """The offset with which the archive begins if the partition is new in it."""
    log_end: int | None = None
    """The offset after the last committed record, if the source certainly knows it."""
    size: int | None = None
    """The size of the log in bytes, if the source knows it."""

    @property
    def topic_id(self) -> str:
        return archived_topic_id(self.topic, self.log_id)

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition

    def task_offsets(self, task_bytes: int) -> int:
        """Returns how many offsets have about this many bytes."""
        count = self.end - self.start
        each = self.size / count if self.size is not None and count > 0 else RECORD_BYTES
        return max(1, min(TASK_RECORDS_MAX, int(task_bytes / max(each, 1))))


def new_partitions(extents: Sequence[LogExtent], positions: Positions) -> list[ArchivedPartition]:
    """Returns the partitions that the archive does not have yet."""
    return [
        ArchivedPartition(each.topic, each.topic_id, each.partition, each.first)
        for each in extents
        if each.partition not in positions.get(each.topic_id, {})
    ]


def check_positions(extents: Sequence[LogExtent], positions: Positions) -> None:
    """Raises PlanError if the archive is ahead of a log, which then lost records or is another one."""
    for each in extents:
        position = positions.get(each.topic_id, {}).get(each.partition)
        if position is not None and each.log_end is not None and position > each.log_end:
            raise PlanError(
                f"the archive has {each.topic}/{each.partition} up to offset {position - 1}, and the log has nothing "
                f"from offset {each.log_end} on: it is another log, or it has lost records; archive it to another "
                "directory"
            )


def lags(extents: Sequence[LogExtent], positions: Positions) -> Mapping[PartitionKey, tuple[int, int]]:
    """Returns the position and the end of each partition that the archive lags behind."""
    found = {each.key: (positions.get(each.topic_id, {}).get(each.partition, each.first), each.end) for each in extents}
    return {key: (position, end) for key, (position, end) in found.items() if position < end}


def ranges_between(start: int, end: int, offsets_each: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of this many offsets."""
    for first in range(start, end, offsets_each):
        yield first, min(first + offsets_each, end)


def next_wave(waiting: list[Iterator[T]], count: int) -> list[T]:
    """Takes tasks of all partitions in turn, up to `count`, and removes the partitions that have none left.

    The tasks of one partition stay in order, and none is left out: a commit must have no gap.
    """
    found: list[T] = []
    while waiting and len(found) < count:
        for tasks in list(waiting):
            if len(found) == count:
                break
            following = next(tasks, None)
            if following is None:
                waiting.remove(tasks)
            else:
                found.append(following)
    return found


def tasks_total(extents: Sequence[LogExtent], positions: Positions, task_bytes: int) -> int:
    """Returns about how many tasks there are, for the progress."""
    of_key = {each.key: each for each in extents}
    return sum(
        -(-(end - position) // of_key[key].task_offsets(task_bytes))
        for key, (position, end) in lags(extents, positions).items()
    )


def parse_when(text: str, option: str, *words: str) -> When:
    """Reads one of the words, or a time. Raises PlanError."""
    if text in words:
        return text
    if text.isdecimal():
        return int(text)
    if _TIME.fullmatch(text) and (found := moment_ms(text)) is not None:
        return found
    allowed = "".join(f"{word}, " for word in words)
    raise PlanError(
        f"{option} cannot be {text!r}: it must be {allowed}a time such as 2026-01-31T12:00:00Z, or milliseconds"
    )


def parse_every(text: str) -> float:
    """Reads a duration in seconds. Raises PlanError."""
    found = _DURATION.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise PlanError(f"--every cannot be {text!r}: it must be a duration such as 30s, 5m or 1h")
    return float(int(found[1]) * _SECONDS[found[2]])
