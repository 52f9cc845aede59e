"""DeleteRecords: where the log starts afterwards, for readers and after a restart."""

import pytest
import trio
from msgspec.structs import replace
from simulation.client import WireClient
from spus import RunningSpu, World, batch, running_spu

from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.specs import Shelf
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.report_shelves import ReportShelvesRequest, ReportShelvesResponse
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.storage.log.log import Log


async def delete(
    client: WireClient, *partitions: tuple[int, int], topic: str = "t", version: int = 2
) -> list[tuple[int, int, int]]:
    """Deletes records; returns partition, low watermark and error code of each result."""
    wanted = [DeleteRecordsPartition(number, offset) for number, offset in partitions]
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, wanted)], 1000)
    (answer,) = (await client.request(ApiKey.DELETE_RECORDS, version, request)).topics
    assert answer.name == topic
    return [(each.partition_index, each.low_watermark, each.error_code) for each in answer.partitions]


async def with_records(running: RunningSpu) -> WireClient:
    """Returns a client of an SPU that has a topic with five records."""
    await running.create("t")
    client = await running.client()
    for number in range(5):
        data = PartitionProduceData(0, batch(b"%d" % number))
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData("t", partition_data=[data])])
        await client.request(ApiKey.PRODUCE, 9, request)
    return client


@pytest.mark.parametrize("version", range(3))
async def test_every_version_deletes_the_records_below_the_offset(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await with_records(running)
        assert await delete(client, (0, 3), version=version) == [(0, 3, 0)]
        replica = running.replica("t")
        assert (replica.log.log_start, replica.log.log_end) == (3, 5)


async def test_records_on_shelves_are_deleted_once_the_streaming_controller_says_so(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await with_records(running)
        replica = running.replica("t")
        await replica.delete_records(3)
        replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 4, (SpuId(4),)),)))
        said = []

        async def report(request: ReportShelvesRequest) -> ReportShelvesResponse:
            (reported,) = request.partitions
            said.append(reported.shelved_from)
            await trio.sleep(0.5)
            if len(said) > 1:
                replica.use_spec(replace(replica.spec, shelved_from=reported.shelved_from))
            return ReportShelvesResponse()

        running.spu.offloading._report_shelves = report
        assert await delete(client, (0, 1)) == [(0, 0, ErrorCode.REQUEST_TIMED_OUT)]
        assert await delete(client, (0, 2)) == [(0, 2, 0)]
        assert await delete(client, (0, 1)) == [(0, 2, 0)]
        assert (said, replica.earliest, replica.log.log_start) == ([1, 2], 2, 3)
        assert await delete(client, (0, 4)) == [(0, 4, 0)]
        assert (said, replica.earliest, replica.log.log_start) == ([1, 2, 4], 4, 4)


async def test_minus_one_deletes_everything(autojump_clock: object) -> None:
    async with running_spu() as running:
        assert await delete(await with_records(running), (0, -1)) == [(0, 5, 0)]


async def test_deleting_deleted_records_is_no_error_and_restores_nothing(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await with_records(running)
        await delete(client, (0, 3))
        assert await delete(client, (0, 1)) == [(0, 3, 0)]


async def test_deleted_records_stay_deleted_after_a_restart(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world) as running:
        await delete(await with_records(running), (0, 3))
    async with running_spu(world.crashed("synced")) as running:
        replica = running.replica("t")
        assert replica.log.log_start == 3


@pytest.mark.parametrize("offset", [6, -2, 2**62])
async def test_an_offset_beyond_the_high_watermark_deletes_nothing(autojump_clock: object, offset: int) -> None:
    async with running_spu() as running:
        client = await with_records(running)
        assert await delete(client, (0, offset)) == [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
        assert await delete(client, (0, 0)) == [(0, 0, 0)]


async def test_a_topic_named_twice_appears_once_with_all_its_partitions(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await with_records(running)
        topics = [DeleteRecordsTopic("t", [DeleteRecordsPartition(number, 2)]) for number in (0, 7)]
        (answer,) = (await client.request(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics, 1000))).topics
        assert [(each.partition_index, each.low_watermark) for each in answer.partitions] == [(0, 2), (7, -1)]


async def test_partitions_that_do_not_exist(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await with_records(running)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await delete(client, (9, 0), (-1, 0), (0, 1)) == [(9, -1, missing), (-1, -1, missing), (0, 1, 0)]
        assert await delete(client, (0, 0), topic="nope") == [(0, -1, missing)]


async def test_a_topic_that_only_compacts_keeps_its_records(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", configs={"cleanup.policy": "compact"})
        assert await delete(await running.client(), (0, 0)) == [(0, -1, ErrorCode.POLICY_VIOLATION)]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
async def test_internal_topics_keep_their_records(autojump_clock: object, topic: str) -> None:
    async with running_spu() as running:
        await running.create(topic)
        answers = await delete(await running.client(), (0, 0), topic=topic)
        assert answers == [(0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)]


async def test_a_disk_that_fails_takes_the_replica_offline(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await with_records(running)
        running.world.files.syncs_fail = True
        assert await delete(client, (0, 3)) == [(0, -1, ErrorCode.KAFKA_STORAGE_ERROR)]
        running.world.files.syncs_fail = False
        replica = running.replica("t")
        assert "deleting records failed" in (replica.offline_reason or "")


async def test_the_response_waits_until_the_next_leader_is_sure_to_know(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await with_records(running)
        replica = running.replica("t")
        deleted_end = 1
        replica.deleted_end = lambda: deleted_end
        began = trio.current_time()
        assert await delete(client, (0, 3), (9, 0)) == [
            (0, 1, ErrorCode.REQUEST_TIMED_OUT),
            (9, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert trio.current_time() == began + 1
        assert replica.log.log_start == 3

        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                assert await delete(client, (0, 4)) == [(0, 4, 0)]

            nursery.start_soon(ask)
            await trio.sleep(0.5)
            deleted_end = 4
            replica.wake_leader_waiters()
        assert trio.current_time() == began + 1.5


async def test_a_waiting_deletion_learns_that_another_replica_leads(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await with_records(running)
        replica = running.replica("t")
        replica.deleted_end = lambda: 0

        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                assert await delete(client, (0, 3)) == [(0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]

            nursery.start_soon(ask)
            await trio.sleep(0.5)
            replica.end_leading()


async def test_a_leader_that_is_replaced_during_a_deletion_tells_no_low_watermark(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        client = await with_records(running)
        replica = running.replica("t")
        replica.deleted_end = lambda: 0
        advance = Log.advance_log_start

        async def advance_and_lose(log: Log, offset: int) -> None:
            await advance(log, offset)
            replica.end_leading()

        monkeypatch.setattr(Log, "advance_log_start", advance_and_lose)
        assert await delete(client, (0, 3)) == [(0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


async def test_the_low_watermark_is_told_even_if_a_follower_is_lost_meanwhile(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        client = await with_records(running)

        async def wait_until_deleted(replica: Replica, *_: object) -> None:
            await trio.lowlevel.checkpoint()
            replica.deleted_end = lambda: 0  # a follower that has come back, and has not told yet where its log starts

        monkeypatch.setattr(running.spu.offloading, "wait_until_deleted", wait_until_deleted)
        assert await delete(client, (0, 3)) == [(0, 3, 0)]
