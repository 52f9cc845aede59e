"""Tests the controllers that `tailrace spu describe` shows for SPUs of a whole cluster."""

import json
from typing import Any

import pytest
import trio
from clusters import ClusterOfSpus, cluster_of
from public_sc import tailrace
from running_sc import PUBLIC
from structlog.testing import capture_logs

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


async def _described(cluster: ClusterOfSpus, capsys: pytest.CaptureFixture[str], spu: int) -> dict[str, Any]:
    words = ("spu", "describe", str(spu), "--sc", str(PUBLIC), "--output", "json")
    assert await tailrace(cluster.world.network, *words) == 0
    (document,) = json.loads(capsys.readouterr().out)
    controllers: dict[str, Any] = document["controllers"]
    return controllers


async def test_controllers_come_and_go_with_replicas(
    autojump_clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with capture_logs():
        async with cluster_of(1, 2, 3) as cluster:
            nothing = {
                "logDirectory": "/data/spu-1",
                "leaderControllers": 0,
                "followerControllers": [],
                "followers": [],
            }
            assert await _described(cluster, capsys, 1) == nothing
            await cluster.create(1, "orders", 6, 3)
            await trio.sleep(1)
            described = await _described(cluster, capsys, 1)
            assert described["leaderControllers"] == 2
            assert described["followerControllers"] == [
                {"leader": leader, "replicas": 2, "isLinked": True, "dialledLinks": 1} for leader in (2, 3)
            ]
            assert described["followers"] == [
                {"spuId": spu, "replicas": 2, "isLinked": True, "waitingRecords": 0} for spu in (2, 3)
            ]
            request = DeleteTopicsRequest(topics=[DeleteTopicState("orders")], timeout_ms=20_000)
            await (await cluster.client_of(1)).request(ApiKey.DELETE_TOPICS, 6, request)
            await trio.sleep(1)
            assert await _described(cluster, capsys, 1) == nothing


async def test_what_waits_for_a_follower_that_is_away_is_shown(
    autojump_clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with capture_logs():
        async with cluster_of(1, 2) as cluster:
            await cluster.create(1, "orders", 2, 2)
            ((led, _),) = [(n, row) for n, row in (await cluster.leaders(1, "orders")).items() if row[0] == 1]
            await trio.sleep(1)
            await cluster.kill_spu(2)
            for _ in range(3):
                await cluster.produce(1, "orders", led, b"nobody has it yet")
            words = ("spu", "describe", "1", "2", "--sc", str(PUBLIC))
            await trio.sleep(5)
            assert await tailrace(cluster.world.network, *words) == 0
            one, _, two = capsys.readouterr().out.partition("\n\n")
            assert "Leader controllers:   2\n" in one, "it leads what the other one led"
            assert "Follower controllers: 0\n" in one
            assert one.endswith(
                "FOLLOWED BY SPU  REPLICAS  LINKED  WAITING RECORDS\n              2         2  no                    3"
            )
            assert two.endswith("Controllers:      unknown: the SPU is not online\n")
            await cluster.start_spu(2)
            await trio.sleep(5)
            assert (await _described(cluster, capsys, 1))["followers"] == [
                {"spuId": 2, "replicas": 2, "isLinked": True, "waitingRecords": 0}
            ]
