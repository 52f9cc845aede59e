"""An SPU's life: what a clean stop, a kill, a broken disk and a deleted topic leave behind."""

import math

import pytest
import structlog
import trio
from simulation.client import WireClient
from simulation.files import SimulatedFile
from spus import RunningSpu, World, batch, running_spu, spu_settings
from structlog.testing import capture_logs

from tailrace.broker.spu_server import SpuServer
from tailrace.broker.upkeep.high_watermark_checkpoint import CHECKPOINT_SECONDS
from tailrace.broker.upkeep.parking import EXTRA_RETENTION_MS_MAX
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_EPOCH, Epoch
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.storage.directory.promises import Promises
from tailrace.storage.directory.store_incarnation import read_store

DATA = "/data/spu-1"


def produce_request(records: bytes, *, acks: int = -1, topic: str = "t", timeout_ms: int = 1000) -> ProduceRequest:
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, records)])]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data)


async def produce(client: WireClient, records: bytes, *, acks: int = -1) -> PartitionProduceResponse:
    response = await client.request(ApiKey.PRODUCE, 9, produce_request(records, acks=acks))
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


async def latest(running: RunningSpu) -> tuple[int, int]:
    """Error and offset of ListOffsets(latest)."""
    client = await running.client()
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    response = await client.request(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, topics=[topic]))
    partition = response.topics[0].partitions[0]
    return partition.error_code, partition.offset


async def test_a_clean_stop_keeps_everything_and_leaves_no_gap(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world) as running:
        topic = await running.create("t")
        assert (await produce(await running.client(), batch(b"a", b"b"))).base_offset == 0
        epoch = running.spu.cluster.topics["t"].partitions[0].epoch
    after = world.crashed("synced")  # what was not on the disk is gone
    async with running_spu(after) as running:
        assert await latest(running) == (0, 2)
        assert running.spu.cluster.topics["t"].id == topic.id
        assert running.spu.cluster.topics["t"].partitions[0].epoch == epoch + 1, "each process is elected by itself"
        assert running.spu.metrics.recovered_replicas == 0
        assert (await produce(await running.client(), batch(b"c"))).base_offset == 2


async def test_a_kill_keeps_what_the_page_cache_holds_and_begins_a_new_epoch(autojump_clock: object) -> None:
    world = World()
    with trio.CancelScope() as killed:
        async with running_spu(world) as running:
            await running.create("t")
            assert (await produce(await running.client(), batch(b"a", b"b"))).base_offset == 0
            killed.cancel()
            await trio.lowlevel.checkpoint()
    after = world.crashed("all")
    async with running_spu(after) as running:
        assert await latest(running) == (0, 2)
        assert running.spu.cluster.topics["t"].partitions[0].epoch == 1
        assert running.spu.metrics.recovered_replicas == 1
        await trio.testing.wait_all_tasks_blocked()
        (replica,) = running.spu.replicas
        assert replica.log.synced_end == 2, "what was recovered does not wait for the next append to reach the disk"


async def test_a_replica_that_cannot_be_read_for_other_spus_goes_offline(autojump_clock: object) -> None:
    async with running_spu() as running:
        topic = await running.create("t", partitions=2)
        links_tell = running.spu.peers._sink
        assert links_tell is not None
        links_tell.on_unreadable((topic.id, 1), "it cannot be read")
        links_tell.on_unreadable((topic.id, 2), "it has gone meanwhile")
        await trio.testing.wait_all_tasks_blocked()
        assert [replica.offline_reason for replica in running.spu.replicas] == [None, "it cannot be read"]


async def test_what_was_acknowledged_after_a_flush_survives_a_power_failure(autojump_clock: object) -> None:
    world = World()
    with trio.CancelScope() as killed:
        async with running_spu(world) as running:
            await running.create("t", configs={"flush.messages": "1"})
            assert (await produce(await running.client(), batch(b"a"), acks=1)).base_offset == 0
            killed.cancel()
            await trio.lowlevel.checkpoint()
    async with running_spu(world.crashed("synced")) as running:
        assert await latest(running) == (0, 1)


async def test_records_reach_the_disk_by_themselves_after_flush_ms(autojump_clock: object) -> None:
    async with running_spu() as running:
        topic = await running.create("t", configs={"flush.ms": "5000"})
        await produce(await running.client(), batch(b"a"))
        replica = running.replica(topic.id)
        await trio.sleep(4.9)
        assert replica.log.synced_end == 0
        await trio.sleep(0.2)
        assert replica.log.synced_end == 1


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_failed_sync_acknowledges_nothing_and_takes_the_replica_offline(
    autojump_clock: object, acks: int
) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", configs={"flush.messages": "1"})
        await produce(client, batch(b"a"))
        running.world.files.syncs_fail = True
        assert (await produce(client, batch(b"b"), acks=acks)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        running.world.files.syncs_fail = False
        assert (await produce(client, batch(b"c"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_log_that_could_not_be_closed_makes_the_next_start_one_of_another_store(
    autojump_clock: object,
) -> None:
    world = World()
    async with running_spu(world) as running:
        await running.create("t")
        await produce(await running.client(), batch(b"a"))
        await trio.sleep(2)  # flushed, so that nothing but closing it is left to do
        before = read_store(world.files, DATA)
        left = 2  # the high watermarks, and the log

        def fail_twice() -> float:
            nonlocal left
            world.files.syncs_fail = left > 0
            left -= 1
            return 0.0

        world.files.sync_seconds = fail_twice
    assert Promises(world.files.after_kill(), DATA).has_disk_failed
    async with running_spu(world):
        assert read_store(world.files, DATA) != before


async def test_what_a_failed_sync_did_not_write_reaches_the_disk_with_the_next_start(autojump_clock: object) -> None:
    world = World()
    with trio.CancelScope() as killed:
        async with running_spu(world) as running:
            await running.create("t")
            client = await running.client()
            await produce(client, batch(b"a"))
            await trio.sleep(2)
            await produce(client, batch(b"b"))
            world.files.syncs_fail = True
            await trio.sleep(2)
            assert running.replica("t").log.has_failed
            world.files.syncs_fail = False
            await running.spu.storage.promises.note_failed_disk()
            killed.cancel()
            await trio.lowlevel.checkpoint()
    world.files = world.files.after_kill()
    with trio.CancelScope() as killed:
        async with running_spu(world) as running:
            await produce(await running.client(), batch(b"c"))
            await trio.sleep(2)
            assert running.replica("t").log.synced_end == 3
            killed.cancel()
            await trio.lowlevel.checkpoint()
    async with running_spu(world.crashed("synced")) as running:
        assert await latest(running) == (0, 3)


async def test_a_disk_that_failed_under_promises_first_is_noted_at_the_stop(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world) as running:
        topic = await running.create("t", configs={"flush.messages": "1"})
        world.files.syncs_fail = True
        with pytest.raises(OSError, match="broken"):
            await running.spu.storage.promises.promise((topic.id, 0), Epoch(1))
        await produce(await running.client(), batch(b"a"))
        assert running.replica("t").log.has_failed
        world.files.syncs_fail = False
    assert Promises(world.files.after_kill(), DATA).has_disk_failed


async def test_a_log_for_which_no_file_could_be_opened_at_the_stop_is_the_same_store(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world) as running:
        await running.create("t")
        await produce(await running.client(), batch(b"a"))
        before = read_store(world.files, DATA)
        world.files.opens_left = 0
    assert not Promises(world.files.after_kill(), DATA).has_disk_failed
    world.files.opens_left = None
    async with running_spu(world) as running:
        assert read_store(world.files, DATA) == before
        assert running.replica("t").log.recovery.was_clean is False
        assert running.replica("t").log.log_end >= 1
    async with running_spu(world.crashed("synced")):
        pass


@pytest.mark.parametrize("room_bytes", [0, 150, 450])
async def test_a_disk_that_is_full_at_the_stop_has_lost_nothing(autojump_clock: object, room_bytes: int) -> None:
    world = World()
    async with running_spu(world) as running:
        await running.create("t")
        await running.create("other")
        await produce(await running.client(), batch(b"a"))
        before = read_store(world.files, DATA)
        world.files.room_bytes = room_bytes
    assert not Promises(world.files.after_kill(), DATA).has_disk_failed
    world.files.room_bytes = None
    async with running_spu(world) as running:
        assert read_store(world.files, DATA) == before
        assert await latest(running) == (0, 1)


async def test_a_replica_that_is_offline_for_want_of_room_has_lost_nothing(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world) as running:
        await running.create("t")
        await produce(await running.client(), batch(b"a"))
        replica = running.replica("t")
        world.files.room_bytes = 0
        with pytest.raises(OSError, match="no space"):
            await replica.log.truncate(0)
        replica.go_offline("it could not be cut")
        world.files.room_bytes = None
        await trio.sleep(1)
        assert replica.log.has_failed
    assert not Promises(world.files.after_kill(), DATA).has_disk_failed
    async with running_spu(world) as running:
        assert await latest(running) == (0, 1)


async def test_that_a_sync_failed_is_remembered_though_no_other_has_the_replica(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world) as running:
        await running.create("t", configs={"flush.messages": "1"})
        world.files.syncs_fail = True
        answer = await produce(await running.client(), batch(b"a"))
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        world.files.syncs_fail = False
        await trio.sleep(1)
        assert Promises(world.files.after_kill(), DATA).has_disk_failed


async def test_a_sync_that_fails_while_the_spu_stops_is_remembered_too(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()

    async def fail_late(file: SimulatedFile) -> None:
        with trio.CancelScope(shield=True):  # as the thread that waits for a real disk
            await trio.sleep(10)
        raise OSError("the disk is broken")

    async with running_spu(world) as running:
        await running.create("t", configs={"flush.messages": "1"})
        client = await running.client()
        with monkeypatch.context() as patch:
            patch.setattr(SimulatedFile, "sync", fail_late)
            await produce(client, batch(b"a"))  # nobody answers in time
    assert Promises(world.files.after_kill(), DATA).has_disk_failed


async def test_a_full_disk_is_an_error_and_nothing_is_half_there(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world) as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a"))
        world.files.room_bytes = 10
        assert (await produce(client, batch(b"b"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        world.files.room_bytes = None
    async with running_spu(world.crashed("all")) as running:
        assert await latest(running) == (0, 1)


async def test_a_deleted_topic_is_parked_and_comes_back_with_its_records(autojump_clock: object) -> None:
    async with running_spu(broker={"deleted.topic.retention.ms": "3600000"}) as running:
        client = await running.client()
        topic = await running.create("t")
        await produce(client, batch(b"a", b"b", b"c"))
        await running.delete(topic)
        assert (await latest(running))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        again = await running.create("t")
        assert await latest(running) == (0, 0), "a new topic of the name starts empty"
        await running.delete(again)
        await running.undelete(topic)
        assert await latest(running) == (0, 3)


async def test_parked_storage_goes_after_its_retention(autojump_clock: object) -> None:
    async with running_spu(broker={"deleted.topic.retention.ms": "3600000"}) as running:
        files, clock = running.world.files, running.world.clock
        topic = await running.create("t")
        await produce(await running.client(), batch(b"a"))
        await running.delete(topic)
        directory = f"{DATA}/topics/t/{topic.id}"
        await trio.sleep(400)
        assert files.list(directory)
        clock.time_ms += 3_600_001  # it cannot be brought back any more
        await trio.sleep(400)
        assert files.list(directory)
        promised = topic.id, 0
        await running.spu.storage.promises.promise(promised, Epoch(3))
        clock.time_ms += EXTRA_RETENTION_MS_MAX
        await trio.sleep(400)
        assert not files.list(directory)
        assert Promises(files.after_kill(), DATA).epoch(promised) == NO_EPOCH


async def test_a_silent_producer_is_forgotten(autojump_clock: object) -> None:
    async with running_spu(broker={"producer.id.expiration.ms": "3600000"}) as running:
        topic = await running.create("t")
        records = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        await produce(await running.client(), records)
        replica = running.replica(topic.id)
        await trio.sleep(400)
        assert len(replica.log.producers) == 1
        running.world.clock.time_ms += 3_600_001
        await trio.sleep(400)
        assert len(replica.log.producers) == 0


async def test_a_damaged_log_is_offline_and_leaves_the_others_alone(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world) as running:
        client = await running.client()
        topic = await running.create("t", configs={"segment.bytes": str(1024 * 1024)})
        await running.create("other")
        for _ in range(3):
            await produce(client, batch(b"x" * 900_000))
    directory = f"{DATA}/topics/t/{topic.id}/0"
    first = next(name for name in world.files.list(directory) if name.endswith(".log"))
    world.files.remove(f"{directory}/{first}")
    async with running_spu(world) as running:
        assert (await latest(running))[0] == ErrorCode.KAFKA_STORAGE_ERROR
        client = await running.client()
        answer = await client.request(ApiKey.PRODUCE, 9, produce_request(batch(b"a"), topic="other"))
        assert answer.responses[0].partition_responses[0].error_code == 0


async def test_metrics_are_served_on_a_port_of_their_own(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        await produce(await running.client(), batch(b"a", b"b"))
        text = await running.scraped()
        assert text.startswith("HTTP/1.1 200 OK\r\n")
        assert 'tailrace_log_end_offset{partition="0",topic="t"} 2\n' in text
        assert 'tailrace_request_seconds_count{api="produce",client="unknown",version="9"} 1.0\n' in text


async def test_an_spu_is_ready_while_it_serves_clients(autojump_clock: trio.testing.MockClock) -> None:
    async with running_spu() as running:
        text = await running.scraped("/readyz")
        assert text.startswith("HTTP/1.1 200 OK\r\n")
        assert text.endswith("\r\n\r\nready: SPU 1 serves clients and holds its lease\n")
        autojump_clock.autojump_threshold = math.inf  # the time for which it waits for the client must not pass yet
        await running.client()
        await trio.testing.wait_all_tasks_blocked()
        running.server.stop()
        await trio.testing.wait_all_tasks_blocked()
        text = await running.scraped("/readyz")
        assert text.startswith("HTTP/1.1 503 Service Unavailable\r\n")
        assert text.endswith("\r\n\r\nnot ready: SPU 1 is stopping\n")
        assert (await running.scraped("/healthz")).startswith("HTTP/1.1 200 OK\r\n")
        autojump_clock.autojump_threshold = 0


async def test_an_spu_without_a_streaming_controller_is_ready_once_it_serves(autojump_clock: object) -> None:
    world = World()
    settings = spu_settings({})
    server = SpuServer(settings, world.seams(), structlog.get_logger())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        await trio.sleep(10)
        assert server.spu is not None
        text = await RunningSpu(server, server.spu, world).scraped("/readyz")
        assert text.startswith("HTTP/1.1 503 ")
        assert "not ready: SPU 1 waits for the Streaming Controller" in text
        server.stop()


@pytest.mark.parametrize("ends_cleanly", [True, False])
async def test_who_finds_a_log_gone_is_another_store(autojump_clock: object, ends_cleanly: bool) -> None:
    """Nobody else is to count on what it had there, and it is said once."""
    world = World()
    with trio.CancelScope() as killed:
        async with running_spu(world) as running:
            topic = await running.create("t")
            await produce(await running.client(), batch(b"a"))
            await trio.sleep(CHECKPOINT_SECONDS + 1)
            if not ends_cleanly:
                killed.cancel()
                await trio.lowlevel.checkpoint()
    world = world.crashed("all")
    before = read_store(world.files, DATA)
    directory = f"{DATA}/topics/t/{topic.id}/0"
    for name in world.files.list(directory):
        world.files.remove(f"{directory}/{name}")
    with capture_logs() as logs:
        async with running_spu(world):
            pass
    (said,) = [each for each in logs if each["event"] == "replica_missing"]
    assert (said["topic_id"], said["partition"], said["committed"]) == (str(topic.id), 0, 1)
    after = read_store(world.files, DATA)
    assert after != before
    async with running_spu(world):
        assert read_store(world.files, DATA) == after
