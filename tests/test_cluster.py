"""Statements about the whole: a Streaming Controller with real SPUs, in one simulation."""

import pytest
import trio
from clusters import ClusterOfSpus, cluster_of
from simulation.client import WireClient
from simulation.files import SimulatedFile
from spus import SteadyClock, newest
from trio.testing import MockClock

from tailrace.controller.public_host import KNOWN
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.describe_partitions import DescribePartitionsRequest
from tailrace.protocol.internal.undelete_topic import UndeleteTopicRequest
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest


async def test_a_topic_created_through_any_spu_is_served_by_all(autojump_clock: MockClock) -> None:
    async with cluster_of(0, 1, 2) as cluster:
        assert await cluster.create(1, "orders", 6, 3) == ErrorCode.NONE
        known = [await cluster.leaders(spu, "orders") for spu in (1, 0, 2)]
        await trio.sleep(1)
        assert known[0] == await cluster.leaders(0, "orders") == await cluster.leaders(2, "orders")
        leaders = [leader for leader, _ in known[0].values()]
        assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
        for partition, (leader, _) in known[0].items():
            assert await cluster.produce(leader, "orders", partition, b"%d" % partition) == ErrorCode.NONE
            other = (leader + 1) % 3
            assert await cluster.produce(other, "orders", partition, b"x") == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_spus_serve_while_the_sc_is_offline_and_nothing_changes_when_it_returns(
    autojump_clock: MockClock,
) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        await cluster.create(1, "orders", 6, 3)
        before = await cluster.leaders(1, "orders")
        await cluster.kill_sc()
        await trio.sleep(10)
        for partition, (leader, _) in before.items():
            assert await cluster.produce(leader, "orders", partition, b"while it is away") == ErrorCode.NONE
        await cluster.start_sc()
        await trio.sleep(10)
        for spu in (1, 2, 3):
            assert await cluster.leaders(spu, "orders") == before
        assert await cluster.create(2, "more", 1, 3) == ErrorCode.NONE


async def test_requests_wait_for_an_sc_that_returns_in_time(autojump_clock: MockClock) -> None:
    async with cluster_of(1, 2) as cluster, trio.open_nursery() as nursery:
        await cluster.kill_sc()
        codes: list[int] = []

        async def create() -> None:
            codes.append(await cluster.create(1, "orders", 2, 2))

        nursery.start_soon(create)
        await trio.sleep(3)
        assert not codes
        await cluster.start_sc()
        await trio.sleep(10)
        assert codes == [ErrorCode.NONE]


async def test_another_spu_leads_after_a_kill_with_a_later_epoch_and_all_records(
    autojump_clock: MockClock,
) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        await cluster.create(1, "orders", 3, 3)
        before = await cluster.leaders(1, "orders")
        partition = next(number for number, (leader, _) in before.items() if leader == 3)
        assert await cluster.produce(3, "orders", partition, b"kept") == ErrorCode.NONE
        await cluster.kill_spu(3)
        await trio.sleep(3)
        leader, epoch = (await cluster.leaders(1, "orders"))[partition]
        assert leader in (1, 2)
        assert epoch > before[partition][1]
        assert b"kept" in bytes((await cluster.fetched(leader, "orders", partition)).records)
        await cluster.start_spu(3)
        await trio.sleep(3)
        after = await cluster.leaders(1, "orders")
        assert after[partition] == (leader, epoch), "who comes back follows"
        untouched = {number: row for number, row in before.items() if number != partition}
        assert {number: row for number, row in after.items() if number != partition} == untouched


@pytest.mark.parametrize("has_slow_disk", [1, 2], ids=["leader", "follower"])
async def test_a_partition_that_waits_for_its_disk_does_not_delay_others_of_the_same_spus(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, has_slow_disk: int
) -> None:
    """Both partitions are followed on one connection, and acknowledge what both replicas have synced."""
    is_fast_again = trio.Event()
    syncing: list[str] = []
    sync = SimulatedFile.sync

    async def sync_slowly(file: SimulatedFile) -> None:
        if file.path.startswith(f"/data/spu-{has_slow_disk}/topics/slow/"):
            syncing.append(file.path)
            await is_fast_again.wait()
        await sync(file)

    async def seconds_to_produce(cluster: ClusterOfSpus, count: int) -> list[float]:
        """Returns the simulated seconds for each record."""
        taken = []
        for number in range(count):
            began = trio.current_time()
            assert await cluster.produce(1, "fast", 0, b"%d" % number) == ErrorCode.NONE
            taken.append(trio.current_time() - began)
        return taken

    async with cluster_of(1, 2) as cluster:
        configs = [CreatableTopicConfig("flush.messages", "1"), CreatableTopicConfig("min.insync.replicas", "2")]
        topics = [
            CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(0, [1, 2])], configs) for name in ("slow", "fast")
        ]
        request = CreateTopicsRequest(topics, timeout_ms=5000)
        await (await cluster.client_of(1)).request(ApiKey.CREATE_TOPICS, newest(ApiKey.CREATE_TOPICS), request)
        assert await cluster.produce(1, "slow", 0, b"before") == ErrorCode.NONE
        usual = await seconds_to_produce(cluster, 20)
        monkeypatch.setattr(SimulatedFile, "sync", sync_slowly)
        try:
            assert await cluster.produce(1, "slow", 0, b"late") == ErrorCode.REQUEST_TIMED_OUT
            assert syncing
            assert max(await seconds_to_produce(cluster, 20)) <= max(usual)
        finally:
            is_fast_again.set()
        assert await cluster.produce(1, "slow", 0, b"after") == ErrorCode.NONE


async def test_an_spu_that_is_stopped_is_offline_at_once(autojump_clock: MockClock) -> None:
    async with cluster_of(1, 2) as cluster:
        await cluster.stop_spu(2)
        await trio.sleep(0.1)
        client = await cluster.client_of(1)
        brokers = (await client.request(ApiKey.DESCRIBE_CLUSTER, 0, DescribeClusterRequest())).brokers
        assert [broker.broker_id for broker in brokers] == [1]


@pytest.mark.parametrize("replicas", [1, 2])
async def test_an_undeleted_topic_has_its_records(autojump_clock: MockClock, replicas: int) -> None:
    async with cluster_of(1, 2) as cluster:
        await cluster.create(1, "orders", 1, replicas)
        ((leader, epoch),) = (await cluster.leaders(1, "orders")).values()
        await cluster.produce(leader, "orders", 0, b"kept")
        client = await cluster.client_of(2)
        request = DeleteTopicsRequest([DeleteTopicState(name="orders")], timeout_ms=5000)
        deleted = await client.request(ApiKey.DELETE_TOPICS, 6, request)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        (gone,) = (await cluster.metadata(2, "orders")).topics
        assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        command = WireClient((await cluster.client_of_sc()).connection, apis=KNOWN)
        undeleted = await command.request(InternalApiKey.UNDELETE_TOPIC, 0, UndeleteTopicRequest("orders"))
        assert undeleted.error_code == ErrorCode.NONE
        await trio.sleep(1)
        ((leader, epoch_now),) = (await cluster.leaders(1, "orders")).values()
        assert epoch_now > epoch
        assert b"kept" in bytes((await cluster.fetched(leader, "orders", 0)).records)
        assert await cluster.produce(leader, "orders", 0, b"and more") == ErrorCode.NONE
        described = await command.request(InternalApiKey.DESCRIBE_PARTITIONS, 0, DescribePartitionsRequest(None))
        (partition,) = described.partitions
        ends = [each.log_end for each in partition.details]
        assert ends in ([2] * replicas, [3] * replicas), "with a bridge, if the end was fast"


@pytest.mark.parametrize("replicas", [1, 2])
async def test_an_early_removal_does_not_make_an_empty_log_count(autojump_clock: MockClock, replicas: int) -> None:
    """The clock of the SPU has jumped by days, and the topic is undeleted."""
    async with cluster_of(1, 2) as cluster:
        await cluster.stop_spu(1)
        cluster.clocks[1] = SteadyClock()
        await cluster.start_spu(1)
        topic = CreatableTopic("orders", -1, -1, [CreatableReplicaAssignment(0, [1, 2][:replicas])])
        request = CreateTopicsRequest([topic], timeout_ms=5000)
        created = await (await cluster.client_of(1)).request(
            ApiKey.CREATE_TOPICS, newest(ApiKey.CREATE_TOPICS), request
        )
        assert created.topics[0].error_code == ErrorCode.NONE
        assert await cluster.produce(1, "orders", 0, b"kept") == ErrorCode.NONE
        client = await cluster.client_of(2)
        deleting = DeleteTopicsRequest([DeleteTopicState(name="orders")], timeout_ms=5000)
        await client.request(ApiKey.DELETE_TOPICS, 6, deleting)
        await trio.sleep(1)
        cluster.clocks[1].time_ms += 3 * 24 * 3600 * 1000
        await trio.sleep(400)
        assert cluster.files[1].list("/data/spu-1/topics/orders") == []
        for spu in (1, 2):
            await cluster.stop_spu(spu)  # it is not to forget that
        await cluster.start_spu(1)
        command = WireClient((await cluster.client_of_sc()).connection, apis=KNOWN)
        undeleted = await command.request(InternalApiKey.UNDELETE_TOPIC, 0, UndeleteTopicRequest("orders"))
        assert undeleted.error_code == ErrorCode.NONE
        await trio.sleep(5)
        assert await cluster.produce(1, "orders", 0, b"new") in (
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )
        await cluster.start_spu(2)
        if replicas == 1:
            assert (await cluster.fetched(1, "orders", 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            return
        await trio.sleep(30)
        assert await cluster.produce(2, "orders", 0, b"new") == ErrorCode.NONE
        await trio.sleep(30)
        await cluster.stop_spu(2)
        await trio.sleep(5)
        data = [bytes((await cluster.fetched(1, "orders", 0, offset)).records) for offset in (0, 2)]
        assert b"kept" in data[0]
        assert b"new" in data[1]
