"""Clusters in memory: leaders change, replicas move, and acknowledged records stay."""

import json
import os
import signal
from collections.abc import Callable

import pytest
import trio
from clusters import ClusterOfSpus, cluster_of
from msgspec import Struct
from simulation.client import WireClient
from simulation.files import Node
from spus import newest
from structlog.testing import capture_logs
from trio.testing import MockClock

from tailrace.cli.main import parse
from tailrace.cli.objects.partition_commands import COMMANDS
from tailrace.controller.public_host import KNOWN
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.describe_partitions import DescribePartitionsRequest
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tailrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest

PREFERRED, UNCLEAN = 0, 1
ELECTION_WAIT_SECONDS = 3
"""election.wait.response.ms"""
WATCHER = 9
"""An SPU that holds nothing: it is asked what clients are told."""


class Seen(Struct, frozen=True):
    leader: int
    epoch: int
    replicas: list[int]
    live: list[int]


async def create(cluster: ClusterOfSpus, *replicas: int, **configs: str) -> None:
    """Creates topic `t` with one partition."""
    own = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()]
    topic = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, list(replicas))], own)
    client = await cluster.client_of(WATCHER)
    request = CreateTopicsRequest([topic], timeout_ms=5000)
    response = await client.request(ApiKey.CREATE_TOPICS, newest(ApiKey.CREATE_TOPICS), request)
    assert response.topics[0].error_code == ErrorCode.NONE


async def seen(cluster: ClusterOfSpus) -> Seen:
    (topic,) = (await cluster.metadata(WATCHER, "t")).topics
    (found,) = topic.partitions
    return Seen(found.leader_id, found.leader_epoch, found.replica_nodes, found.isr_nodes)


async def until(cluster: ClusterOfSpus, holds: Callable[[Seen], bool]) -> Seen:
    with trio.fail_after(30):
        while True:
            now = await seen(cluster)
            if holds(now):
                return now
            await trio.sleep(0.05)


async def produce(cluster: ClusterOfSpus, *values: bytes) -> None:
    """Produces records with acks=all."""
    for value in values:
        leader = (await seen(cluster)).leader
        assert await cluster.produce(leader, "t", 0, value) == ErrorCode.NONE


async def committed(cluster: ClusterOfSpus) -> int:
    leader = (await seen(cluster)).leader
    high_watermark: int = (await cluster.fetched(leader, "t", 0)).high_watermark
    return high_watermark


async def elect(cluster: ClusterOfSpus, kind: int) -> int:
    client = await cluster.client_of(WATCHER)
    response = await client.request(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(kind, None, 5000))
    ((result,),) = [each.partition_result for each in response.replica_election_results]
    code: int = result.error_code
    return code


async def statuses(cluster: ClusterOfSpus) -> list[tuple[str, int, int]]:
    """Returns all statuses of the partition, each with its leader and epoch."""
    command = WireClient((await cluster.client_of_sc()).connection, apis=KNOWN)
    request = DescribePartitionsRequest(["t"], changes_after_us=0)
    described = await command.request(InternalApiKey.DESCRIBE_PARTITIONS, 0, request)
    (partition,) = described.partitions
    return [(each.resolution, each.leader, each.epoch) for each in partition.status_changes]


async def test_a_follower_takes_over_and_the_preferred_leader_returns_on_request(
    autojump_clock: MockClock,
) -> None:
    async with cluster_of(1, 2, 3, WATCHER) as cluster:
        await create(cluster, 1, 2, 3)
        assert await seen(cluster) == Seen(1, 0, [1, 2, 3], [1, 2, 3])
        await produce(cluster, b"a", b"b")
        await cluster.kill_spu(1)
        after = await until(cluster, lambda now: now.leader in (2, 3))
        assert after.epoch == 1
        await produce(cluster, b"c")
        await cluster.start_spu(1)
        await until(cluster, lambda now: sorted(now.live) == [1, 2, 3])
        assert await elect(cluster, PREFERRED) == ErrorCode.NONE
        now = await seen(cluster)
        assert (now.leader, now.epoch) == (1, 2)
        await produce(cluster, b"d")
        assert await committed(cluster) >= 4


async def test_a_watcher_sees_each_status_of_an_election(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """The watcher polls once per second, and the election takes a few milliseconds."""
    words = ("partition", "list", "t", "--watch", "--output", "json", "--sc", "sc:9003")
    with capture_logs():
        async with cluster_of(1, 2, 3, WATCHER) as cluster, trio.open_nursery() as nursery:
            await create(cluster, 1, 2, 3)
            nursery.start_soon(COMMANDS["list"].execute, parse(words), cluster.world.network)
            await trio.sleep(1.5)
            assert "statusChanges" not in capsys.readouterr().out
            await cluster.kill_spu(1)
            await trio.sleep(10)
            os.kill(os.getpid(), signal.SIGINT)
    looks = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    passed = [change for (partition,) in looks for change in partition.get("statusChanges", ())]
    assert [(each["resolution"], each["leader"], each["epoch"]) for each in passed] == [
        ("Election", 1, 0),
        ("CandidateFound", 2, 1),
        ("Online", 2, 1),
    ]


async def test_replicas_move_with_their_records(autojump_clock: MockClock) -> None:
    async with cluster_of(1, 2, 3, 4, WATCHER) as cluster:
        await create(cluster, 1, 2)
        await produce(cluster, b"a", b"b", b"c")
        wanted = ReassignableTopic("t", [ReassignablePartition(0, [3, 4])])
        client = await cluster.client_of(2)
        request = AlterPartitionReassignmentsRequest(5000, True, [wanted])
        response = await client.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE
        moved = await until(cluster, lambda now: now.replicas == [3, 4])
        assert (moved.leader, sorted(moved.live)) == (3, [3, 4])
        for spu in (1, 2):
            await cluster.stop_spu(spu)
        await produce(cluster, b"d")
        assert await committed(cluster) == 4


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_an_unclean_election_loses_some_records_and_agrees_on_the_rest(
    autojump_clock: MockClock, is_allowed: bool
) -> None:
    async with cluster_of(1, 2, WATCHER) as cluster:
        await create(cluster, 1, 2, unclean_leader_election_enable=str(is_allowed).lower())
        await produce(cluster, b"both")
        await cluster.kill_spu(2)
        await until(cluster, lambda now: now.live == [1])
        await produce(cluster, b"lost", b"lost, too")
        await cluster.kill_spu(1)
        await cluster.start_spu(2)
        if not is_allowed:
            await until(cluster, lambda now: now.leader == -1)
            assert await elect(cluster, UNCLEAN) == ErrorCode.NONE
        assert (await until(cluster, lambda now: now.leader == 2)).live == [2]
        await produce(cluster, b"another")
        end = await committed(cluster)
        await cluster.start_spu(1)
        await until(cluster, lambda now: sorted(now.live) == [1, 2])
        assert await elect(cluster, PREFERRED) == ErrorCode.NONE
        assert (await seen(cluster)).leader == 1
        await produce(cluster, b"after")
        assert await committed(cluster) >= end + 1


async def test_a_leader_whose_disk_fails_is_replaced(autojump_clock: MockClock) -> None:
    async with cluster_of(1, 2, WATCHER) as cluster:
        await create(cluster, 1, 2)
        await produce(cluster, b"a")
        leader = cluster.spus[1].spu
        (replica,) = leader.replicas
        replica.go_offline("the disk is gone")
        with trio.fail_after(1):
            await until(cluster, lambda now: now.leader == 2)
        await until(cluster, lambda now: now.live == [2])
        await produce(cluster, b"b")
        assert await committed(cluster) >= 2


async def test_a_promotion_that_fails_is_not_announced_and_the_next_candidate_leads_after_a_timeout(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidate's disk neither stores its promise nor fails, and works otherwise."""
    answers_again = trio.Event()
    with capture_logs() as logged:
        async with cluster_of(1, 2, 3, WATCHER) as cluster:
            await create(cluster, 1, 2, 3)
            await produce(cluster, b"a")
            began = await statuses(cluster)
            reach_disk = cluster.files[2].sync

            async def reach_it_late(node: Node) -> None:
                await answers_again.wait()
                await reach_disk(node)

            monkeypatch.setattr(cluster.files[2], "sync", reach_it_late)
            try:
                killed = trio.current_time()
                await cluster.kill_spu(1)
                await until(cluster, lambda now: now.leader == 3)
                assert ELECTION_WAIT_SECONDS <= trio.current_time() - killed < 2 * ELECTION_WAIT_SECONDS
                assert (await statuses(cluster))[len(began) :] == [
                    ("Election", 1, 0),
                    ("CandidateFound", 2, 1),
                    ("CandidateFound", 3, 2),
                    ("Online", 3, 2),
                ]
                await until(cluster, lambda now: now.live == [3])
                await produce(cluster, b"b")
            finally:
                answers_again.set()
            await until(cluster, lambda now: sorted(now.live) == [2, 3])
            await produce(cluster, b"c")
    assert [each["spu"] for each in logged if each["event"] == "leader_silent"] == [2]
    assert not [each for each in logged if each["event"] == "replica_went_offline"]


@pytest.mark.parametrize("failing", [1, 2], ids=["leader", "follower"])
async def test_a_replica_whose_disk_fails_is_moved_after_a_while(autojump_clock: MockClock, failing: int) -> None:
    async with cluster_of(1, 2, 3, WATCHER) as cluster:
        await cluster.kill_sc()
        await cluster.start_sc(replace_after_seconds=60)
        await create(cluster, 1, 2)
        await produce(cluster, b"a")
        holder = cluster.spus[failing].spu
        (replica,) = holder.replicas
        replica.go_offline("the disk is gone")
        other = 3 - failing
        await until(cluster, lambda now: (now.leader, now.live) == (other, [other]))
        await trio.sleep(40)
        assert set((await seen(cluster)).replicas) == {1, 2}
        await trio.sleep(40)
        moved = await until(cluster, lambda now: len(now.live) == 2)
        assert failing not in moved.replicas
        assert set(moved.live) == set(moved.replicas) >= {other}
        await produce(cluster, b"b")
        assert list(holder.replicas) == []
