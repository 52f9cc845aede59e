import pytest
from record_commands import record_commands
from spus import ADDRESS

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.records.consuming.topic_choice import TopicChoice
from tailrace.client.log_client import LogClient
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["orders.new"], ["orders.new/0"]),
        (["orders*"], ["orders/0", "orders/1", "orders.new/0"]),
        (["orders.*"], ["orders.new/0"]),
        (["*s"], ["orders/0", "orders/1"]),
        (["__offset*"], ["__offsets/0"]),
        (["orders:1", "*new", "orders:1"], ["orders/1", "orders.new/0"]),
        (["orders/1", "orders"], ["orders/0", "orders/1"]),
        (["orders", "orders/1"], ["orders/0", "orders/1"]),
        (["nothing*"], []),
    ],
)
async def test_names_and_patterns_choose_partitions(
    autojump_clock: object, texts: list[str], expected: list[str]
) -> None:
    async with record_commands(partitions=2) as commands:
        await commands.running.create("orders.new", 1)
        await commands.running.create("__offsets", 1)
        spus = SpuClient(commands.running.world.network, [ADDRESS], BOOTSTRAP)
        chosen = await TopicChoice(texts).partitions(LogClient(spus))
        assert [str(each) for each in chosen] == expected
        spus.close()


@pytest.mark.parametrize(
    ("text", "why"), [("payments", "there is no topic payments"), ("orders:0,2,3", "there is no partition orders/2")]
)
async def test_what_is_named_must_exist(autojump_clock: object, text: str, why: str) -> None:
    async with record_commands(partitions=2) as commands:
        spus = SpuClient(commands.running.world.network, [ADDRESS], BOOTSTRAP)
        with pytest.raises(RefusedError, match=why):
            await TopicChoice(["orders*", text]).partitions(LogClient(spus))
        spus.close()


def test_a_pattern_has_no_partitions() -> None:
    with pytest.raises(UsageError, match="a pattern stands for all partitions of its topics"):
        TopicChoice(["orders*:0"])
    assert TopicChoice(["orders:0", "a"]).names_partitions
    assert not TopicChoice(["orders"]).names_partitions
    assert TopicChoice(["a*", "b?"]).no_match() == "no topic matches a* or b?"
    assert TopicChoice(["orders", "o*"]).is_only_matched("orders.new")
    assert not TopicChoice(["orders", "o*"]).is_only_matched("orders")
