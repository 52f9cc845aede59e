"""Clusters as the command line shows them: the segments of their partitions."""

import json
from types import ModuleType
from typing import Any

import pytest
import trio
from clusters import ClusterOfSpus, cluster_of
from running_sc import PUBLIC
from structlog.testing import capture_logs

from tailrace.cli.main import parse
from tailrace.cli.objects import segment_commands as segment
from tailrace.cli.objects import topic_commands as topic
from tailrace.protocol.error_codes import ErrorCode


async def asked(cluster: ClusterOfSpus, module: ModuleType, *words: str) -> None:
    arguments = parse([*words, "--sc", str(PUBLIC)])
    with capture_logs():
        assert await module.COMMANDS[words[1]].execute(arguments, cluster.world.network) == 0


async def listed(cluster: ClusterOfSpus, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()  # what the servers have logged
    await asked(cluster, segment, "segment", "list", "t/0", "--output", "json")
    (partition,) = json.loads(capsys.readouterr().out)
    return partition


def copies(described: Any) -> dict[int, str]:
    return {each["spuId"]: each["comparison"] for each in described["copies"]}


async def produced(cluster: ClusterOfSpus, by: int, value: bytes) -> int:
    """Produces with retries until the leader accepts it; returns the leader."""
    while True:
        leader, _ = (await cluster.leaders(by, "t"))[0]
        if leader in cluster.spus and await cluster.produce(leader, "t", 0, value) == ErrorCode.NONE:
            return leader
        await trio.sleep(0.1)


async def test_recovered_segments_end_with_a_bridge_on_all_replicas(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        assert await cluster.create(1, "t", 1, 3) == ErrorCode.NONE
        first = await produced(cluster, 1, b"a")
        await trio.sleep(1)
        (only,) = (await listed(cluster, capsys))["segments"]
        assert (only["base"], only["end"], only["state"], only["checksum"]) == (0, 1, "open", None)
        assert copies(only) == {1: "same", 2: "same", 3: "same"}

        # Acknowledged, and killed before the others can hear that it is committed: there is something to recover.
        assert await cluster.produce(first, "t", 0, b"b") == ErrorCode.NONE
        await cluster.kill_spu(first)
        second = await produced(cluster, min(cluster.spus), b"c")
        partition = await listed(cluster, capsys)
        recovered, last = partition["segments"]
        assert (partition["leader"], partition["toldBy"]) == (second, second)
        assert (recovered["base"], recovered["end"], recovered["epochs"]) == (0, 3, [0, 1])
        assert (recovered["state"], recovered["sealedBy"]) == ("sealed", "bridge")
        assert (last["base"], last["end"], last["epochs"], last["state"]) == (3, 4, [1, 1], "open")
        assert copies(last)[first] == "not compared"
        (away,) = (each for each in partition["holders"] if each["error"])
        assert away == {"spuId": first, "logEnd": None, "error": f"SPU {first} is not online"}

        await cluster.start_spu(first)
        await trio.sleep(5)
        partition = await listed(cluster, capsys)
        assert [set(copies(each).values()) - {"same", "same records"} for each in partition["segments"]] == [set()] * 2
        assert copies(partition["segments"][1]) == {1: "same", 2: "same", 3: "same"}


async def test_a_segment_is_recovering_until_the_new_leader_can_commit_it(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        configs = ("--replication-factor", "3", "--config", "min.insync.replicas=2", "--wait", "5")
        await asked(cluster, topic, "topic", "create", "t", *configs)
        first = await produced(cluster, 1, b"a")
        await trio.sleep(1)
        assert await cluster.produce(first, "t", 0, b"b") == ErrorCode.NONE
        second, third = {1, 2, 3} - {first}
        await cluster.kill_spu(first)
        await cluster.kill_spu(second)
        await trio.sleep(20)
        partition = await listed(cluster, capsys)
        assert (partition["leader"], partition["highWatermark"]) == (third, 1)
        assert [(each["end"], each["state"], each["sealedBy"]) for each in partition["segments"]] == [
            (3, "recovering", "bridge")
        ]
        # It takes what comes meanwhile, behind that, and acknowledges nothing to who asks for all copies.
        assert await cluster.produce(third, "t", 0, b"c", acks=1) == ErrorCode.NONE
        assert await cluster.produce(third, "t", 0, b"d") == ErrorCode.NOT_ENOUGH_REPLICAS
        partition = await listed(cluster, capsys)
        assert [(each["base"], each["end"], each["state"]) for each in partition["segments"]] == [
            (0, 3, "recovering"),
            (3, 4, "open"),
        ]
        assert partition["highWatermark"] == 1
        await cluster.start_spu(second)
        await trio.sleep(5)
        partition = await listed(cluster, capsys)
        assert [(each["end"], each["state"]) for each in partition["segments"]] == [(3, "sealed"), (4, "open")]
        assert partition["highWatermark"] == 4
        for each in partition["segments"]:
            assert copies(each) == {first: "not compared", second: "same", third: "same"}
