import json
from uuid import UUID

import pytest
import trio
from public_sc import PublicSc, public_sc, tailrace
from trio.testing import MockClock

from tailrace.cli.main import main
from tailrace.controller.objects.partition_states import mermaid
from tailrace.protocol.internal.describe_partitions import DescribedPartition, ReplicaDetail


async def _with_a_topic(sc: PublicSc) -> None:
    for each in (1, 2):
        words = ("--id", str(each), "--public", f"spu-{each}:9005", "--private", f"spu-{each}:9006")
        assert await tailrace(sc.network, "spu", "register", *words) == 0
    await sc.running.connect(1, 2)
    words = ("--partitions", "2", "--replication-factor", "2", "--wait", "5")
    assert await tailrace(sc.network, "topic", "create", "orders", *words) == 0


async def test_partitions_with_what_their_leaders_say(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc)
        sc.log_ends |= {1: 7, 2: 5}
        capsys.readouterr()
        assert await tailrace(sc.network, "partition", "list") == 0
        assert capsys.readouterr().out == (
            "TOPIC   PARTITION  LEADER  LRS     ELECTABLE  REPLICAS  LEO  HW  LAG   EPOCH  STATUS  REASON\n"
            "orders          0       1  [1, 2]          -  [1, 2]      7   5  2: 2      0  Online       -\n"
            "orders          1       2  [2, 1]          -  [2, 1]      5   5  1: 0      0  Online       -\n"
        )
        assert await tailrace(sc.network, "partition", "list", "--lagging") == 0
        assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["PARTITION", "0"]
        assert await tailrace(sc.network, "partition", "describe", "orders", "0") == 0
        shown = capsys.readouterr().out
        assert shown.splitlines()[-5:] == [
            "SPU  ROLE      LIVE  LOG START  LEO  HW  LAG  SIZE       ERROR",
            "  1  leader    yes           0    7   5    0  490 bytes      -",
            "  2  follower  yes           0    5   5    2  350 bytes      -",
            "EPOCH  BEGINS AT  ENDS AT  REPLICAS",
            "    0          0        7  1, 2",
        ]
        assert await tailrace(sc.network, "partition", "describe", "orders/1", "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert (document["partition"], document["leader"], document["logEnd"]) == (1, 2, 5)
        assert document["kind"] == "partition"
        (epoch,) = document["epochs"]
        assert (epoch["begin"], epoch["end"], document["olderEpochs"]) == (0, 5, 0)
        assert document["spec"] == {"initialLeader": 2, "replicas": document["replicas"]}
        assert (document["status"]["leader"], document["status"]["lrs"]) == (2, [2, 1])
        assert await tailrace(sc.network, "partition", "list", "--output", "json") == 0
        assert [each["spec"]["initialLeader"] for each in json.loads(capsys.readouterr().out)][1] == 2


async def test_an_offline_replica_is_electable_and_leads_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """The stored live replicas keep an SPU that is lost: only a leader removes it, and never the last ones."""
    async with public_sc() as sc:
        await _with_a_topic(sc)
        local = sc.running.workflow.local
        await sc.running.lose(1)
        await sc.running.workflow.writes.wait_until(
            lambda: all(each.status.leads == 2 for each in local.partitions.values())
        )
        capsys.readouterr()
        assert await tailrace(sc.network, "partition", "list", "orders", "--output", "json") == 0
        first, second = json.loads(capsys.readouterr().out)
        assert [each["leader"] for each in (first, second)] == [2, 2]
        assert [(each["lrs"], each["electable"]) for each in (first, second)] == [([2], [1])] * 2
        assert first["status"]["lrs"] == [2]
        assert len(first["status"]["lrsIncarnations"]) == 1
        assert await tailrace(sc.network, "partition", "list", "--lagging") == 0
        assert len(capsys.readouterr().out.splitlines()) == 3

        await sc.running.lose(2)
        await sc.running.workflow.writes.wait_until(
            lambda: all(each.status.resolution == "Offline" for each in local.partitions.values())
        )
        assert await tailrace(sc.network, "partition", "list", "orders", "--output", "json") == 0
        first, _ = json.loads(capsys.readouterr().out)
        assert (first["leader"], first["lrs"], sorted(first["electable"])) == (None, [], [1, 2])
        assert (first["status"]["leader"], first["status"]["lrs"]) == (None, [])
        assert await tailrace(sc.network, "partition", "describe", "orders/0") == 0
        shown = capsys.readouterr().out
        assert "Leader:    none\n" in shown
        assert "  1  follower  electable  " in shown
        assert await tailrace(sc.network, "replica", "list", "orders") == 0
        assert "  electable  " in capsys.readouterr().out
        assert await tailrace(sc.network, "draw", "partition", "orders/0") == 0
        assert "SPU 1 follows: electable, SPU 1 is not online" in capsys.readouterr().out


async def test_a_watch_shows_each_status_however_short_it_was(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc() as sc, trio.open_nursery() as nursery:
        await _with_a_topic(sc)
        capsys.readouterr()
        for command in (("partition", "list", "--watch"), ("partition", "describe", "orders/0", "--watch")):
            nursery.start_soon(tailrace, sc.network, *command)
        await trio.sleep(0.5)
        assert "CandidateFound" not in capsys.readouterr().out
        await sc.running.lose(1)
        await trio.sleep(1)
        shown = capsys.readouterr().out
        assert shown.count(
            "TIME                      TOPIC   PARTITION  LEADER  EPOCH  STATUS          REASON\n"
            "2023-11-14T22:13:20.000Z  orders          0       2      1  CandidateFound       -\n"
            "2023-11-14T22:13:20.000Z  orders          0       2      1  Online               -\n"
        ) == len(("list", "describe"))
        await trio.sleep(2)
        assert capsys.readouterr().out == "", "it is told once"
        nursery.cancel_scope.cancel()


async def test_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc)
        capsys.readouterr()
        assert await tailrace(sc.network, "partition", "list", "other") == 1
        assert capsys.readouterr().err == "tailrace partition list: there is no topic other\n"
        assert await tailrace(sc.network, "partition", "describe", "orders", "5") == 1
        assert capsys.readouterr().err == "tailrace partition describe: there is no partition orders/5\n"
        assert await tailrace(sc.network, "partition", "describe", "orders/x") == 2
        assert await tailrace(sc.network, "partition", "describe", "orders/1", "1") == 2


LEADERLESS = DescribedPartition(
    "orders",
    UUID(int=5),
    3,
    "Offline",
    1,
    4,
    [1, 2],
    [1],
    "SPU 1 is offline",
    [ReplicaDetail(1, error_message="SPU 1 is not online"), ReplicaDetail(2, 0, 5, 3, 12345)],
)


def test_the_diagram_is_printed_without_asking_anybody(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", "states"]) == 0
    assert capsys.readouterr().out == mermaid() + "\n"
