import errno
import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
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
        assert capsys.readouterr().out == "Nothing was written: there was no record in the input.\n"


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
        (["orders", "--bootstrap", "nowhere:1"], 3, "the broker at nowhere:1 does not answer: connection refused. "),
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


async def test_json_lines_are_written_as_they_were_read(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands(partitions=3) as commands:
        await commands.running.create("copy", 3)
        lines = [
            '{"value": "first", "partition": 2, "timestamp": 5}',
            '{"key": {"id": 1}, "value": [1,  2], "headers": [{"name": "a", "value": {"base64": "/w=="}}, '
            '{"name": "a"}]}',
            '{"key": {"base64": "gA=="}, "value": null, "partition": 0, "headers": [{"name": {"base64": "/w=="}}]}',
        ]
        assert await commands.produce("\n".join(lines), "orders", "--json") == 0
        capsys.readouterr()
        assert await commands.consume("orders", "--output", "json") == 0
        original = capsys.readouterr().out
        assert '"value": [1,  2]' in original
        commands.running.world.clock.time_ms += 1000
        assert await commands.produce(original, "copy", "--json") == 0
        capsys.readouterr()
        assert await commands.consume("copy", "--output", "json") == 0
        assert sorted(capsys.readouterr().out.splitlines()) == sorted(original.replace("orders", "copy").splitlines())


async def test_a_partition_on_the_command_line_counts_more_than_that_of_a_line(
    autojump_clock: object, capsys: Capture
) -> None:
    async with record_commands(partitions=2) as commands:
        line = '{"value": "v", "partition": 5}\n'
        assert await commands.produce(line, "orders", "--json") == 2
        assert "line 1: orders has no partition 5; remove the field `partition`" in capsys.readouterr().err
        assert await commands.produce(line, "orders/1", "--json", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out)[0]["partition"] == 1


async def test_a_wrong_json_line_is_the_end(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        assert await commands.produce('{"value": "1"}\n{"vaule": "2"}\n', "orders", "--json") == 2
        assert capsys.readouterr().err == (
            "tailrace produce: line 2: Object contains unknown field `vaule`; 1 record was written before\n"
        )


async def test_a_file_is_read_and_records_end_as_one_likes(
    autojump_clock: object, capsys: Capture, tmp_path: Path
) -> None:
    file = tmp_path / "orders.bin"
    file.write_bytes(b"a\t1\n\0b\t2")
    async with record_commands() as commands:
        words = ("orders", "--delimiter", "\\0", "--key-separator", "\\t")
        assert await commands.produce("not this", *words, "--input-file", str(file)) == 0
        capsys.readouterr()
        assert await commands.consume("orders", "--output", "json") == 0
        records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(each["key"], each["value"]) for each in records] == [("a", "1\n"), ("b", "2")]
        assert await commands.produce("", "orders", "--input-file", str(tmp_path / "none")) == 2
        assert capsys.readouterr().err == f"tailrace produce: {tmp_path / 'none'}: No such file or directory\n"


async def test_generated_records_are_the_same_for_a_seed(autojump_clock: object, capsys: Capture) -> None:
    async def values(*words: str) -> list[tuple[str, int, str]]:
        async with record_commands(partitions=3) as commands:
            assert await commands.produce("", "orders", "--generate", "200", *words) == 0
            capsys.readouterr()
            assert await commands.consume("orders", "--output", "json") == 0
            records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            return sorted((each["key"] or "", each["partition"], json.dumps(each["value"])) for each in records)

    first = await values("--seed", "7", "--rate", "100", "--size", "60", "--keys", "5")
    assert first == await values("--seed", "7", "--size", "60", "--keys", "5")
    assert first != await values("--seed", "8", "--size", "60", "--keys", "5")
    assert {key for key, _, _ in first} == {f"key-{number}" for number in range(5)}
    assert {len(value) for _, _, value in first} == {60}
    assert await values("--keys", "0") == await values("--keys", "0", "--rate", "1000")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--rate", "5"], "--rate: only --generate takes it"),
        (["--seed", "0"], "--seed: only --generate takes it"),
        (["--generate", "5", "--json"], "--json: --generate reads no input"),
        (["--generate", "5", "--key-separator", ":"], "--key-separator: --generate reads no input"),
        (["--json", "--null", "NULL"], "--null: lines of --json say which key and value they have"),
    ],
)
async def test_an_option_without_an_effect_is_refused(
    autojump_clock: object, capsys: Capture, words: list[str], why: str
) -> None:
    async with record_commands() as commands:
        assert await commands.produce("a\n", "orders", *words) == 2
        assert capsys.readouterr() == ("", f"tailrace produce: {why}\n")


async def test_a_person_who_stops_it_learns_what_was_written(autojump_clock: object, capsys: Capture) -> None:
    statuses = []

    async def produce() -> None:
        statuses.append(await commands.produce("", "orders", "--generate", "100", "--rate", "1"))

    async with record_commands() as commands:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce)
            await trio.sleep(2.5)
            os.kill(os.getpid(), signal.SIGINT)
        captured = capsys.readouterr()
        assert (statuses, captured.err) == ([130], "tailrace produce: stopped after 3 records were written\n")
        assert captured.out.splitlines()[1].split() == ["orders", "0", "3", "0", "2"]


async def test_a_second_signal_does_not_wait_for_brokers(autojump_clock: object, capsys: Capture) -> None:
    statuses = []

    async def produce() -> None:
        statuses.append(await commands.produce("a\nb\n", "orders", at_once=100))

    async with record_commands() as commands:
        commands.replica().is_leader = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce)
            await trio.sleep(1)
            os.kill(os.getpid(), signal.SIGTERM)
            await trio.sleep(1)
            os.kill(os.getpid(), signal.SIGTERM)
        assert statuses == [143]
        assert capsys.readouterr().err == (
            "tailrace produce: stopped after 0 records were written; 2 more may have been written\n"
        )
