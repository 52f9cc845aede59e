"""Groups the ranges of segments into tasks.

A task costs Spark and its Python worker about 0.05 s of a core, whatever it reads.
"""

from collections.abc import Iterable, Iterator

from .segment_reading import SegmentRange


def grouped(ranges: Iterable[SegmentRange], task_bytes: int) -> Iterator[tuple[SegmentRange, ...]]:
    """Yields neighbouring ranges that together have about this many bytes."""
    group: list[SegmentRange] = []
    size = 0
    for each in ranges:
        if group and size + each.bytes_estimate > task_bytes:
            yield tuple(group)
            group, size = [], 0
        group.append(each)
        size += each.bytes_estimate
    if group:
        yield tuple(group)
