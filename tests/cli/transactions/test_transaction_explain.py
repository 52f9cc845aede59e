"""Tests `tailrace transaction explain` on a whole SPU, and in states that a broker shows only briefly."""

import json

import pytest
from transacting_spu import transacting_spu

from tailrace.cli.transactions.transaction_explain import Explanation, explanation_text, sentences
from tailrace.client.log_facts import Partition
from tailrace.client.transaction_facts import StableEnd

Capture = pytest.CaptureFixture[str]


async def test_the_holder_of_the_last_stable_offset_is_named(autojump_clock: object, capsys: Capture) -> None:
    async with transacting_spu() as spu:
        await spu.producer.add("t", 0)
        await spu.producer.produce("t", 0, b"a", b"b")
        spu.clock.time_ms += 18_000
        assert await spu.tailrace("explain", "t") == 0
        assert capsys.readouterr().out == (
            "TOPIC  PARTITION  LAST STABLE  END  OPEN          PRODUCER  EPOCH  FROM  LAST RECORD\n"
            "t              0            0    2  id    1700000000000000      0     0  2023-11-14T22:13:20.001Z\n\n"
            "id (producer 1700000000000000, epoch 0, client test at 192.0.2.1) began a transaction at "
            "2023-11-14T22:13:20.000Z, 18 s ago. It holds the last stable offset of t/0. It times out at "
            "2023-11-14T22:14:20.000Z, in 42 s, and is aborted then, unless its producer ends it before.\n"
            "No transaction holds back readers of t/1.\n"
        )
        assert await spu.tailrace("explain", "t/1") == 0
        assert capsys.readouterr().out == "No transaction holds back readers of t/1.\n"
        assert await spu.tailrace("explain", "id", "--output", "json") == 0
        document = json.loads(capsys.readouterr().out)
        (partition,) = document["partitions"]
        assert (partition["lastStableOffset"], partition["highWatermark"]) == (0, 2)
        assert [(each["transactionalId"], each["isHanging"]) for each in partition["open"]] == [("id", False)]
        assert [each["clientId"] for each in document["transactions"]] == ["test"]
        await spu.producer.end(commit=True)
        assert await spu.tailrace("explain", "id") == 0
        assert capsys.readouterr().out.endswith("It has no open transaction. Its last one was committed.\n")


async def test_a_transaction_that_no_coordinator_knows_hangs(autojump_clock: object, capsys: Capture) -> None:
    async with transacting_spu() as spu:
        await spu.producer.add("t", 0)
        await spu.producer.produce("t", 0, b"a")
        await spu.make_hang()
        assert await spu.tailrace("explain", "t:0") == 0
        assert capsys.readouterr().out.endswith(
            "\n\nProducer 1700000000000000, epoch 0, has an open transaction in t/0 from offset 0 on, and holds the "
            "last stable offset there; it last wrote there at 2023-11-14T22:13:20.000Z. It hangs: no coordinator knows "
            "its producer, so nothing will end it. Abort it with `tailrace transaction abort t/0 --start-offset 0`.\n"
        )


async def test_a_name_that_means_nothing(autojump_clock: object, capsys: Capture) -> None:
    async with transacting_spu() as spu:
        for words, said in (
            (("nope",), "there is neither a topic nor a transactional id nope"),
            (("nope/0",), "there is neither a topic nor a transactional id nope/0"),
            (("a:b:c",), "there is neither a topic nor a transactional id a:b:c"),
            (("t", "--id"), "there is no transactional id t"),
            (("t:7",), "there is no partition t/7"),
        ):
            assert await spu.tailrace("explain", *words) == 1
            assert capsys.readouterr().err == f"tailrace transaction explain: {said}\n"


def test_a_marker_that_is_not_committed_holds_readers_back_for_a_moment() -> None:
    ends = {Partition("t", 0): StableEnd(3, 5), Partition("t", 1): StableEnd(4, 4), Partition("t", 2): StableEnd(0, 0)}
    found = Explanation(ends, [], None, {}, 0)
    assert sentences(found) == [
        "A marker was written, but is not committed yet, or was committed just now: t/0.",
        "No transaction holds back readers of 2 partitions.",
    ]
    assert explanation_text(found) == "\n".join(sentences(found))
