import json

import pytest
from record_commands import record_commands
from spus import ADDRESS
from transaction_clients import TransactionalProducer, find_coordinator
from trio.testing import wait_all_tasks_blocked

from tailrace.cli.records.consuming.consume_progress import Consuming
from tailrace.cli.records.consuming.leader_reading import LeaderReading, enter, taken
from tailrace.client.log_client import Fetched, LogClient
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.protocol.batches.records import Record, build_batch

HERE, GONE = Partition("orders", 0), Partition("gone", 0)


async def test_partitions_of_a_deleted_topic_are_left_out_if_it_may_vanish(
    autojump_clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    async with record_commands() as commands:
        await commands.produce("a\n", "orders")
        capsys.readouterr()
        spus = SpuClient(commands.running.world.network, [ADDRESS], BOOTSTRAP)
        reader = Consuming({HERE: 0, GONE: 0}, None)
        with pytest.raises(RefusedError, match="gone/0: there is no such partition"):
            await LeaderReading(LogClient(spus), reader).next()
        ((partition, records),) = await LeaderReading(LogClient(spus), reader, "gone".__eq__).next()
        assert (partition, [each.record.value for each in records]) == (HERE, [b"a"])
        assert reader.positions == {HERE: 1}
        assert capsys.readouterr().err == "tailrace consume: gone/0 was deleted\n"
        spus.close()


def test_a_position_outside_a_log_moves_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    reader = Consuming({HERE: 1}, None)
    enter(reader, {HERE: LogEnds(3, 5)})
    assert reader.positions == {HERE: 3}
    assert capsys.readouterr().err == "tailrace consume: orders/0 begins at offset 3\n"


def test_a_corrupt_batch_names_its_partition() -> None:
    batch = build_batch([Record(0, 0, None, b"v")])
    batch[-1] ^= 1
    with pytest.raises(RefusedError, match="orders/0: the batch at offset 0 is corrupt"):
        taken(Consuming({HERE: 0}, None), HERE, Fetched(bytes(batch), 1))


async def test_records_are_marked_with_the_ends_of_their_transactions(
    autojump_clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """The open transaction of one producer is before transactions that others have ended."""
    async with record_commands() as commands:
        client = await commands.running.client()
        await find_coordinator(client, "first")
        await wait_all_tasks_blocked()
        first, second = TransactionalProducer(client, "first"), TransactionalProducer(client, "second")
        for producer in (first, second):
            await producer.init()
        await _write(second, b"a", commit=True)
        await _write(second, b"b", commit=False)
        await commands.produce("plain\n", "orders")
        await _write(first, b"c")
        await _write(second, b"d", commit=True)
        await _write(second, b"e", commit=False)
        capsys.readouterr()

        async def values(*words: str) -> list[object]:
            assert await commands.consume("orders", "--output", "json", *words) == 0
            lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            return [(each["value"], each.get("transaction", "-")) for each in lines]

        marked = [("a", "committed"), ("b", "aborted"), ("plain", None)]
        behind = [("c", "open"), ("d", "committed"), ("e", "aborted")]
        assert await values("--transactions") == marked + behind
        assert await values("--transactions", "--from", "6") == behind[1:]
        assert await values("--transactions", "--tail", "2") == behind[1:]
        assert [value for value, _ in await values("--isolation", "read_committed")] == ["a", "plain"]
        assert [value for value, _ in await values("--isolation", "read_committed", "--tail", "1")] == ["plain"]
        grouped = await values("--isolation", "read_committed", "--group", "billing")
        assert [value for value, _ in grouped] == ["a", "plain"]
        assert [value for value, _ in await values()] == ["a", "b", "plain", "c", "d", "e"]
        assert await commands.consume("orders", "--transactions", "--tail", "3") == 0
        ends = [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines()]
        assert ends == ["transaction=open", "transaction=committed", "transaction=aborted"]
        await first.end(commit=True)
        assert [value for value, _ in await values("--isolation", "read_committed")] == ["a", "plain", "c", "d"]


async def _write(producer: TransactionalProducer, value: bytes, *, commit: bool | None = None) -> None:
    assert await producer.add("orders", 0) == [0]
    assert await producer.produce("orders", 0, value) == 0
    if commit is not None:
        assert (await producer.end(commit=commit)).error_code == 0
