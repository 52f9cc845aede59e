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

from tailrace.cli.main import parse
from tailrace.cli.records.consuming.consume_command import commands
from tailrace.client.log_client import EARLIEST
from tailrace.protocol.apis import ApiKey
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


async def test_several_topics_and_patterns_are_read(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands(partitions=2) as commands:
        for topic in ("orders.a", "orders.b", "payments"):
            await commands.running.create(topic, 1)
            assert await commands.produce(f"{topic}\n", topic) == 0
        capsys.readouterr()
        assert await commands.consume("orders.*", "payments", "--format", "%t %p %s\\n") == 0
        assert sorted(capsys.readouterr().out.splitlines()) == [
            f"{topic} 0 {topic}" for topic in ("orders.a", "orders.b", "payments")
        ]
        assert await commands.consume("x*", "y?") == 1
        assert capsys.readouterr().err == "tailrace consume: no topic matches x* or y?\n"


async def test_new_topics_of_a_pattern_are_followed(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commands.consume, "new*", "--values", "--follow", "--from", "end", "--count", "2")
            await trio.sleep(1)
            for topic in ("new-1", "new-2"):
                await commands.running.create(topic, 1)
                assert await commands.produce(f"{topic}\n", topic) == 0
        captured = capsys.readouterr()
        assert sorted(line for line in captured.out.splitlines() if " " not in line) == ["new-1", "new-2"]
        assert captured.err == "tailrace consume: no topic matches new* yet\n"


async def test_records_are_chosen_by_key_and_header(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        for number in range(6):
            words = ("--key-separator", ":", "--header", f"parity={number % 2}")
            assert await commands.produce(f"key-{number % 3}:{number}\n", "orders", *words) == 0
        capsys.readouterr()
        assert await _values(commands, capsys, "--key", "key-1") == "14"
        assert await _values(commands, capsys, "--key", "key-[12]", "--header", "parity=1") == "15"
        assert await _values(commands, capsys, "--header", "parity=*", "--count", "2") == "01"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--to", "2"], "01"),
        (["--from", "1", "--to", "3"], "12"),
        (["--from", "2023-11-14T22:13:21Z", "--to", "2023-11-14T22:13:23Z"], "12"),
        (["--to", "2s"], "012"),
        (["--to", "99"], "01234"),
        (["--from", "3", "--to", "2"], ""),
        (["--tail", "2"], "34"),
    ],
)
async def test_it_ends_where_it_is_told_to(
    autojump_clock: object, capsys: Capture, words: list[str], expected: str
) -> None:
    async with record_commands() as commands:
        await _filled(commands, capsys)
        assert await _values(commands, capsys, *words) == expected


async def test_new_records_follow_the_last_ones(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        await _filled(commands, capsys)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commands.consume, "orders", "--values", "--tail", "1", "--follow")
            await trio.sleep(1)
            assert await commands.produce("new\n", "orders") == 0
            await trio.sleep(1)
            os.kill(os.getpid(), signal.SIGINT)
        assert [line for line in capsys.readouterr().out.splitlines() if line in ("3", "4", "new")] == ["4", "new"]
