"""Where an archive's records come from: brokers of Tailrace or Apache Kafka, or the files of SPUs. For the driver."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import trio

from tailrace.client.client_network import client_network
from tailrace.client.log_facts import Partition
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget
from tailrace.pipeline.archive.manifest.archive_manifest import CHUNK_BYTES
from tailrace.pipeline.brokers import broker_reading
from tailrace.pipeline.brokers.broker_reading import BrokerClient
from tailrace.pipeline.jobs.job_errors import JobError, WrongUsageError
from tailrace.pipeline.segments.query_planning import QueryPlan
from tailrace.pipeline.segments.range_groups import grouped
from tailrace.pipeline.segments.segment_options import OptionError, read_options
from tailrace.pipeline.segments.segment_reading import SegmentError
from tailrace.pipeline.segments.walked_segments import WalkedSegments
from tailrace.runtime.chance import RandomChance

from .archive_planning import EARLIEST, LATEST, LogExtent, When, ranges_between
from .chunk_reading import ArchiveTask


class ArchiveSource(Protocol):
    """A place with logs."""

    @property
    def requires(self) -> Sequence[str]:
        """The packages that tasks need beside those of every job."""

    def look(self, topics: Sequence[str] | None, begin: When, until_ms: int | None) -> list[LogExtent]:
        """Returns the extents of these topics, or of all that are not internal.

        Raises JobError, RefusedError and UnreachableError.

        `begin`: where partitions begin that are new in the archive. `until_ms`: the time of the first record that is
        not archived.
        """

    def tasks(
        self, extent: LogExtent, target: ChunkTarget, wave: str, position: int, end: int
    ) -> Iterator[ArchiveTask]:
        """Yields tasks for the offsets of a partition, in order. Raises JobError."""


class BrokerSource:
    """Brokers of Tailrace or Apache Kafka."""

    requires = broker_reading.REQUIRED

    def __init__(self, brokers: Sequence[str]) -> None:
        """`brokers`: addresses such as `127.0.0.1:9092`."""
        self._brokers = tuple(brokers)

    def look(self, topics: Sequence[str] | None, begin: When, until_ms: int | None) -> list[LogExtent]:
        return trio.run(self._look, topics, begin, until_ms)

    async def _look(self, topics: Sequence[str] | None, begin: When, until_ms: int | None) -> list[LogExtent]:
        client = BrokerClient(client_network(waits_awake=True), self._brokers, RandomChance())
        try:
            return await extents_at(client, topics, begin, until_ms)
        finally:
            client.close()

    def tasks(
        self, extent: LogExtent, target: ChunkTarget, wave: str, position: int, end: int
    ) -> Iterator[ArchiveTask]:
        for first, last in ranges_between(position, end, extent.task_offsets(target.chunk_bytes)):
            yield ArchiveTask(target, wave, extent.log_id, first, last, self._brokers)


async def extents_at(
    client: BrokerClient, topics: Sequence[str] | None, begin: When, until_ms: int | None
) -> list[LogExtent]:
    """Asks brokers what they have. Raises RefusedError, UnreachableError and JobError."""
    layouts = await client.topics(topics)
    ids = {each.name: each.id for each in layouts}
    partitions = [Partition(each.name, number) for each in layouts for number in each.partitions]
    starts = await client.offsets_at(partitions, broker_reading.EARLIEST)
    ends = await client.offsets_at(partitions, broker_reading.LATEST)
    sizes = await client.sizes(partitions)
    firsts = ends if begin == LATEST else starts
    if isinstance(begin, int):
        firsts = await _offsets_at_time(client, begin, ends)
    until = ends if until_ms is None else await _offsets_at_time(client, until_ms, ends)
    return [
        LogExtent(
            each.topic,
            ids[each.topic],
            each.number,
            starts[each],
            max(starts[each], min(ends[each], until[each])),
            firsts[each],
            ends[each],
            sizes.get(each),
        )
        for each in partitions
    ]


async def _offsets_at_time(
    client: BrokerClient, timestamp_ms: int, ends: Mapping[Partition, int]
) -> dict[Partition, int]:
    found = await client.offsets_at(list(ends), timestamp_ms)
    return {each: offset if offset >= 0 else ends[each] for each, offset in found.items()}


class SegmentSource:
    """The files of SPUs, without load for a broker."""

    requires: Sequence[str] = ()

    def __init__(self, paths: Sequence[str]) -> None:
        """`paths`: data directories of SPUs, or directories that contain them."""
        self._paths = tuple(os.path.abspath(each) for each in paths)
        self._plan: QueryPlan | None = None
        self._walked = WalkedSegments()

    def look(self, topics: Sequence[str] | None, begin: When, until_ms: int | None) -> list[LogExtent]:
        options = {
            "path": ",".join(self._paths),
            "includeUnsealed": "true",
            "topic": ",".join(topics or ()),
            "maxSplitBytes": str(CHUNK_BYTES),  # a chunk is made of whole ranges
        }
        try:
            plan = self._plan = QueryPlan(read_options(options), walked=self._walked)
            extents = plan.extents
            firsts = {key: extent.end if begin == LATEST else extent.start for key, extent in extents.items()}
            if begin not in (EARLIEST, LATEST):
                assert isinstance(begin, int)
                firsts = plan.offsets_at(begin)
            until = {} if until_ms is None else plan.offsets_at(until_ms)
        except OptionError as error:
            raise WrongUsageError(str(error)) from error
        except SegmentError as error:
            raise JobError(str(error)) from error
        return [
            LogExtent(
                plan.topics[key],
                key[0],
                key[1],
                extent.start,
                max(extent.start, min(extent.end, until.get(key, extent.end))),
                firsts[key],
            )
            for key, extent in extents.items()
            if topics is not None or plan.topics[key] not in INTERNAL_TOPICS
        ]

    def tasks(
        self, extent: LogExtent, target: ChunkTarget, wave: str, position: int, end: int
    ) -> Iterator[ArchiveTask]:
        assert self._plan is not None, "the source has been looked at"
        key = (extent.log_id, extent.partition)
        start = position
        try:
            first = max(position, extent.start)
            tasks = self._plan.tasks_between({key: first}, {key: end}) if first < end else []
        except SegmentError as error:
            raise JobError(str(error)) from error
        for ranges in grouped([each for task in tasks for each in task], target.chunk_bytes):
            stop = ranges[-1].end
            yield ArchiveTask(target, wave, extent.log_id, start, stop, ranges=ranges)
            start = stop
        if start < end:
            yield ArchiveTask(target, wave, extent.log_id, start, end)
