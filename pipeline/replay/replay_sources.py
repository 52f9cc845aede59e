"""What a replay reads: the files of SPUs, or an archive. The driver plans, and tasks read."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tailrace.pipeline.archive.chunks.archive_reading import archive_rows
from tailrace.pipeline.archive.manifest.archive_layout import may_have_times
from tailrace.pipeline.archive.manifest.archive_manifest import ArchivedPartition, Chunk
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, StoreOf
from tailrace.pipeline.segments.arrow_rows import ArrowBatch
from tailrace.pipeline.segments.segment_options import OptionError, read_options
from tailrace.pipeline.segments.segment_reading import SegmentError, SegmentRange
from tailrace.pipeline.segments.segment_rows import RowSettings, rows_of

from .record_choice import RecordChoice
from .record_stream import COLUMNS
from .replay_document import ReplaySettings
from .replay_line import ReplayError


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
        """Returns the partitions that have offsets to read. Raises an error with a sentence.

        `extents` are the first offsets that are still to be read and the ends, if a replay goes on that has begun. A
        source that no longer has all of them returns what it has.
        """


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
        """Returns the partitions that have records. Raises ReplayError."""
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
        try:
            plan = QueryPlan(read_options(given, is_streaming=False))
            if extents is None:
                check_partitions(settings, [number for _, number in plan.extents], ", ".join(self._directories))
            for ranges in plan.tasks():
                for each in ranges:
                    found.setdefault((each.topic_id, each.partition), []).append(each)
        except (OptionError, SegmentError) as error:
            raise ReplayError(str(error)) from None
        return [
            SourcePartition(partition, topic_id, ranges[0].start, ranges[-1].end, SegmentRows(tuple(ranges)))
            for (topic_id, partition), ranges in sorted(found.items(), key=lambda each: each[0][1])
        ]


class ArchiveRows(Struct, frozen=True):
    """The rows of some chunks of an archive, in order."""

    directory: str
    chunks: tuple[Chunk, ...]
    end: int

    def rows(self, start: int) -> Iterator[ArrowBatch]:
        """Yields the rows from an offset on. Raises JobError."""
        for chunk in self.chunks:
            if chunk.end > start:
                yield from archive_rows(self.directory, chunk, COLUMNS, start=start, end=self.end)


class ArchiveSource:
    """Reads the files of an archive that its manifest names now."""

    def __init__(self, directory: str, topic_id: str | None = None, store_of: StoreOf | None = None) -> None:
        self._directory = directory
        self._topic_id = topic_id
        self._store_of = store_of

    def partitions(
        self, settings: ReplaySettings, extents: Mapping[int, tuple[int, int]] | None = None
    ) -> list[SourcePartition]:
        """Returns the partitions that have records. Raises JobError."""
        manifest = ArchiveFolder(self._directory, self._store_of).load().manifest
        ends = manifest.positions()
        found = []
        chosen = self._chosen(settings.topic, manifest.partitions)
        if extents is None:
            check_partitions(settings, [each.partition for each in chosen], f"the archive {self._directory}")
        for each in chosen:
            start, end = each.start, ends[each.topic_id][each.partition]
            if extents is not None:
                if each.partition not in extents:
                    continue
                start, end = max(start, extents[each.partition][0]), min(end, extents[each.partition][1])
            elif settings.partitions and each.partition not in settings.partitions:
                continue
            else:
                start = max(start, _given_offset(settings.starting_offsets, each, start))
                end = min(end, _given_offset(settings.ending_offsets, each, end))
            chunks = (
                without_files_outside(chunk, settings.choice)
                for chunk in manifest.chunks_of(each.topic_id, each.partition)
                if chunk.start < end and chunk.end > start
            )
            rows = ArchiveRows(self._directory, tuple(chunk for chunk in chunks if chunk.files), end)
            if start < end:
                found.append(SourcePartition(each.partition, each.topic_id, start, end, rows))
        return found

    def _chosen(self, topic: str, partitions: Sequence[ArchivedPartition]) -> list[ArchivedPartition]:
        of_topic = [each for each in partitions if each.topic == topic]
        ids = list(dict.fromkeys(each.topic_id for each in of_topic))
        if self._topic_id is None and len(ids) > 1:
            raise ReplayError(
                f"{topic} was deleted and created again, and its records are in {self._directory} under "
                f"{' and '.join(ids)}: choose one with --topic-id"
            )
        chosen = [each for each in of_topic if self._topic_id in (None, each.topic_id)]
        if not chosen:
            what = f"topic {topic}" if self._topic_id is None else f"topic {topic} with the id {self._topic_id}"
            raise ReplayError(f"there is no {what} in the archive {self._directory}")
        return chosen


def check_partitions(settings: ReplaySettings, known: Collection[int], where: str) -> None:
    """Raises ReplayError if a partition is chosen that the source does not have."""
    missing = [each for each in settings.partitions if each not in known]
    if missing:
        raise ReplayError(
            f"{settings.topic} has no partition {', '.join(map(str, missing))} in {where}: it has "
            f"{', '.join(map(str, sorted(known))) or 'none of those that are chosen'}"
        )


def without_files_outside(chunk: Chunk, choice: RecordChoice) -> Chunk:
    """Returns the chunk without the files whose date tells that they have no record in the window of time."""
    files = (each for each in chunk.files if may_have_times(each.date, choice.from_ms, choice.until_ms))
    return replace(chunk, files=tuple(files))


def _given_offset(given: str, partition: ArchivedPartition, default: int) -> int:
    if not given:
        return default
    found = json.loads(given)
    if isinstance(found, int):
        return found
    return int(found[partition.topic].get(str(partition.partition), default))


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
