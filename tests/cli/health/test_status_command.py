"""Tests `tailrace status` with a real SC and real SPUs in memory; compat_tests run it as a process."""

import json
from typing import Any

import pytest
import trio
from clusters import ClusterOfSpus, cluster_of
from simulation.network import MemoryNetwork
from structlog.testing import capture_logs

from tailrace.cli.health.status_command import COMMANDS
from tailrace.cli.main import parse

ANYWHERE = ("--sc", "sc:9003", "--bootstrap", "spu-1:9005,spu-2:9005")


async def _status(network: MemoryNetwork, *words: str) -> int:
    return await COMMANDS["status"].execute(parse(["status", *ANYWHERE, *words]), network)


async def _document(cluster: ClusterOfSpus, capsys: pytest.CaptureFixture[str], status: int) -> dict[str, Any]:
    assert await _status(cluster.world.network, "--output", "json") == status
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def _texts(document: dict[str, Any]) -> list[str]:
    return [each["text"] for each in document["findings"]]


async def test_the_status_follows_the_cluster_from_well_to_unreachable(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    with capture_logs():
        async with cluster_of(1, 2) as cluster:
            assert await cluster.create(1, "orders", 2, 2) == 0
            assert await _status(cluster.world.network) == 0
            shown = capsys.readouterr().out
            assert shown == (
                "All is well.\n\n"
                "Asked:              the SC at sc:9003\n"
                "SPUs:               2 of 2 online\n"
                "Clients connect to: spu-1:9005 and spu-2:9005\n"
                "Topics:             1 topic\n"
                "Partitions:         2: 2 with a leader, 2 with all replicas live\n"
            )

            await cluster.kill_spu(2)
            await trio.sleep(5)
            document = await _document(cluster, capsys, 1)
            assert not document["well"]
            assert [each["status"] for each in document["spus"]] == ["Online", "Offline"]
            assert _texts(document) == [
                "SPU 2 is offline: its process has ended.",
                "2 partitions lack live replicas: orders/0 and orders/1.",
            ]

            await cluster.kill_sc()
            document = await _document(cluster, capsys, 1)
            assert document["asked"] == "SPUs at spu-1:9005, spu-2:9005"
            first, *others = _texts(document)
            assert first == (
                "The SC at sc:9003 does not answer: connection refused; SPUs serve producers and consumers meanwhile, "
                "but no leader is elected and nothing can be changed."
            )
            assert others == ["SPU 2 is offline.", "2 partitions lack live replicas: orders/0 and orders/1."]

            await cluster.kill_spu(1)
            assert await _status(cluster.world.network) == 3
            said = capsys.readouterr()
            assert said.out == ""
            assert said.err.startswith("tailrace status: the SC at sc:9003 does not answer: connection refused. ")
            assert said.err.endswith("No SPU answers at spu-1:9005, spu-2:9005 either: see --bootstrap\n")


async def test_watching_goes_on_while_no_server_responds(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    with capture_logs():
        async with cluster_of(1) as cluster, trio.open_nursery() as nursery:
            await cluster.kill_spu(1)
            await cluster.kill_sc()
            nursery.start_soon(_status, cluster.world.network, "--watch")
            await trio.sleep(5)
            shown = capsys.readouterr()
            assert shown.out == ""
            assert shown.err.count("does not answer") == 1, "the same failure is reported once"
            await cluster.start_sc()
            await cluster.start_spu(1)
            await trio.sleep(10)
            assert "All is well." in capsys.readouterr().out
            nursery.cancel_scope.cancel()


async def test_brokers_alone_are_asked_if_only_they_are_named(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture_logs():
        async with cluster_of(1) as cluster:
            # Its SC is away, and the one at the default address could be that of another cluster.
            await cluster.kill_sc()
            for words in (["status", "--bootstrap", "spu-1:9005"], ["status"]):
                monkeypatch.setenv("TAILRACE_BOOTSTRAP", "spu-1:9005" if len(words) == 1 else "")
                assert await COMMANDS["status"].execute(parse(words), cluster.world.network) == 0
                assert "Asked:              the brokers at spu-1:9005\n" in capsys.readouterr().out
            await cluster.kill_spu(1)
            assert await COMMANDS["status"].execute(parse(["status"]), cluster.world.network) == 3
