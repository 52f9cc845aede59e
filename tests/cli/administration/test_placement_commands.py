"""`tailrace partition move`, `moves` and `elect` on a whole cluster in memory."""

import json
import os
import signal

import pytest
import trio
from administered_cluster import AdministeredCluster, administered_cluster
from trio.testing import MockClock

from tailrace.cli.main import parse

Capture = pytest.CaptureFixture[str]


async def with_topic(administered: AdministeredCluster, capsys: Capture, replicas: int = 2) -> None:
    words = ("--partitions", "2", "--replication-factor", str(replicas), "--wait", "20")
    assert await administered.topic("create", "orders", *words) == 0
    capsys.readouterr()


async def test_a_partition_moves_and_its_first_replica_leads(autojump_clock: MockClock, capsys: Capture) -> None:
    async with administered_cluster(1, 2, 3) as administered:
        await with_topic(administered, capsys)
        for row, bootstrap in (((3, 1), None), ((2, 3), 1)):
            named = ",".join(map(str, row))
            assert await administered.partition("move", "orders/0", "--to", named, bootstrap=bootstrap) == 0
            assert capsys.readouterr().out == f"moved orders/0 to {list(row)}\n"
            assert (await administered.rows("orders"))[0] == (list(row), sorted(row), row[0])


async def test_a_move_that_cannot_end_is_listed_and_given_up(autojump_clock: MockClock, capsys: Capture) -> None:
    async with administered_cluster(1, 2, 3) as administered:
        await with_topic(administered, capsys)
        (before, _, _) = (await administered.rows("orders"))[0]
        await administered.cluster.kill_spu(3)
        assert await administered.partition("move", "orders/0", "--to", "3", "--no-wait") == 0
        assert capsys.readouterr().out == "moving orders/0 to [3]\n"
        assert await administered.partition("moves", "--output", "json") == 0
        (move,) = json.loads(capsys.readouterr().out)
        assert (move["topic"], move["partition"], 3 in move["replicas"]) == ("orders", 0, True)
        assert await administered.partition("moves") == 0
        assert capsys.readouterr().out.startswith("TOPIC   PARTITION  REPLICAS")
        assert await administered.partition("move", "--cancel") == 0
        assert capsys.readouterr().out == "cancelled the move of orders/0\n"
        assert await administered.partition("moves") == 0
        assert capsys.readouterr().out == "no partition is moving\n"
        await trio.sleep(5)
        assert (await administered.rows("orders"))[0][0] == before


async def test_a_waiting_command_ends_if_its_move_is_given_up(autojump_clock: MockClock, capsys: Capture) -> None:
    async with administered_cluster(1, 2, 3) as administered, trio.open_nursery() as nursery:
        await with_topic(administered, capsys)
        held = {spu for replicas, _, _ in (await administered.rows("orders")).values() for spu in replicas}
        away = max(held)
        await administered.cluster.kill_spu(away)
        statuses: list[int] = []

        async def move() -> None:
            statuses.append(await administered.partition("move", "orders/0", "--to", str(away)))

        nursery.start_soon(move)
        await trio.sleep(5)
        assert await administered.partition("move", "--cancel", "orders") == 0
        await trio.sleep(5)
        assert statuses == [1]
        assert "orders/0: the move was given up" in capsys.readouterr().err


async def test_a_signal_ends_the_waiting_and_not_the_move(autojump_clock: MockClock, capsys: Capture) -> None:
    async with administered_cluster(1, 2, 3) as administered, trio.open_nursery() as nursery:
        await with_topic(administered, capsys)
        await administered.cluster.kill_spu(3)
        statuses: list[int] = []
        ended = trio.Event()

        async def move() -> None:
            statuses.append(await administered.partition("move", "orders/0", "--to", "1,3"))
            ended.set()

        nursery.start_soon(move)
        await trio.sleep(5)
        os.kill(os.getpid(), signal.SIGTERM)
        await ended.wait()
        assert statuses == [128 + signal.SIGTERM]
        assert "stopped waiting after 0 of 1 partitions. What has begun goes on" in capsys.readouterr().err
        assert await administered.partition("moves", "--output", "json") == 0
        assert [each["topic"] for each in json.loads(capsys.readouterr().out)] == ["orders"]


async def test_preferred_leaders_are_elected_after_a_loss(autojump_clock: MockClock, capsys: Capture) -> None:
    async with administered_cluster(1, 2) as administered:
        await with_topic(administered, capsys)
        await administered.cluster.kill_spu(2)
        await trio.sleep(5)
        assert {leader for _, _, leader in (await administered.rows("orders")).values()} == {1}
        await administered.cluster.start_spu(2)
        await trio.sleep(5)
        assert await administered.partition("elect") == 0
        (elected,) = capsys.readouterr().out.splitlines()
        assert elected.startswith("elected a leader of orders/")
        assert {leader for _, _, leader in (await administered.rows("orders")).values()} == {1, 2}
        assert await administered.partition("elect", "orders") == 0
        assert capsys.readouterr().out == "no partition needed another leader\n"


async def test_what_is_impossible_is_refused(autojump_clock: MockClock, capsys: Capture) -> None:
    async with administered_cluster(1) as administered:
        await with_topic(administered, capsys, replicas=1)
        for words, status, said in (
            (("move", "orders/0"), 2, "give either --to with the SPUs, or --cancel"),
            (("move", "--to", "1"), 2, "name the partitions to move"),
            (("move", "orders/0", "--to", "9"), 1, "orders/0: "),
            (("move", "orders/7", "--to", "1"), 1, "there is no partition orders/7"),
            (("elect", "--unclean"), 2, "--unclean may lose records"),
            (("elect", "missing"), 1, "there is no topic"),
        ):
            assert await administered.partition(*words) == status
            assert said in capsys.readouterr().err
    for text in ("1,1", "a", ""):
        with pytest.raises(SystemExit):
            parse(["partition", "move", "orders/0", "--to", text])
