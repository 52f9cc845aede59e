"""What a truncation would delete, and how people say where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_commands import record_commands
from spus import ADDRESS

from tailrace.cli.administration.offset_commands import COMMANDS, planned
from tailrace.cli.main import parse
from tailrace.client.log_facts import LogEnds, Partition

PARTITION = Partition("orders", 0)
Capture = pytest.CaptureFixture[str]


@given(st.integers(0, 50), st.integers(0, 50), st.integers(-1, 120))
def test_a_cut_lies_within_the_log(start: int, length: int, wanted: int) -> None:
    cut = planned(PARTITION, LogEnds(start, start + length), wanted)
    assert start <= cut.before <= start + length
    assert cut.offsets == cut.before - start
    assert wanted < 0 or cut.before == wanted or not start <= wanted <= start + length


async def test_records_go_only_with_execute(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        await commands.produce("a\nb\nc\n", "orders")
        network = commands.running.world.network

        async def run(name: str, *words: str) -> int:
            bootstrap = ("--bootstrap", str(ADDRESS))
            return await COMMANDS[name].execute(parse(["topic", name, "orders", *words, *bootstrap]), network)

        capsys.readouterr()
        assert await run("truncate", "--before", "2") == 0
        assert capsys.readouterr().out == (
            "TOPIC   PARTITION  START  NEW START  END  DELETES\n"
            "orders          0      0          2    3        2\n"
            "Nothing was deleted: add --execute to do it.\n"
        )
        assert await run("truncate", "--before", "2", "--execute") == 0
        capsys.readouterr()
        assert await run("offsets") == 0
        assert capsys.readouterr().out == "TOPIC   PARTITION  START  END\norders          0      2    3\n"
        assert await run("truncate", "--before", "soon") == 2
        assert "'soon' is no offset, no time, no age such as 90m, and not `end`" in capsys.readouterr().err
