"""The positions of a stream: which offset of each partition is next, as Spark keeps it in the checkpoint.

A position names the topic by its id. So a topic that was deleted and created again is read from its beginning.
"""

from collections.abc import Mapping
from uuid import UUID

from .copy_choice import Extent
from .segment_reading import SegmentError

Key = tuple[UUID, int]
"""A topic id and a partition."""
Positions = dict[Key, int]
Document = dict[str, dict[str, int]]
"""Positions as Spark stores them: the next offset by topic id and partition."""


def document_of(positions: Mapping[Key, int]) -> Document:
    """Returns the positions for the checkpoint, always in the same order."""
    document: Document = {}
    for (topic_id, partition), offset in sorted(positions.items(), key=lambda each: (str(each[0][0]), each[0][1])):
        document.setdefault(str(topic_id), {})[str(partition)] = offset
    return document


def positions_of(document: Mapping[str, Mapping[str, int]]) -> Positions:
    """Reads the positions of a checkpoint."""
    return {
        (UUID(topic_id), int(partition)): int(offset)
        for topic_id, by_partition in document.items()
        for partition, offset in by_partition.items()
    }


def latest_positions(known: Mapping[Key, int], extents: Mapping[Key, Extent]) -> Positions:
    """Returns the ends of all partitions. A position never goes back, also if a directory is missing for a while."""
    latest = {key: extent.end for key, extent in extents.items()}
    return {key: max(known.get(key, 0), latest.get(key, 0)) for key in {**known, **latest}}


def limited_positions(
    start: Mapping[Key, int], latest: Mapping[Key, int], extents: Mapping[Key, Extent], offsets_max: int
) -> Positions:
    """Returns the positions after at most this many offsets. Each partition gets its share of what it has.

    A share is rounded up, so that each partition with records proceeds.
    """
    begin = {key: begin_of(key, start, extents) for key in latest}
    lags = {key: max(0, latest[key] - begin[key]) for key in latest}
    total = sum(lags.values())
    if total <= offsets_max:
        return dict(latest)
    return {key: begin[key] + min(lag, -(-lag * offsets_max // total)) for key, lag in lags.items()}


def begin_of(key: Key, start: Mapping[Key, int], extents: Mapping[Key, Extent]) -> int:
    """Returns where a partition continues. A partition that is new in the stream begins with its first offset."""
    if key in start:
        return start[key]
    return extents[key].start if key in extents else 0


def check_order(start: int, end: int, name: str) -> None:
    """Raises SegmentError if a partition would go back."""
    if end < start:
        raise SegmentError(
            f"{name} ends at offset {end}, and the stream has read up to offset {start}: add the directories of the "
            "SPUs that have the rest, or begin with a new checkpoint"
        )
