import json
from uuid import UUID

import pytest
import trio
from msgspec.structs import replace
from public_sc import PublicSc, public_sc, tailrace
from trio.testing import MockClock

from tailrace.cli.main import main
from tailrace.cli.objects.partition_commands import description, is_lagging, partition_document, partition_table
from tailrace.controller.objects.partition_states import mermaid
from tailrace.protocol.internal.describe_partitions import DescribedPartition, DescribedShelf, ReplicaDetail


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
            "TOPIC   PARTITION  LEADER  LRS     REPLICAS  LEO  HW  LAG   EPOCH  STATUS  REASON\n"
            "orders          0       1  [1, 2]  [1, 2]      7   5  2: 2      0  Online       -\n"
            "orders          1       2  [2, 1]  [2, 1]      5   5  1: 0      0  Online       -\n"
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


def test_what_nobody_said_is_a_dash() -> None:
    (line,) = partition_table([LEADERLESS]).splitlines()[1:]
    assert line.split("  ")[0] == "orders"
    assert " -   -  2: ?      4  Offline  SPU 1 is offline" in line
    assert description(LEADERLESS).splitlines()[-2:] == [
        "  1  leader    yes           -    -   -    -  -        SPU 1 is not online",
        "  2  follower  no            0    5   3    -  12.3 kB  -",
    ]
    assert is_lagging(LEADERLESS)
    document = partition_document(LEADERLESS)
    assert document["logEnd"] is None
    json.dumps(document)


def test_a_follower_that_seems_ahead_lacks_nothing() -> None:
    partition = DescribedPartition("a", UUID(int=5), 0, "Online", 1, 0, [1, 2], [1, 2], "", [])
    partition.details = [ReplicaDetail(1, 0, 5, 5, 1), ReplicaDetail(2, 0, 6, 5, 1)]
    assert " 0  1 bytes" in description(partition).splitlines()[-1]
    assert not is_lagging(partition)
    assert is_lagging(replace(partition, live_replicas=[1]))
    unheard = ReplicaDetail(2, error_message="SPU 2 did not answer within 2 s")
    assert is_lagging(replace(partition, details=[partition.details[0], unheard])), "it may be"
    assert partition_document(partition)["details"][1]["lag"] == 0  # type: ignore[index]


def test_replicas_that_come_and_go_are_named_while_they_do() -> None:
    partition = DescribedPartition("a", UUID(int=5), 0, "Online", 1, 0, [1, 2, 3], [1, 2], "", [])
    assert "Adding" not in description(partition) and "Removing" not in description(partition)
    partition = replace(partition, adding=[3], removing=[1, 2])
    assert {"Adding:    [3]", "Removing:  [1, 2]"} <= set(description(partition).splitlines())
    document = partition_document(partition)
    assert (document["adding"], document["removing"]) == ([3], [1, 2])


def test_a_description_tells_who_keeps_what_is_old() -> None:
    shelves = [DescribedShelf(0, 10, [2, 3]), DescribedShelf(10, 20, [3], [4])]
    partition = DescribedPartition("orders", UUID(int=1), 0, shelved_from=4, shelves=shelves)
    lines = description(partition).splitlines()
    assert [line.split() for line in lines if line.startswith("On shelves")] == [["On", "shelves:", "4", "to", "20"]]
    assert "\n".join(lines[-4:-1] if lines[-1].startswith("EPOCH") else lines[-3:]) == (
        "SHELF BASE  END  COPIES\n         0   10  2, 3\n        10   20  3, 4 (being filled)"
    )
    assert "helves" not in description(replace(partition, shelves=[]))


def test_the_diagram_is_printed_without_asking_anybody(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", "states"]) == 0
    assert capsys.readouterr().out == mermaid() + "\n"
