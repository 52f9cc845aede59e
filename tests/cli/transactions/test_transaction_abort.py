"""Tests `tailrace transaction abort` on a whole SPU."""

import json

import pytest
from transacting_spu import transacting_spu
from transaction_clients import ends_of

from tailrace.protocol.error_codes import ErrorCode

Capture = pytest.CaptureFixture[str]
WHO = "producer 1700000000000000, epoch 0, client test at 192.0.2.1"


async def test_an_ongoing_transaction_is_aborted_only_if_its_producer_may_be_fenced(
    autojump_clock: object, capsys: Capture
) -> None:
    async with transacting_spu() as spu:
        await spu.producer.add("t", 0, 1)
        await spu.producer.produce("t", 1, b"a")
        for words in (("id",), ("t/1", "--start-offset", "0")):
            assert await spu.tailrace("abort", *words) == 1
            assert capsys.readouterr().err == (
                f"tailrace transaction abort: the transaction of id is ongoing ({WHO}), and its producer may still "
                "commit it: stop the producer, or add --force to fence it and abort the transaction\n"
            )
        assert await spu.tailrace("abort", "id", "--dry-run") == 0
        assert capsys.readouterr().out == (
            f"Would abort the ongoing transaction of id in t/0, t/1, and fence its producer ({WHO}). "
            "Nothing was changed: give --force instead of --dry-run to do it.\n"
        )
        assert ends_of(spu.running.replica("t", 1)) == []
        assert await spu.tailrace("abort", "id", "--force") == 0
        assert (
            capsys.readouterr().out == f"Aborted the transaction of id in t/0, t/1. Its producer ({WHO}) is fenced.\n"
        )
        assert ends_of(spu.running.replica("t", 1)) == [False]
        assert (await spu.producer.end(commit=True)).error_code == ErrorCode.PRODUCER_FENCED
        assert (await spu.producer.describe()).transaction_timeout_ms == 60_000
        assert await spu.tailrace("abort", "id", "--force") == 1
        assert "id has no open transaction (its state is " in capsys.readouterr().err


async def test_a_hanging_transaction_gets_an_abort_marker(autojump_clock: object, capsys: Capture) -> None:
    async with transacting_spu() as spu:
        await spu.producer.add("t", 0)
        await spu.producer.produce("t", 0, b"a", b"b")
        await spu.make_hang()
        what = "the hanging transaction of producer 1700000000000000, epoch 0, in t/0 from offset 0 on"
        assert await spu.tailrace("abort", "t/0", "--start-offset", "0", "--dry-run") == 0
        assert capsys.readouterr().out == (
            f"Would write an abort marker for {what}. Nothing was changed: leave out --dry-run to do it.\n"
        )
        assert ends_of(spu.running.replica("t", 0)) == []
        assert await spu.tailrace("abort", "t/0", "--start-offset", "0", "--output", "json") == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["partitions"], document["wasHanging"], document["executed"]) == (["t/0"], True, True)
        replica = spu.running.replica("t", 0)
        assert ends_of(replica) == [False]
        assert replica.last_stable_offset == 3
        assert await spu.tailrace("abort", "t/0", "--start-offset", "0") == 1
        assert capsys.readouterr().err == (
            "tailrace transaction abort: no open transaction begins at offset 0: none is open in t/0\n"
        )


async def test_a_start_offset_belongs_to_one_partition(autojump_clock: object, capsys: Capture) -> None:
    async with transacting_spu() as spu:
        await spu.producer.add("t", 0)
        await spu.producer.produce("t", 0, b"a")
        assert await spu.tailrace("abort", "t/0", "--start-offset", "7") == 1
        assert "begins at offset 7: those in t/0 begin at 0\n" in capsys.readouterr().err
        for name in ("t", "t:0,1"):
            assert await spu.tailrace("abort", name, "--start-offset", "0") == 2
            assert f"{name}: with --start-offset, expected one partition such as orders/0" in capsys.readouterr().err
        assert await spu.tailrace("abort", "nobody") == 1
        assert capsys.readouterr().err == "tailrace transaction abort: there is no transactional id nobody\n"
