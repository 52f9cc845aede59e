from pathlib import Path
from uuid import UUID

import pytest
from grouped_spu import grouped_spu
from segment_logs import TOPIC_ID, Spu, append, fill
from spus import ADDRESS

from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget
from tailrace.pipeline.archive.rounds.archive_planning import LATEST, LogExtent
from tailrace.pipeline.archive.rounds.archive_sources import BrokerSource, SegmentSource, extents_at
from tailrace.pipeline.archive.rounds.chunk_reading import ArchiveTask
from tailrace.pipeline.brokers.broker_reading import BrokerClient
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.chance import RandomChance

TARGET = ChunkTarget("/archive", "events", str(TOPIC_ID), 0, chunk_bytes=4000)
START_MS = 1_700_000_000_000


async def test_the_extent_of_a_partition_at_a_broker(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.produce("orders", 0, 10, timestamp=1_000)
        await spu.delete_records("orders", 0, 3)
        client = BrokerClient(spu.network, [str(ADDRESS)], RandomChance(1))
        one, two = await extents_at(client, ["orders"], "earliest", None)
        assert (one.partition, one.start, one.end, one.first, one.log_end) == (0, 3, 10, 3, 10)
        assert (two.partition, two.start, two.end, two.first) == (1, 0, 0, 0)
        assert one.size is not None and one.size > 100
        (latest, _) = await extents_at(client, None, LATEST, 1_006)
        assert (latest.start, latest.end, latest.first, latest.log_end) == (3, 6, 10, 10)
        (timed, other) = await extents_at(client, None, 1_005, 9_000)
        assert (timed.end, timed.first, other.first) == (10, 5, 0)
        client.close()


def test_ranges_at_brokers_follow_one_another() -> None:
    source = BrokerSource(["127.0.0.1:9092"])
    extent = LogExtent("events", TOPIC_ID, 0, 0, 100, 0, 100, size=10_000)
    tasks = list(source.tasks(extent, TARGET, "0a1b", 20, 100))
    assert [(each.start, each.end) for each in tasks] == [(20, 60), (60, 100)]
    assert (tasks[0].log_id, tasks[0].brokers, tasks[0].wave) == (TOPIC_ID, ("127.0.0.1:9092",), "0a1b")


@pytest.fixture
async def directory(tmp_path: Path) -> str:
    spu = Spu(tmp_path)
    log = spu.log()
    fill(log, 200)
    append(log, [(b"last", b"v")])
    await log.sync()
    await spu.commit(180)
    return str(tmp_path)


def _tasks(source: SegmentSource, extent: LogExtent, position: int, end: int) -> list[ArchiveTask]:
    tasks = list(source.tasks(extent, TARGET, "0a1b", position, end))
    at = position
    for task in tasks:
        assert task.start == at
        at = task.end
    assert at == end
    return tasks


async def test_segments_say_what_they_have(directory: str) -> None:
    source = SegmentSource([directory])
    (extent,) = source.look(["events"], "earliest", None)
    assert (extent.topic, extent.log_id, extent.start, extent.end, extent.first) == ("events", TOPIC_ID, 0, 180, 0)
    tasks = _tasks(source, extent, 10, 180)
    assert len(tasks) > 2
    assert tasks[0].ranges[0].start == 10
    assert all(each.brokers == () for each in tasks)
    (latest,) = source.look(None, LATEST, START_MS + 50_000)
    assert (latest.end, latest.first) == (50, 180)
    (timed,) = source.look(None, START_MS + 30_000, None)
    assert timed.first == 30


async def test_all_topics_are_those_that_are_not_internal(directory: str) -> None:
    spu = Spu(Path(directory))
    log = spu.log(topic="__consumer_offsets", topic_id=UUID(int=9))
    fill(log, 10)
    await log.sync()
    await spu.commit(180)
    await spu.commit(10, topic_id=UUID(int=9))
    source = SegmentSource([directory])
    assert {each.topic for each in source.look(None, "earliest", None)} == {"events"}
    (named,) = source.look(["__consumer_offsets"], "earliest", None)
    assert named.end == 10


async def test_what_segments_had_is_a_task_without_ranges(directory: str) -> None:
    source = SegmentSource([directory])
    (extent,) = source.look(None, "earliest", None)
    later = LogExtent("events", TOPIC_ID, 0, 100, 180, 100)
    tasks = _tasks(source, later, 20, 180)
    assert (tasks[0].start, tasks[0].ranges[0].start) == (20, 100)
    (gone,) = _tasks(source, later, 20, 50)
    assert gone.ranges == ()
    assert extent.start == 0


def test_a_missing_directory_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="does not exist on the driver"):
        SegmentSource([str(tmp_path / "nothing")]).look(None, "earliest", None)
