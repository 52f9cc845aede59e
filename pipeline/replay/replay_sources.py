"""What a replay reads: the files of SPUs. The driver plans, and tasks read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tailrace.pipeline.segments.arrow_rows import ArrowBatch
from tailrace.pipeline.segments.segment_options import read_options
from tailrace.pipeline.segments.segment_reading import SegmentRange
from tailrace.pipeline.segments.segment_rows import RowSettings, rows_of

from .record_stream import COLUMNS
from .replay_document import ReplaySettings


class SourceRows(Protocol):
    """The rows of one partition, as a task reads them. It can be pickled."""

    def rows(self, start: int) -> Iterator[ArrowBatch]:
        """Yields the rows from an offset on, in the order of offsets, with the columns of `COLUMNS`."""


class SourcePartition(Struct, frozen=True):
    """One partition of the source."""

    partition: int
    topic_id: str
    start: int
    end: int
    rows: SourceRows


class ReplaySource(Protocol):
    """A source, as the driver plans it."""

    def partitions(
        self, settings: ReplaySettings, extents: Mapping[int, tuple[int, int]] | None = None
    ) -> list[SourcePartition]:
        """Returns the partitions that have records. `extents` are the first offsets that are still to be read and the
        ends, if a replay goes on that has begun. Raises an error with a sentence."""


class SegmentRows(Struct, frozen=True):
    """The rows of some ranges of segments, in order."""

    ranges: tuple[SegmentRange, ...]

    def rows(self, start: int) -> Iterator[ArrowBatch]:
        """Yields the rows from an offset on. Raises SegmentError."""
        wanted = [
            replace(each, start=start, is_first=True) if each.start < start else each
            for each in self.ranges
            if each.end > start
        ]
        return rows_of(wanted, RowSettings(COLUMNS))


class SegmentsSource:
    """Reads the files of SPUs, up to the high watermarks that they have saved."""

    def __init__(self, directories: Sequence[str], topic_id: str | None = None) -> None:
        self._directories = directories
        self._topic_id = topic_id

    def partitions(
        self, settings: ReplaySettings, extents: Mapping[int, tuple[int, int]] | None = None
    ) -> list[SourcePartition]:
        """Returns the partitions that have records. Raises OptionError and SegmentError."""
        # Executors lack what the plan imports.
        from tailrace.pipeline.segments.query_planning import QueryPlan

        given = {"paths": json.dumps(list(self._directories)), "topic": settings.topic, "includeUnsealed": "true"}
        if self._topic_id is not None:
            given["topicId"] = self._topic_id
        if extents is not None:
            given["partitions"] = ",".join(map(str, extents))
            given["startingOffsets"] = _offsets(settings.topic, {each: start for each, (start, _) in extents.items()})
            given["endingOffsets"] = _offsets(settings.topic, {each: end for each, (_, end) in extents.items()})
        else:
            given |= _first_plan(settings)
        found: dict[tuple[str, int], list[SegmentRange]] = {}
        for ranges in QueryPlan(read_options(given, is_streaming=False)).tasks():
            for each in ranges:
                found.setdefault((each.topic_id, each.partition), []).append(each)
        return [
            SourcePartition(partition, topic_id, ranges[0].start, ranges[-1].end, SegmentRows(tuple(ranges)))
            for (topic_id, partition), ranges in sorted(found.items(), key=lambda each: each[0][1])
        ]


def _first_plan(settings: ReplaySettings) -> dict[str, str]:
    """Returns the options that skip what is certainly not sent."""
    given = {}
    if settings.partitions:
        given["partitions"] = ",".join(map(str, settings.partitions))
    if settings.starting_offsets:
        given["startingOffsets"] = settings.starting_offsets
    elif settings.choice.from_ms is not None:
        given["startingTimestamp"] = str(settings.choice.from_ms)
    if settings.ending_offsets:
        given["endingOffsets"] = settings.ending_offsets
    return given


def _offsets(topic: str, by_partition: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(each): offset for each, offset in by_partition.items()}})
