"""Runs `tailrace trigger dead-letters` against a whole SPU in memory."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
import trio
from msgspec import Struct
from record_commands import RecordCommands, record_commands
from spus import ADDRESS

from tailrace.cli.main import parse
from tailrace.cli.triggers import dead_letter_commands, letter_replay
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition, fetched_batches
from tailrace.client.record_producer import RecordProducer
from tailrace.client.server_connection import answered
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.protocol.batches.records import Record
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.dead_letters.dead_letter import Origin, dead_letter, without_value
from tailrace.trigger.work import Failure, FailureKind, Output, Shard

Capture = pytest.CaptureFixture[str]

DEAD = "orders.dead"
TRACEBACK = "Traceback (most recent call last):\n  File \"billing.py\", line 3, in bill\nKeyError: 'amount'"


class _World(Struct):
    commands: RecordCommands
    producer: RecordProducer
    client: LogClient

    async def letters(self, *words: str) -> int:
        """Runs `tailrace trigger dead-letters`; returns the exit status."""
        running = self.commands.running.world
        found = dead_letter_commands.commands(running.clock, RandomChance(0))[words[0]]
        arguments = parse(["trigger", "dead-letters", *words, "--bootstrap", str(ADDRESS)])
        return await found.execute(arguments, running.network)

    async def records(self, topic: str, number: int = 0) -> list[Record]:
        partition = Partition(topic, number)
        fetched = answered(await self.client.fetch({partition: 0}))[partition].records
        return [record for _, records in fetched_batches(fetched) for record in records]


@asynccontextmanager
async def _world(letters: Iterable[Output] = (), partitions: int = 1) -> AsyncIterator[_World]:
    async with record_commands(partitions) as commands:
        running = commands.running
        await running.create(DEAD, 1)
        spus = SpuClient(running.world.network, [ADDRESS], BOOTSTRAP)
        producer = RecordProducer(spus, running.world.clock, RandomChance(0))
        async with trio.open_nursery() as nursery:
            await nursery.start(producer.run)
            await producer.send(letters)
            yield _World(commands, producer, LogClient(spus))
            nursery.cancel_scope.cancel()
        spus.close()


def _letter(
    offset: int, error: str = "KeyError", message: str = "'amount'", topic: str = "orders", number: int = 0
) -> Output:
    origin = Origin(Shard(topic, number), offset, 1_600_000_000_000 + offset, "billing")
    record = Record(offset, origin.timestamp_ms, b"key", b"value-%d" % offset, [("own", b"1")])
    failure = Failure(FailureKind.RAISED, offset, offset + 1, error, message, TRACEBACK, "billing.py:3 in bill")
    return dead_letter(DEAD, origin, record, failure, 5)


def _unreadable() -> Output:
    failure = Failure(FailureKind.UNREADABLE, 9, 10, "CorruptMessage", "a record is truncated")
    return dead_letter(DEAD, Origin(Shard("orders", 0), 9, -1, "billing"), None, failure, 1, b"batch")


async def test_letters_are_listed_with_their_errors(autojump_clock: object, capsys: Capture) -> None:
    async with _world([_letter(3), _letter(4, "ValueError", "no\nnumber")]) as world:
        world.commands.running.world.clock.time_ms += 90_000
        assert await world.letters("list", DEAD) == 0
        assert capsys.readouterr().out == (
            "LETTER  RECORD      ATTEMPTS  ERROR               WHERE                 AGE  REPLAYED\n"
            "0/0     orders/0/3         5  KeyError: 'amount'  billing.py:3 in bill  2 m  no\n"
            "0/1     orders/0/4         5  ValueError: no      billing.py:3 in bill  2 m  no\n"
        )
        assert await world.letters("list", DEAD, "--output", "json", "--limit", "1") == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert document == {
            "letter": "0/1",
            "time": "2023-11-14T22:13:20.000Z",
            "record": {"topic": "orders", "partition": 0, "offset": 4, "time": "2020-09-13T12:26:40.004Z"},
            "group": "billing",
            "attempts": 5,
            "kind": "raised",
            "error": "ValueError",
            "message": "no\nnumber",
            "position": "billing.py:3 in bill",
            "replayed": False,
        }


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (("--error", "KeyError"), ["0/0", "0/2"]),
        (("--error", "KeyError: *am*"), ["0/0"]),
        (("--error", "*Error"), ["0/0", "0/1", "0/2"]),
        (("--error", "Key"), []),
        (("--since", "1m"), []),
        (("--since", "3m"), ["0/0", "0/1", "0/2"]),
        (("--until", "1m", "--limit", "2"), ["0/1", "0/2"]),
        (("--until", "2023-11-14T22:13:20Z"), []),
    ],
)
async def test_letters_are_selected(
    autojump_clock: object, capsys: Capture, words: tuple[str, ...], places: list[str]
) -> None:
    async with _world([_letter(3), _letter(4, "ValueError"), _letter(5, message="'other'")]) as world:
        world.commands.running.world.clock.time_ms += 120_000
        assert await world.letters("list", DEAD, "--output", "json", *words) == 0
        assert [each["letter"] for each in json.loads(capsys.readouterr().out)] == places


async def test_one_letter_is_shown_whole(autojump_clock: object, capsys: Capture) -> None:
    async with _world([_letter(3), without_value(_letter(4))]) as world:
        assert await world.letters("show", DEAD, "0/0") == 0
        shown = capsys.readouterr().out
        assert shown == (
            "Letter:     orders.dead/0/0\n"
            "Written:    2023-11-14T22:13:20.000Z\n"
            "Record:     orders/0/3\n"
            "Produced:   2020-09-13T12:26:40.003Z\n"
            "Group:      billing\n"
            "Attempts:   5\n"
            "Kind:       raised\n"
            "Error:      KeyError: 'amount'\n"
            "Where:      billing.py:3 in bill\n"
            "Replayed:   no\n"
            'Key:        "key"\n'
            'Header own: "1"\n'
            "Value:\n"
            "  value-3\n"
            "Traceback:\n"
            "  Traceback (most recent call last):\n"
            '    File "billing.py", line 3, in bill\n'
            "  KeyError: 'amount'\n"
        )
        assert await world.letters("show", DEAD, "0/0", "--output", "json") == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["value"], document["traceback"]) == ("value-3", TRACEBACK)
        assert document["headers"] == [{"name": "own", "value": "1"}]
        assert await world.letters("show", DEAD, "0/1") == 0
        assert "left out, because the letter would have been too large: 7 bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("show", DEAD, "0/2"), 1, "there is no dead letter orders.dead/0/2; the log has the offsets 0 to 0"),
        (("show", "orders", "0/2"), 1, "there is no dead letter orders/0/2; the log is empty"),
        (("show", DEAD, "4/2"), 1, "there is no partition orders.dead/4"),
        (("show", DEAD, "2"), 2, "2: expected PARTITION/OFFSET or PARTITION/FIRST-LAST, such as 0/17 or 0/17-20"),
        (("show", DEAD, "0/2-3"), 2, "0/2-3: expected one letter, such as 0/17"),
        (("replay", DEAD, "--letters", "0/3-2"), 2, "0/3-2: the last offset is before the first one"),
        (("replay", DEAD, "--to", DEAD), 2, "--to orders.dead: it is the topic of the dead letters itself"),
        (("replay", DEAD, "--to", "nope"), 1, "nope: there is no topic nope"),
        (
            ("list", "nope"),
            1,
            "there is no topic nope; a topic of dead letters is created with the first letter",
        ),
    ],
)
async def test_what_is_refused(
    autojump_clock: object, capsys: Capture, words: tuple[str, ...], status: int, message: str
) -> None:
    async with _world([_letter(3)]) as world:
        assert await world.letters(*words) == status
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", f"tailrace trigger dead-letters {words[0]}: {message}\n")


async def test_an_empty_topic_has_no_letters(autojump_clock: object, capsys: Capture) -> None:
    async with _world() as world:
        assert await world.letters("list", DEAD) == 0
        assert await world.letters("replay", DEAD) == 0
        captured = capsys.readouterr()
        assert captured.out == "There are no such dead letters.\nThere is nothing to replay.\n"


async def test_a_replay_sends_each_original_record_once(autojump_clock: object, capsys: Capture) -> None:
    async with _world([_letter(3, number=1), _letter(4, number=1)], partitions=2) as world:
        assert await world.letters("replay", DEAD, "--dry-run") == 0
        assert capsys.readouterr().out == "TOPIC   WOULD BE REPLAYED\norders                  2\n"
        for table in ("TOPIC   REPLAYED\norders         2\n", "There is nothing to replay.\n"):
            assert await world.letters("replay", DEAD) == 0
            assert capsys.readouterr().out == table
        records = await world.records("orders", 1)
        assert [(each.key, each.value) for each in records] == [(b"key", b"value-3"), (b"key", b"value-4")]
        assert records[0].headers == [("own", b"1"), ("__dlq.replayed", b"orders.dead/0/0")]
        assert await world.letters("list", DEAD, "--output", "json") == 0
        assert [each["replayed"] for each in json.loads(capsys.readouterr().out)] == [True, True]
        await world.producer.send([_letter(5, number=1)])
        assert await world.letters("replay", DEAD) == 0
        assert await world.letters("replay", DEAD, "--again", "--letters", "0/1", "--to", "orders") == 0
        records = [*await world.records("orders", 0), *await world.records("orders", 1)]
        assert sorted(each.value or b"" for each in records) == [b"value-3", b"value-4", b"value-4", b"value-5"]


async def test_what_was_not_selected_is_replayed_later(autojump_clock: object, capsys: Capture) -> None:
    letters = [_letter(number, "KeyError" if number % 2 else "ValueError") for number in range(6)]
    async with _world(letters) as world:
        assert await world.letters("replay", DEAD, "--error", "KeyError") == 0
        assert await world.letters("replay", DEAD, "--letters", "0/4,0/1-2") == 0
        assert "1 selected letter was replayed before; --again replays letters again" in capsys.readouterr().err
        assert await world.letters("replay", DEAD) == 0
        values = [each.value for each in await world.records("orders")]
        assert values == [b"value-%d" % number for number in (1, 3, 5, 2, 4, 0)]


async def test_a_replay_that_was_interrupted_goes_on_where_it_stopped(
    autojump_clock: object, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_replay, "PORTION_LETTERS", 3)
    letters = [*(_letter(number) for number in range(4)), _letter(4, topic="later"), _letter(5)]
    async with _world(letters) as world:
        assert await world.letters("replay", DEAD) == 1
        error = capsys.readouterr().err
        assert "letter 0/4 cannot be replayed: there is no topic later" in error
        assert error.endswith("; 3 letters were replayed before\n")
        await world.commands.running.create("later")
        assert await world.letters("replay", DEAD) == 0
        capsys.readouterr()
        values = [each.value for each in await world.records("orders")]
        portion, rest = [b"value-0", b"value-1", b"value-2"], [b"value-3", b"value-5"]
        assert values[:3] == portion and values[-2:] == rest
        # What is in a portion with the refused letter may have been sent before the refusal, and is sent again.
        assert values[3:-2] in ([], rest[:1], rest)
        assert len(await world.records("later")) == 1


async def test_what_has_no_original_record_is_named_and_not_replayed(autojump_clock: object, capsys: Capture) -> None:
    async with _world([_unreadable(), Output(DEAD, None, b"no letter"), without_value(_letter(4))]) as world:
        assert await world.letters("replay", DEAD) == 0
        captured = capsys.readouterr()
        assert captured.out == "There is nothing to replay.\n"
        assert captured.err == (
            "tailrace trigger dead-letters replay: not replayed, because the original record is missing or cannot be "
            "decoded: 0/0, 0/2; `tailrace trigger dead-letters show orders.dead 0/0` says more\n"
            "tailrace trigger dead-letters replay: 1 record of orders.dead is no dead letter\n"
        )
