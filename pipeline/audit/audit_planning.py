"""Plans an audit on the driver: which ranges of offsets its tasks compare."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from msgspec import Struct

from tailrace.runtime.embedded.plain_files import PlainFile, read_file
from tailrace.storage.indexes import offset_index
from tailrace.storage.indexes.offset_index import ENTRY_BYTES

from .audit_tasks import AuditTask, TaskCopy
from .copy_finding import FoundCopy
from .log_views import INDEX, LogView, ViewedSegment, segment_path, view_of

TASK_BYTES = 64 * 2**20
"""About how many bytes of each copy one task reads."""
_EMPTY_BYTES = 4096
"""What an empty segment counts, so that a task does not get thousands of them."""


class PartitionPlan(Struct, frozen=True):
    """What is compared of one partition."""

    copies: tuple[FoundCopy, ...]
    views: tuple[LogView, ...]
    starts: tuple[int, ...]
    """The first offset that each copy should have."""
    ends: tuple[int, ...]
    """The high watermark of each copy."""

    @property
    def end(self) -> int:
        """The largest high watermark of a replica."""
        return max((end for copy, end in zip(self.copies, self.ends, strict=True) if not copy.is_shelf), default=0)

    def tasks(self, *, checks_bodies: bool = True, task_bytes: int = TASK_BYTES) -> Iterator[AuditTask]:
        """Yields the tasks, which together cover all offsets."""
        first = self.copies[0]
        end = max(self.ends, default=0)
        # The first range begins at 0: the first segment may begin before the log start.
        bounds = [0, *sorted({each for each in self._splits(task_bytes) if 0 < each < end}), end]
        for start, stop in pairwise(bounds):
            if start < stop:
                copies = tuple(
                    TaskCopy(view.between(start, stop), copy_start, copy_end, copy.is_shelf)
                    for copy, view, copy_start, copy_end in zip(
                        self.copies, self.views, self.starts, self.ends, strict=True
                    )
                )
                yield AuditTask(first.topic, str(first.topic_id), first.partition, start, stop, copies, checks_bodies)

    def _splits(self, task_bytes: int) -> list[int]:
        """Returns the offsets at which tasks begin, so that none reads much more than this of a copy."""
        splits: list[int] = []
        for view in sorted(self.views, key=lambda each: each.log_start):
            size = 0
            # Shelves and replicas may follow each other, so each copy adds what is beyond the ones before.
            for segment in view.segments:
                if splits and segment.base <= splits[-1]:
                    continue
                parts = list(_parts(view, segment, task_bytes))
                if size + parts[0][1] > task_bytes and size:
                    splits.append(segment.base)
                    size = 0
                for offset, _ in parts[1:]:
                    splits.append(offset)
                size = parts[-1][1] + (0 if parts[1:] else size)
        return splits


def plan_partition(copies: Sequence[FoundCopy], views: Mapping[str, LogView] | None = None) -> PartitionPlan:
    """Plans the comparison of the copies of one partition. Raises ViewError."""
    known = [(views or {}).get(copy.directory) or view_of(copy.directory) for copy in copies]
    firsts = [view.segments[0].base if view.segments else view.log_start for view in known]
    certain = [
        view.log_start
        for view, first in zip(known, firsts, strict=True)
        if view.is_start_certain or first <= view.log_start
    ]
    starts, ends = [], []
    for copy, view, first in zip(copies, known, firsts, strict=True):
        start = view.log_start
        if not view.is_start_certain and first > start:
            # Other copies tell whether the records before were deleted.
            start = min(first, max(certain, default=first))
        starts.append(start)
        ends.append(view.sealed_end if copy.is_shelf else copy.high_watermark or 0)
    return PartitionPlan(tuple(copies), tuple(known), tuple(starts), tuple(ends))


def _parts(view: LogView, segment: ViewedSegment, task_bytes: int) -> Iterator[tuple[int, int]]:
    """Yields the parts of a segment: the offset with which each begins, and its size."""
    path = segment_path(view.directory, segment.base)
    size = segment.facts.size if segment.facts is not None else _size(path)
    if size <= task_bytes:
        yield segment.base, max(size, _EMPTY_BYTES)
        return
    offset, position = segment.base, 0
    for entry in _entries(segment_path(view.directory, segment.base, INDEX)):
        at = offset_index.position_of(entry)
        if at - position >= task_bytes:
            yield offset, at - position
            offset, position = segment.base + offset_index.relative_offset_of(entry), at
    yield offset, max(0, size - position)


def _entries(path: str) -> Iterator[int]:
    """Yields the entries of an index as long as they increase. A wrong one does no harm: any split is right."""
    content = b""
    with suppress(FileNotFoundError):
        content = read_file(path)
    before = -1
    for at in range(0, len(content) - ENTRY_BYTES + 1, ENTRY_BYTES):
        entry = int.from_bytes(content[at : at + ENTRY_BYTES], "little")
        if entry <= before:
            return
        yield entry
        before = entry


def _size(path: str) -> int:
    with suppress(FileNotFoundError):
        return PlainFile(path).size()
    return 0
