import argparse
import json
import os
import signal
from typing import Any, TypeAlias

import pytest
import trio
import yaml
from record_commands import RecordCommands, record_commands
from scripted_brokers import Script, ScriptedBroker, scripted_brokers
from spus import SteadyClock
from trio.testing import wait_all_tasks_blocked

from tailrace.cli.clients.log_client import EARLIEST
from tailrace.cli.clients.log_facts import Partition
from tailrace.cli.clients.quorum_client import QuorumClient, QuorumFetched, TooFewStoresError
from tailrace.cli.clients.server_connection import RefusedError
from tailrace.cli.main import parse
from tailrace.cli.records.consume_command import Since, _start, commands
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import stamp
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

Capture: TypeAlias = pytest.CaptureFixture[str]


async def _filled(commands: RecordCommands, capsys: Capture, count: int = 5, topic: str = "orders") -> None:
    """Makes a batch with the values 0, 1, 2 and so on, each a second later than the one before."""
    for number in range(count):
        assert await commands.produce(f"{number}\n", topic) == 0
        commands.running.world.clock.time_ms += 1000
    capsys.readouterr()


async def _values(commands: RecordCommands, capsys: Capture, *words: str) -> str:
    status = await commands.consume("orders", "--values", *words)
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out.replace("\n", "")


async def test_records_are_lines_for_people_and_documents_for_programs(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        await _filled(commands, capsys, count=2)
        assert await commands.consume("orders") == 0
        assert capsys.readouterr().out == (
            'orders/0  0  2023-11-14T22:13:20.000Z  -  "0"\norders/0  1  2023-11-14T22:13:21.000Z  -  "1"\n'
        )
        assert await commands.consume("orders", "--output", "json") == 0
        documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(each["offset"], each["value"], each["committed"]) for each in documents] == [
            (0, "0", True),
            (1, "1", True),
        ]
        assert await commands.consume("orders", "--output", "yaml") == 0
        assert list(yaml.safe_load_all(capsys.readouterr().out)) == documents


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "01234"),
        (["--from", "beginning", "--count", "2"], "01"),
        (["--from", "3"], "34"),
        (["--from", "5"], ""),
        (["--from", "2023-11-14T22:13:22Z"], "234"),
        (["--from", "2s"], "34"),
        (["--from", "9h"], "01234"),
        (["--from", "2100-01-01"], ""),
    ],
)
async def test_it_begins_where_it_is_told_to(
    autojump_clock: object, capsys: Capture, words: list[str], expected: str
) -> None:
    async with record_commands() as commands:
        await _filled(commands, capsys)
        assert await _values(commands, capsys, *words) == expected


async def test_some_partitions_are_read_or_all(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands(partitions=3) as commands:
        for number in range(3):
            assert await commands.produce(f"{number}\n", f"orders/{number}") == 0
        capsys.readouterr()
        for topic, expected in (("orders", "012"), ("orders/1", "1"), ("orders:2,0", "02")):
            assert await commands.consume(topic, "--values") == 0
            assert "".join(sorted(capsys.readouterr().out.split())) == expected


async def test_it_waits_for_more_until_there_is_enough(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        await _filled(commands, capsys)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commands.consume, "orders", "--values", "--follow", "--from", "end", "--count", "2")
            await wait_all_tasks_blocked()
            assert await commands.produce("new\nnewer\nnewest\n", "orders") == 0
        assert [line for line in capsys.readouterr().out.splitlines() if "new" in line] == ["new", "newer"]


async def test_a_person_ends_it_without_an_error(autojump_clock: object, capsys: Capture) -> None:
    statuses = []

    async def follow() -> None:
        statuses.append(await commands.consume("orders", "--values", "--follow"))

    async with record_commands() as commands:
        await _filled(commands, capsys, count=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await wait_all_tasks_blocked()
            os.kill(os.getpid(), signal.SIGINT)
        assert statuses == [0]
        assert capsys.readouterr() == ("0\n", "")


async def test_what_is_not_committed_is_shown_to_who_asks_for_it(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        await _filled(commands, capsys)
        commands.replica().high_watermark = 3
        assert await _values(commands, capsys) == "012"
        assert await commands.consume("orders", "--uncommitted", "--from", "2") == 0
        captured = capsys.readouterr()
        assert [line.split("  ")[1::3] for line in captured.out.splitlines()] == [
            ["2", '"2"'],
            ["3", '"3"'],
            ["4", '"4"'],
        ]
        assert [line.endswith('"  uncommitted') for line in captured.out.splitlines()] == [False, True, True]
        assert captured.err.startswith("tailrace consume: records marked as uncommitted may be lost")
        assert await commands.consume("orders", "--uncommitted", "--follow", "--count", "5", "--output", "json") == 0
        documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [each["committed"] for each in documents] == [True] * 3 + [False] * 2


async def test_what_is_gone_is_passed_with_a_note(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        await _filled(commands, capsys)
        wanted = [DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 3)])]
        await (await commands.running.client()).request(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(wanted, 1000))
        assert await commands.consume("orders", "--values", "--from", "1") == 0
        assert capsys.readouterr() == ("3\n4\n", "tailrace consume: orders/0 begins at offset 3\n")
        assert await commands.consume("orders", "--values", "--from", "7") == 0
        assert capsys.readouterr() == ("", "tailrace consume: orders/0 ends at offset 5\n")


def _scripted(log: list[int], fetches: list[PartitionData]) -> Script:
    """Scripts a log with these bounds; the last response to a fetch repeats."""

    def answer(broker: ScriptedBroker, request: Any) -> Any:
        if request.API_KEY == ApiKey.LIST_OFFSETS:
            offset = log[0] if request.topics[0].partitions[0].timestamp == EARLIEST else log[1]
            return ListOffsetsResponse(
                topics=[ListOffsetsTopicResponse("orders", [ListOffsetsPartitionResponse(0, offset=offset)])]
            )
        data = fetches.pop(0) if len(fetches) > 1 else fetches[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            log[0] = 3
        return FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[data])])

    return answer


async def _consume(script: Script, *words: str) -> int:
    async with scripted_brokers(script) as cluster:
        cluster.leaders["orders"] = [1]
        where = ("--bootstrap", ",".join(map(str, cluster.bootstrap)))
        return await commands(SteadyClock())["consume"].execute(parse(["consume", *words, *where]), cluster.network)


async def test_what_is_deleted_meanwhile_is_passed_as_well(autojump_clock: object, capsys: Capture) -> None:
    records = bytes(build_batch([Record(3, 0, None, b"kept")], base_offset=3))
    fetches = [
        PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        PartitionData(high_watermark=4, records=records),
    ]
    assert await _consume(_scripted([0, 4], fetches), "orders", "--values") == 0
    assert capsys.readouterr() == ("kept\n", "tailrace consume: orders/0 begins at offset 3\n")


async def test_what_does_not_come_is_not_waited_for_forever(autojump_clock: object, capsys: Capture) -> None:
    assert await _consume(_scripted([0, 4], [PartitionData(high_watermark=2, records=b"")]), "orders") == 1
    said = "tailrace consume: orders/0: the leader sends nothing from offset 0 on, but the log goes on\n"
    assert capsys.readouterr() == ("", said)


async def test_a_batch_that_cannot_be_read_is_named(autojump_clock: object, capsys: Capture) -> None:
    records = build_batch([Record(0, 0, None, b"v")])
    records[-1] ^= 1
    script = _scripted([0, 1], [PartitionData(high_watermark=1, records=bytes(records))])
    assert await _consume(script, "orders") == 1
    assert capsys.readouterr().err == "tailrace consume: orders/0: the batch at offset 0 is corrupt\n"


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["payments"], 1, "there is no topic payments"),
        (["orders/7"], 1, "there is no partition orders/7"),
        (["orders", "--from", "end"], 2, "--from end: there are no records yet; add --follow to wait for them"),
        (["orders", "--values", "--output", "json"], 2, "--values: leave out --output json"),
        (["orders", "--bootstrap", "nowhere:1"], 3, "the broker at nowhere:1 does not answer: connection refused. "),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_sentence(
    autojump_clock: object, capsys: Capture, words: list[str], status: int, why: str
) -> None:
    async with record_commands() as commands:
        assert await commands.consume(*words) == status
        captured = capsys.readouterr()
        assert captured.err.startswith(f"tailrace consume: {why}")
        assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_where_to_begin() -> None:
    assert [_start(text) for text in ("end", "17", "90m", "1970-01-01T00:00:01Z")] == [
        "end",
        17,
        Since(5_400_000, True),
        Since(1_000, False),
    ]
    with pytest.raises(argparse.ArgumentTypeError, match=r"^soon is not beginning, end, an offset, "):
        _start("soon")


# From a quorum


def _replicas_say(patch: pytest.MonkeyPatch, *answers: QuorumFetched | RefusedError) -> list[int]:
    """Scripts the responses of replicas, of which the last repeats; returns the requested offsets."""
    asked: list[int] = []

    async def read(self: QuorumClient, partition: Partition, offset: int) -> QuorumFetched:
        answer = answers[min(len(asked), len(answers) - 1)]
        asked.append(offset)
        if isinstance(answer, RefusedError):
            raise answer
        return answer

    patch.setattr(QuorumClient, "read", read)
    return asked


def _batch_at(base: int, *values: bytes) -> bytes:
    batch = build_batch([Record(offset, 0, None, value) for offset, value in enumerate(values)])
    stamp(batch, 0, base, 0)
    return bytes(batch)


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], "01234"), (["--from", "3"], "34"), (["--from", "9"], ""), (["--count", "2"], "01")],
)
async def test_no_leader_has_to_be_asked(
    autojump_clock: object, capsys: Capture, words: list[str], expected: str
) -> None:
    async with record_commands() as commands:
        await _filled(commands, capsys)
        assert await _values(commands, capsys, "--quorum", *words) == expected


async def test_what_recovery_wrote_between_is_passed_over(
    autojump_clock: object, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with record_commands() as commands:
        first = QuorumFetched(0, 5, 9, _batch_at(0, b"a", b"b"), 2, ())
        asked = _replicas_say(monkeypatch, first, QuorumFetched(7, 9, 9, _batch_at(7, b"c", b"d"), 9, ()))
        assert await commands.consume("orders", "--quorum", "--values") == 0
        captured = capsys.readouterr()
        assert (captured.out, asked) == ("a\nb\nc\nd\n", [0, 5])
        assert "orders/0 begins at offset 7" in captured.err


async def test_what_the_replicas_cannot_tell_is_said_in_the_end(
    autojump_clock: object, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with record_commands() as commands:
        shown = QuorumFetched(0, 1, 3, _batch_at(0, b"a"), 1, ())
        _replicas_say(monkeypatch, shown, QuorumFetched(1, 1, 3, b"", 1, ("SPU 2 does not answer within 3 seconds",)))
        assert await commands.consume("orders", "--quorum", "--values") == 1
        captured = capsys.readouterr()
        assert captured.out == "a\n"
        assert (
            "orders/0: everything below offset 1 is acknowledged and has been shown; whether the records up to 3"
            in captured.err
        )
        assert "SPU 2 does not answer within 3 seconds" in captured.err


async def test_too_few_replicas_are_waited_for_and_then_named(
    autojump_clock: object, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with record_commands() as commands:
        too_few = TooFewStoresError("orders/0: too few of its replicas answer")
        _replicas_say(monkeypatch, too_few, QuorumFetched(0, 1, 1, _batch_at(0, b"a"), 1, ()))
        assert await _values(commands, capsys, "--quorum") == "a"
        _replicas_say(monkeypatch, too_few)
        assert await commands.consume("orders", "--quorum") == 1
        assert "orders/0: too few of its replicas answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--uncommitted"], "--quorum and --uncommitted cannot be used together"),
        (["--from", "end", "--follow"], "--from must be beginning or an offset"),
        (["--from", "90m"], "--from must be beginning or an offset"),
    ],
)
async def test_what_only_a_leader_knows_is_not_asked_of_a_quorum(
    autojump_clock: object, capsys: Capture, words: list[str], sentence: str
) -> None:
    async with record_commands() as commands:
        assert await commands.consume("orders", "--quorum", *words) != 0
        assert sentence in capsys.readouterr().err
