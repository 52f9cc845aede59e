"""Tests `tailrace group reset-offsets` on a whole SPU."""

import json
from pathlib import Path

import pytest
from grouped_spu import GroupedSpu, grouped_spu

from tailrace.cli.main import main

Capture = pytest.CaptureFixture[str]


async def _with_ten_records(spu: GroupedSpu, partitions: int = 1) -> None:
    await spu.running.create("orders", partitions)
    for number in range(partitions):
        await spu.produce("orders", number, 10)


async def _committed(spu: GroupedSpu, group: str, capsys: Capture) -> dict[int, int]:
    capsys.readouterr()
    assert await spu.tailrace("describe", group, "--output", "json") == 0
    (document,) = json.loads(capsys.readouterr().out)
    return {each["partition"]: each["committed"] for each in document["partitions"]}


async def test_a_reset_is_shown_first_and_done_when_asked_for(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await _with_ten_records(spu, 2)
        await spu.commit("billing", "orders", {0: 8})
        words = ("billing", "--topic", "orders", "--shift-by", "-3")
        assert await spu.tailrace("reset-offsets", *words) == 0
        moves = (
            "TOPIC   PARTITION  BEFORE  AFTER  MOVES BY  LAG BEFORE  LAG AFTER  NOTE\n"
            "orders          0       8      5  -3                 2          5  -\n"
            "orders          1       -     10  -                  -          0  nothing was committed\n"
        )
        assert capsys.readouterr().out == f"{moves}Nothing was changed: add --execute to do it.\n"
        assert await _committed(spu, "billing", capsys) == {0: 8}
        assert await spu.tailrace("reset-offsets", *words, "--execute") == 0
        assert capsys.readouterr().out == f"{moves}The offsets of billing were reset.\n"
        assert await _committed(spu, "billing", capsys) == {0: 5, 1: 10}


@pytest.mark.parametrize(
    ("where", "after"),
    [
        (["--to-earliest"], 2),
        (["--to-latest"], 10),
        (["--to-current"], 8),
        (["--to-offset", "4"], 4),
        (["--to-offset", "1"], 2),
        (["--shift-by", "+5"], 10),
        (["--to-datetime", "2023-11-14T22:13:20.006Z"], 6),
        (["--to-datetime", "2023-11-14T22:13:20.000"], 2),
        (["--to-datetime", "2030-01-01"], 10),
        (["--by-duration", "995ms"], 5),
        (["--by-duration", "PT0.995S"], 5),
        (["--to-datetime", "1969-12-31T23:59:59.999Z"], 2),
        (["--by-duration", "999999999999999d"], 2),
    ],
)
async def test_where_it_may_go_on(where: list[str], after: int, autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders")
        await spu.produce("orders", 0, 10, timestamp=1_700_000_000_000)
        await spu.delete_records("orders", 0, 2)
        await spu.commit("billing", "orders", {0: 8})
        spu.clock.time_ms = 1_700_000_001_000
        assert await spu.tailrace("reset-offsets", "billing", "--all-topics", *where, "--output", "json") == 0
        document = json.loads(capsys.readouterr().out)
        (row,) = document["partitions"]
        assert (row["before"], row["offset"], row["logStart"], row["logEnd"]) == (8, after, 2, 10)
        assert (document["group"], document["executed"]) == ("billing", False)


async def test_a_group_with_members_is_left_alone(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await _with_ten_records(spu)
        await spu.commit("billing", "orders", {0: 8})
        member = await spu.member("billing", "worker-1", "orders", [0])
        why = "group billing has members that would overwrite the offsets: stop worker-1 (test at 192.0.2.1) first"
        words = ("billing", "--topic", "orders", "--to-earliest")
        assert await spu.tailrace("reset-offsets", *words) == 0
        assert capsys.readouterr().out.endswith(f"\nNothing was changed: {why}.\n")
        assert await spu.tailrace("reset-offsets", *words, "--execute") == 1
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", f"tailrace group reset-offsets: {why}\n")
        assert await _committed(spu, "billing", capsys) == {0: 8}
        await member.leave()
        assert await spu.tailrace("reset-offsets", *words, "--execute") == 0
        assert await _committed(spu, "billing", capsys) == {0: 0}


async def test_what_a_client_calls_itself_moves_no_cursor(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await _with_ten_records(spu)
        await spu.member("billing", "\x1b[2Jworker", "orders", [0])
        words = ("billing", "--topic", "orders", "--to-earliest")
        assert await spu.tailrace("reset-offsets", *words) == 0
        assert await spu.tailrace("reset-offsets", *words, "--execute") == 1
        said = capsys.readouterr()
        assert "stop \\x1b[2Jworker (" in said.out and "stop \\x1b[2Jworker (" in said.err
        assert "\x1b" not in said.out + said.err


async def test_a_new_group_begins_where_it_is_told(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await _with_ten_records(spu)
        words = ("fresh", "--topic", "orders:0", "--to-offset", "7", "--execute")
        assert await spu.tailrace("reset-offsets", *words) == 0
        assert capsys.readouterr().out.splitlines()[2:] == [
            "Group fresh does not exist yet; it will be created with these offsets.",
            "The offsets of fresh were reset.",
        ]
        assert await _committed(spu, "fresh", capsys) == {0: 7}


async def test_what_describe_has_printed_brings_a_group_back(
    tmp_path: Path, autojump_clock: object, capsys: Capture
) -> None:
    async with grouped_spu() as spu:
        await _with_ten_records(spu, 3)
        await spu.commit("billing", "orders", {0: 4, 1: 5, 2: 6})
        assert await spu.tailrace("describe", "billing", "--output", "yaml") == 0
        path = tmp_path / "backup.yaml"
        path.write_text(capsys.readouterr().out)
        await spu.commit("billing", "orders", {0: 10, 1: 10, 2: 10})
        words = ("billing", "--from-file", str(path), "--execute")
        assert await spu.tailrace("reset-offsets", *words, "--topic", "orders:1,2") == 0
        assert await _committed(spu, "billing", capsys) == {0: 10, 1: 5, 2: 6}
        assert await spu.tailrace("reset-offsets", *words) == 0
        assert await _committed(spu, "billing", capsys) == {0: 4, 1: 5, 2: 6}


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["--to-earliest"], 2, "give --topic, --all-topics or --from-file"),
        (["--to-earliest", "--topic", "orders:a"], 2, "--topic orders:a: expected TOPIC, or TOPIC:0,1"),
        (["--from-file", "/no/such/file"], 2, "/no/such/file: No such file or directory"),
        (["--to-earliest", "--topic", "nope"], 1, "there is no topic nope"),
        (["--to-earliest", "--topic", "orders:0,7"], 1, "orders/7: there is no such partition"),
        (["--to-datetime", "2026-01-01", "--topic", "orders:7"], 1, "orders/7: there is no such partition"),
        (["--to-earliest", "--all-topics"], 1, "there is nothing to reset: the group has committed no offsets there"),
    ],
)
async def test_what_cannot_be_reset(
    words: list[str], status: int, why: str, autojump_clock: object, capsys: Capture
) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders")
        assert await spu.tailrace("reset-offsets", "billing", *words, "--execute") == status
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"tailrace group reset-offsets: {why}")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "one of the arguments --to-earliest --to-latest"),
        (["--to-earliest", "--to-latest"], "not allowed with argument --to-earliest"),
        (["--to-offset", "-1"], "--to-offset: -1 is not an offset"),
        (["--shift-by", "1.5"], "--shift-by: 1.5 is not a whole number"),
        (["--to-datetime", "tomorrow"], "--to-datetime: tomorrow is not a time such as"),
        (["--by-duration", "90"], "--by-duration: 90 is not a duration such as 90m, 2d"),
    ],
)
def test_what_cannot_be_meant(words: list[str], why: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["group", "reset-offsets", "billing", "--topic", "orders", *words])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_a_group_without_a_name_is_a_mistake_in_a_script(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["group", "reset-offsets", "", "--topic", "orders", "--to-latest", "--execute"])
    assert ended.value.code == 2
    assert "GROUP: the name is empty" in capsys.readouterr().err
