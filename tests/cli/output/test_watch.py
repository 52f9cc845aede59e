import argparse
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest
import trio
import yaml
from msgspec import Struct, field
from simulation.network import MemoryNetwork
from spus import SteadyClock
from trio.testing import MockClock

from tailrace.cli.main import parse
from tailrace.cli.options.sc_options import Command, no_options, show_documents
from tailrace.cli.output.watch import Seen, watch_seconds
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError

Capture: TypeAlias = pytest.CaptureFixture[str]
TIME = "2023-11-14T22:13:20.000Z"


class World(Struct):
    """Scripts the outputs of a watched command, one for each look; an error is raised."""

    sights: list[str | Exception]
    statuses: list[int] = field(default_factory=list)

    async def ask(self, client: ScClient, arguments: argparse.Namespace) -> None:
        sight = self.sights.pop(0) if len(self.sights) > 1 else self.sights[0]
        if isinstance(sight, Exception):
            raise sight
        show_documents(arguments, [{"sight": sight}], lambda: f"SIGHT\n{sight}")

    async def watch(self, *words: str) -> None:
        command = Command("sight list", no_options, self.ask, is_watchable=True, wall_clock=SteadyClock())
        parser = argparse.ArgumentParser()
        command.configure(parser)
        self.statuses.append(await command.execute(parser.parse_args(["--watch", *words]), MemoryNetwork()))


@asynccontextmanager
async def _watched(*sights: str | Exception, words: tuple[str, ...] = ()) -> AsyncIterator[None]:
    """Watches until all outputs were shown, and then presses Ctrl-C."""
    world = World(list(sights))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.watch, *words)
        await trio.sleep(2 * len(sights))
        os.kill(os.getpid(), signal.SIGINT)
    assert world.statuses == [0]
    yield


async def test_what_changes_is_shown_again_until_somebody_stops_it(autojump_clock: MockClock, capsys: Capture) -> None:
    async with _watched("one", "one", "two", "two", "one"):
        shown = [f"{TIME}\nSIGHT\n{sight}\n" for sight in ("one", "two", "one")]
        assert capsys.readouterr() == ("\n".join(shown), "")


async def test_programs_read_one_document_after_the_other(autojump_clock: MockClock, capsys: Capture) -> None:
    expected = [[{"sight": "one"}], [{"sight": "two"}]]
    async with _watched("one", "two", words=("--output", "json")):
        assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == expected
    async with _watched("one", "two", words=("--output", "yaml")):
        assert list(yaml.safe_load_all(capsys.readouterr().out)) == expected


async def test_what_cannot_be_seen_for_a_while_is_said_once(autojump_clock: MockClock, capsys: Capture) -> None:
    away = UnreachableError("the SC is away")
    async with _watched("one", away, away, RefusedError("not now"), "one"):
        captured = capsys.readouterr()
        assert captured.err == "tailrace sight list: the SC is away\ntailrace sight list: not now\n"
        assert captured.out.count("one") == 2


async def test_what_cannot_be_seen_at_all_is_not_watched(autojump_clock: MockClock, capsys: Capture) -> None:
    world = World([UnreachableError("the SC is away"), "one"])
    await world.watch()
    assert world.statuses == [3]
    assert capsys.readouterr() == ("", "tailrace sight list: the SC is away\n")


async def test_it_is_looked_as_often_as_somebody_wants(autojump_clock: MockClock, capsys: Capture) -> None:
    world = World([str(number) for number in range(100)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.watch, "10")
        await trio.sleep(35)
        os.kill(os.getpid(), signal.SIGINT)
    assert capsys.readouterr().out.count("SIGHT") == 4


@pytest.mark.parametrize(
    "words",
    [
        ["spu", "list"],
        ["spu", "describe", "1"],
        ["spu-group", "list"],
        ["topic", "list"],
        ["topic", "describe", "orders"],
        ["partition", "list"],
        ["partition", "describe", "orders"],
        ["replica", "list"],
        ["segment", "list", "orders"],
        ["connection", "list"],
        ["controller", "list"],
        ["group", "list"],
        ["group", "describe", "g"],
        ["group", "explain", "g"],
        ["show", "partitions"],
    ],
)
def test_whatever_can_be_looked_at_can_be_watched(words: list[str]) -> None:
    assert parse([*words, "--watch"]).watch == 1
    assert parse([*words, "--watch", "0.5"]).watch == 0.5
    assert parse(words).watch is None


@pytest.mark.parametrize("text", ["0", "-1", "x", "nan", "inf", "3601"])
def test_seconds_between_two_looks_have_bounds(text: str) -> None:
    with pytest.raises(
        argparse.ArgumentTypeError, match=r"is not a number of seconds from 0\.1 to 3600; write names before"
    ):
        watch_seconds(text)


def test_only_the_last_thing_counts() -> None:
    seen = Seen(SteadyClock())
    assert [seen.is_news(text) for text in ("a", "a", "b", "a")] == [True, False, True, True]
