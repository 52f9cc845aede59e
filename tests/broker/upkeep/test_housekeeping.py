"""Compaction and retention as a client sees them, and what happens to a log that fails."""

import errno
from uuid import UUID

import trio
from msgspec.structs import replace
from simulation.client import WireClient
from spus import RunningSpu, beyond_time, running_spu
from structlog.testing import capture_logs

from tailrace.broker.upkeep.housekeeping import COMPACTION_RETRY_SECONDS
from tailrace.cluster.specs import Shelf
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.storage.directory.checkpoints import load_high_watermarks
from tailrace.storage.directory.layout import high_watermarks_path, parked_path, replica_directory

BACKOFF_SECONDS = 15
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0"}


async def produce(running: RunningSpu, client: WireClient, topic: str, *pairs: tuple[bytes, bytes | None]) -> None:
    now = running.world.clock.time_ms
    await send(client, topic, bytes(build_batch([Record(index, now, *pair) for index, pair in enumerate(pairs)])))


async def send(client: WireClient, topic: str, records: bytes) -> None:
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, records)])]
    response = await client.request(ApiKey.PRODUCE, 12, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data))
    assert response.responses[0].partition_responses[0].error_code == 0


async def consume(client: WireClient, topic: str) -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []
    while True:
        start = found[-1][0] + 1 if found else 0
        wanted = FetchPartition(partition=0, fetch_offset=start, partition_max_bytes=2**20)
        request = FetchRequest(topics=[FetchTopic(topic=topic, partitions=[wanted])])
        (data,) = (await client.request(ApiKey.FETCH, 12, request)).responses[0].partitions
        assert data.error_code == 0
        batches = [data.records[at : at + header.size] for at, header in iterate(data.records)]
        if not batches:
            return found
        found += [(record.offset, record.value) for batch in batches for record in read_records(batch)]


async def later(running: RunningSpu, seconds: float = 2 * BACKOFF_SECONDS) -> None:
    running.world.clock.time_ms += int(seconds * 1000)
    await trio.sleep(seconds)


async def test_a_compacted_topic_keeps_the_last_record_of_each_key(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", configs=COMPACTED)
        await produce(running, client, "t", (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
        assert [offset for offset, _ in await consume(client, "t")] == [0, 1, 2]
        await later(running)
        assert await consume(client, "t") == [(1, b"1"), (2, b"2")]


async def test_an_impossible_timestamp_does_not_stop_compaction(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", configs=COMPACTED)
        now = running.world.clock.time_ms
        times = now, now + 2**63, now
        records = [Record(offset, time, b"ab"[offset % 2 :], b"%d" % offset) for offset, time in enumerate(times)]
        await send(client, "t", beyond_time(now, *records))
        await later(running)
        assert await consume(client, "t") == [(1, b"1"), (2, b"2")]


async def test_a_partition_with_shelves_is_not_compacted(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", configs=COMPACTED)
        replica = running.replica("t")
        replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 1, (SpuId(4),)),)))
        await produce(running, client, "t", (b"a", b"1"), (b"a", b"2"))
        await later(running)
        assert [offset for offset, _ in await consume(client, "t")] == [0, 1]


async def test_the_log_does_not_expire_before_its_shelves(autojump_clock: object) -> None:
    checks = {"log.retention.check.interval.ms": "1000", "connections.max.idle.ms": "-1"}
    async with running_spu(broker=checks) as running:
        client = await running.client()
        for topic, enabled in (("shelved", "true"), ("t", "false")):
            await running.create(topic, configs={"retention.ms": "1000", "remote.storage.enable": enabled})
            await produce(running, client, topic, (b"a", b"1"))
        shelved, other = running.replica("shelved"), running.replica("t")
        shelf = Shelf(0, 1, (SpuId(4),))  # no store can be asked what is on it
        await produce(running, client, "shelved", (b"a", b"2"))
        await shelved.log.advance_log_start(1)
        shelved.use_spec(replace(shelved.spec, shelves=(shelf,)))
        await later(running, 10)
        assert (shelved.log.log_start, other.log.log_start) == (1, 1)
        shelved.use_spec(replace(shelved.spec, shelves=()))
        await later(running, 10)
        assert shelved.log.log_start == 2


async def test_other_topics_are_left_as_they_are(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", configs={"segment.ms": "1000", "min.cleanable.dirty.ratio": "0"})
        await produce(running, client, "t", (b"a", b"1"), (b"a", b"2"))
        await later(running)
        assert [offset for offset, _ in await consume(client, "t")] == [0, 1]


async def test_a_backoff_that_was_far_too_long_can_be_set_back(autojump_clock: object) -> None:
    async with running_spu(broker={"log.cleaner.backoff.ms": str(2**63 - 1)}) as running:
        client = await running.client()
        await running.create("t", configs=COMPACTED)
        await produce(running, client, "t", (b"a", b"1"), (b"a", b"2"))
        await later(running)
        assert [offset for offset, _ in await consume(client, "t")] == [0, 1]
        running.spu.broker_configs.use_dynamic(own={"log.cleaner.backoff.ms": "1000"}, default={})
        await later(running)
        assert await consume(client, "t") == [(1, b"2")]


async def test_compaction_can_be_switched_off(autojump_clock: object) -> None:
    async with running_spu(broker={"log.cleaner.enable": "false"}) as running:
        client = await running.client()
        await running.create("t", configs=COMPACTED)
        await produce(running, client, "t", (b"a", b"1"), (b"a", b"2"))
        await later(running)
        assert [offset for offset, _ in await consume(client, "t")] == [0, 1]


async def test_compaction_stops_at_the_high_watermark_on_the_disk(autojump_clock: object) -> None:
    async with running_spu(broker={"connections.max.idle.ms": "-1"}) as running:
        client = await running.client()
        topic = await running.create("t", configs=COMPACTED)
        files, data = running.world.files, running.spu.data_directory
        await produce(running, client, "t", (b"a", b"0"))
        await later(running)
        assert load_high_watermarks(files, data)[topic.id, 0].value == 1

        async def replace_some(path: str, content: bytes) -> None:
            if path == high_watermarks_path(data):
                raise OSError(errno.ENOSPC, "no room for it")
            await replace_all(path, content)

        replace_all, files.replace = files.replace, replace_some  # type: ignore[method-assign]
        await produce(running, client, "t", (b"a", b"1"), (b"a", b"2"))
        await later(running)
        assert [offset for offset, _ in await consume(client, "t")] == [0, 1, 2]
        files.replace = replace_all  # type: ignore[method-assign]
        await later(running, 1.5 * BACKOFF_SECONDS)
        assert await consume(client, "t") == [(2, b"2")]
        assert load_high_watermarks(files, data)[topic.id, 0].value == 3


async def test_the_high_watermark_of_a_deleted_topic_survives_a_restart(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        topic = await running.create("t")
        await produce(running, client, "t", (b"a", b"1"), (b"a", b"2"))
        await running.delete(topic)
        world, data = running.world, running.spu.data_directory
    for _ in range(2):
        assert load_high_watermarks(world.files, data)[topic.id, 0].value == 2
        async with running_spu(world):
            await later(running)


async def test_a_log_that_cannot_be_compacted_is_served_and_retried_later(autojump_clock: object) -> None:
    async with running_spu(broker={"connections.max.idle.ms": "-1"}) as running:
        client = await running.client()
        damaged = await running.create("damaged", configs=COMPACTED)
        await running.create("t", configs=COMPACTED)
        for topic in ("damaged", "t"):
            await produce(running, client, topic, (b"a", b"1"), (b"a", b"2"))
        directory = replica_directory(running.spu.data_directory, "damaged", damaged.id, 0)
        log = running.world.files.open(f"{directory}/{0:020}.log")
        sound = log.read_at(0, log.size())
        log.write_at(70, b"\xff")
        await later(running)
        assert await consume(client, "t") == [(1, b"2")]
        log.write_at(0, sound)
        await later(running)
        assert [offset for offset, _ in await consume(client, "damaged")] == [0, 1]
        await later(running, COMPACTION_RETRY_SECONDS)
        assert await consume(client, "damaged") == [(1, b"2")]


async def test_parked_storage_that_cannot_be_listed_is_removed_later(autojump_clock: object) -> None:
    checks = {"log.retention.check.interval.ms": "1000"}
    async with running_spu(broker={"connections.max.idle.ms": "-1", **checks}) as running:
        files, data = running.world.files, running.spu.data_directory
        topic_id = UUID(int=7)
        files.make_directories(replica_directory(data, "t", topic_id, 0))
        files.open(parked_path(data, "t", topic_id), create=True).append(b"0")
        files.reads_fail = True
        with capture_logs() as logged:
            await trio.sleep(1.5)
        assert "parked_storage_not_removed" in [event["event"] for event in logged]
        assert files.exists(replica_directory(data, "t", topic_id, 0))
        files.reads_fail = False
        await trio.sleep(1)
        assert not files.exists(replica_directory(data, "t", topic_id, 0))


async def test_work_without_a_free_descriptor_is_retried(autojump_clock: object) -> None:
    checks = {"log.retention.check.interval.ms": "1000", "connections.max.idle.ms": "-1"}
    async with running_spu(broker=checks) as running:
        client, files = await running.client(), running.world.files
        await running.create("old", configs={"segment.ms": "1000", "retention.ms": "1000"})
        await running.create("t", configs=COMPACTED)
        for value in (b"1", b"2"):
            for topic in ("old", "t"):
                await produce(running, client, topic, (b"a", value))
            running.world.clock.time_ms += 2000
        replicas = [running.replica(topic) for topic in ("old", "t")]
        for replica in replicas:
            await replica.log.sync()
        starts = [replica.log.log_start for replica in replicas]
        files.opens_left = 0
        with capture_logs() as logged:
            await later(running)
        events = {event["event"] for event in logged}
        assert {"housekeeping_postponed", "high_watermarks_not_saved"} <= events, events
        assert [replica.log.log_start for replica in replicas] == starts
        files.opens_left = None
        await later(running, COMPACTION_RETRY_SECONDS + BACKOFF_SECONDS)
        assert [replica.offline_reason for replica in replicas] == [None, None]
        assert await consume(client, "t") == [(1, b"2")]
        assert replicas[0].log.log_start == 2
