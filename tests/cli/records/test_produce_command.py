import errno
import io
import json
import sys
from typing import TypeAlias

import pytest
from record_commands import record_commands

from tailrace.protocol.batches.compression import Compression

Capture: TypeAlias = pytest.CaptureFixture[str]


async def test_every_line_is_a_record(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        assert await commands.produce("one\n\nthree", "orders") == 0
        assert capsys.readouterr().out == (
            "TOPIC   PARTITION  RECORDS  FIRST OFFSET  LAST OFFSET\n"
            "orders          0        3             0            2\n"
        )
        assert await commands.produce("four\n", "orders", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == [
            {"topic": "orders", "partition": 0, "records": 1, "firstOffset": 3, "lastOffset": 3}
        ]
        assert await commands.consume("orders", "--values") == 0
        assert capsys.readouterr().out == "one\n\nthree\nfour\n"


async def test_without_a_line_nothing_is_written(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        assert await commands.produce("", "orders") == 0
        assert capsys.readouterr().out == "Nothing was written: the input has no lines.\n"


async def test_keys_have_their_partitions_and_nothing_else_has(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands(partitions=3) as commands:
        text = "".join(f"key-{number % 5}:{number}\n" for number in range(50))
        assert await commands.produce(text, "orders", "--key-separator", ":") == 0
        capsys.readouterr()
        assert await commands.consume("orders", "--output", "json") == 0
        records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert {int(each["value"]): each["key"] for each in records} == {n: f"key-{n % 5}" for n in range(50)}
        assert len({(each["key"], each["partition"]) for each in records}) == 5
        assert await commands.produce("a:1\n" * 20, "orders/2", "--key-separator", ":", "--output", "json") == 0
        (written,) = json.loads(capsys.readouterr().out)
        assert (written["partition"], written["records"]) == (2, 20)
        assert await commands.produce("x\n" * 50, "orders", "--output", "json") == 0
        assert len(json.loads(capsys.readouterr().out)) > 1


@pytest.mark.parametrize("compression", [each.name.lower() for each in Compression])
async def test_what_is_sent_is_what_is_read(autojump_clock: object, capsys: Capture, compression: str) -> None:
    async with record_commands() as commands:
        words = ("--key-separator", ":", "--null", "NULL", "--header", "a=1", "--header", "a=", "--acks", "1")
        assert await commands.produce("ä:ö\nb:NULL\n", "orders", *words, "--compression", compression) == 0
        capsys.readouterr()
        assert await commands.consume("orders") == 0
        time = "2023-11-14T22:13:20.000Z"
        assert capsys.readouterr().out == (
            f'orders/0  0  {time}  "ä"  "ö"  a="1"  a=""\norders/0  1  {time}  "b"  null  a="1"  a=""\n'
        )


async def test_batches_that_are_too_large_are_halved_and_a_record_that_is_is_named(
    autojump_clock: object, capsys: Capture
) -> None:
    async with record_commands(configs={"max.message.bytes": "1000"}) as commands:
        lines = [f"{number}".ljust(99, "x") for number in range(50)]
        assert await commands.produce("\n".join(lines), "orders", at_once=10_000) == 0
        capsys.readouterr()
        assert await commands.consume("orders", "--values") == 0
        assert capsys.readouterr().out.splitlines() == lines
        assert await commands.produce("small\n" + "x" * 1000 + "\nsmall\n", "orders", at_once=10_000) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("tailrace produce: orders/0: ")
        assert captured.err.endswith("; 1 record was written before\n")


async def test_a_line_that_cannot_be_meant_is_the_end(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        words = ("orders", "--key-separator", ":")
        assert await commands.produce("a:1\nb:2\nc\nd:4\n", *words) == 2
        assert capsys.readouterr().err == (
            "tailrace produce: line 3 has no ':' after a key; 2 records were written before\n"
        )
        assert await commands.consume("orders", "--values") == 0
        assert capsys.readouterr().out == "1\n2\n"


async def test_input_that_cannot_be_read_is_the_end(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        commands.input_ends_with = OSError(errno.EBADF, "Bad file descriptor")
        assert await commands.produce("one\ntwo", "orders") == 2
        assert capsys.readouterr().err == (
            "tailrace produce: standard input: Bad file descriptor; 1 record was written before\n"
        )


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["payments"], 1, "there is no topic payments; create it with `tailrace topic create payments`"),
        (["orders/7"], 1, "there is no partition orders/7"),
        (["orders:0,1"], 2, "orders:0,1: expected TOPIC or TOPIC/PARTITION"),
        (["orders:x"], 2, "orders:x: expected TOPIC, or TOPIC:0,1 for some of its partitions"),
        (["orders", "--header", "a"], 2, "--header a: expected NAME=VALUE"),
        (["orders", "--header", "\udcff=1"], 2, "'\\udcff' is not Unicode"),
        (["orders", "--bootstrap", "nowhere:1"], 3, "the SPU at nowhere:1 does not answer: connection refused. "),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_sentence(
    autojump_clock: object, capsys: Capture, words: list[str], status: int, why: str
) -> None:
    async with record_commands() as commands:
        assert await commands.produce("a\n", *words) == status
        captured = capsys.readouterr()
        assert captured.err.startswith(f"tailrace produce: {why}")
        assert (captured.out, captured.err.count("\n")) == ("", 1)


async def test_what_nobody_takes_is_given_up_after_a_while(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        commands.replica().is_leader = False
        assert await commands.produce("a\n", "orders") == 1
        assert capsys.readouterr().err == (
            "tailrace produce: orders/0: SPU 1 does not lead orders-0 any more, or not yet\n"
        )


async def test_a_person_at_a_terminal_is_told_how_it_ends(
    autojump_clock: object, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    async with record_commands() as commands:
        assert await commands.produce("a\n", "orders") == 0
        assert capsys.readouterr().err == "tailrace produce: type one record per line; end with Ctrl-D\n"
