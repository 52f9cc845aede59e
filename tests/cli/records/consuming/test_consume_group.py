import os
import signal
from collections.abc import Mapping, Sequence
from functools import partial

import pytest
import trio
from record_commands import RecordCommands, record_commands
from spus import ADDRESS

from tailrace.client.group_client import GroupClient
from tailrace.client.group_member import REBALANCE_MS, GroupMember
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import unless_refused
from tailrace.client.spu_client import BOOTSTRAP, SpuClient

Capture = pytest.CaptureFixture[str]


async def _committed(commands: RecordCommands) -> dict[int, int | None]:
    spus = SpuClient(commands.running.world.network, [ADDRESS], BOOTSTRAP)
    try:
        found = unless_refused((await GroupClient(spus).committed(["g"]))["g"])
        return {each.partition.number: each.committed for each in found}
    finally:
        spus.close()


async def _values(commands: RecordCommands, capsys: Capture, *words: str) -> list[str]:
    capsys.readouterr()
    assert await commands.consume("orders", "--values", "--group", "g", *words) == 0
    return capsys.readouterr().out.splitlines()


async def test_each_record_is_printed_once_and_committed(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        assert await commands.produce("0\n1\n2\n3\n4\n", "orders", at_once=100) == 0
        assert await _values(commands, capsys, "--count", "2") == ["0", "1"]
        assert await _committed(commands) == {0: 2}
        assert await _values(commands, capsys) == ["2", "3", "4"]
        assert await _committed(commands) == {0: 5}
        assert await _values(commands, capsys) == []


async def test_records_that_do_not_match_are_done_as_well(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        assert await commands.produce("a:0\nb:1\na:2\nb:3\n", "orders", "--key-separator", ":", at_once=100) == 0
        assert await _values(commands, capsys, "--key", "a") == ["0", "2"]
        assert await _committed(commands) == {0: 4}


async def test_a_new_group_begins_where_it_is_told_to(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        assert await commands.produce("0\n1\n2\n", "orders", at_once=100) == 0
        assert await _values(commands, capsys, "--from", "1", "--count", "1") == ["1"]
        assert await _values(commands, capsys, "--from", "beginning") == ["2"]


async def test_a_person_who_stops_it_early_learns_that_it_is_committed(autojump_clock: object, capsys: Capture) -> None:
    statuses = []

    async def write_and_stop(data: bytes) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep(1)

    async def consume() -> None:
        statuses.append(await commands.consume("orders", "--values", "--group", "g", write=write_and_stop))

    async with record_commands() as commands:
        text = "".join(f"{number}{'x' * 50_000}\n" for number in range(10))
        assert await commands.produce(text, "orders", at_once=100_000) == 0
        capsys.readouterr()
        await consume()
        assert (statuses, capsys.readouterr().err) == (
            [130],
            "tailrace consume: stopped; what was printed is committed\n",
        )
        assert await _committed(commands) == {0: 3}


async def test_partitions_and_other_ways_of_reading_do_not_go_with_a_group(
    autojump_clock: object, capsys: Capture
) -> None:
    async with record_commands() as commands:
        assert await commands.consume("orders:0", "--group", "g") == 2
        assert "--group: leave out the partitions, because the group divides them" in capsys.readouterr().err
        assert await commands.consume("orders", "--group", "g", "--tail", "3") == 2
        assert "--group and --tail cannot be used together" in capsys.readouterr().err


@pytest.mark.parametrize("taken", [0, 1, 2])
async def test_an_output_that_breaks_commits_only_what_was_taken(
    autojump_clock: object, capsys: Capture, taken: int
) -> None:
    pieces: list[bytes] = []

    async def break_later(data: bytes) -> None:
        if len(pieces) == taken:
            raise BrokenPipeError
        pieces.append(data)

    async with record_commands() as commands:
        text = "".join(f"{number}{'x' * 50_000}\n" for number in range(10))
        assert await commands.produce(text, "orders", at_once=100_000) == 0
        capsys.readouterr()
        with pytest.raises(BrokenPipeError):
            await commands.consume("orders", "--values", "--group", "g", write=break_later)
        assert await _committed(commands) == {0: b"".join(pieces).count(b"\n")}


async def test_a_member_that_was_removed_says_which_records_may_be_printed_again(
    autojump_clock: object, capsys: Capture
) -> None:
    async def stand_still(data: bytes) -> None:
        await trio.sleep(REBALANCE_MS / 1000 + 30)

    async with record_commands() as commands, trio.open_nursery() as nursery:
        assert await commands.produce("0\n1\n2\n", "orders", at_once=100) == 0
        capsys.readouterr()
        spus = SpuClient(commands.running.world.network, [ADDRESS], BOOTSTRAP)
        logs = LogClient(spus.another())

        async def partitions_of(topics: Sequence[str]) -> Mapping[str, Sequence[Partition]]:
            return {topic: unless_refused(found) for topic, found in (await logs.partitions(topics)).items()}

        other = GroupMember(spus, "g", partitions_of)
        nursery.start_soon(partial(commands.consume, "orders", "--group", "g", "--count", "3", write=stand_still))
        await trio.sleep(10)
        nursery.start_soon(other.stay_alive)
        assert await other.join(["orders"]) == [Partition("orders", 0)]
        await trio.sleep(60)
        assert await _committed(commands) == {}
        assert capsys.readouterr().err == (
            "tailrace consume: the group may print the records of orders/0 from offset 0 to 2 again\n"
        )
        nursery.cancel_scope.cancel()
