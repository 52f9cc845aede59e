"""Tests replicas that store output exactly once, with a real SC and a real SPU on a simulated network and clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from committed_values import committed_records, committed_values
from grouped_spu import GroupedSpu, grouped_spu
from spus import ADDRESS
from structlog.testing import capture_logs
from trigger_replicas import Handled, InProcessWorkers, ReplicaWorld, until

from tailrace.client.group_client import GroupClient
from tailrace.client.group_facts import Progress
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transactions.transactional_producer import TransactionalProducer
from tailrace.cluster.stream_state.replica_report import ShardState
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.config.trigger_config import Guarantee, OnExhausted, Retry
from tailrace.trigger.dead_letters.dead_letter import read_letter
from tailrace.trigger.replica.transactional_output import transactional_id
from tailrace.trigger.work import Chunk, Failure, FailureKind, Outcome, Output, Shard

EXACTLY_ONCE = Guarantee.EXACTLY_ONCE
COMMIT_SECONDS = 1.0


@asynccontextmanager
async def _orders(shards: int = 1) -> AsyncIterator[tuple[GroupedSpu, ReplicaWorld]]:
    """Yields an SPU with the topics `orders` and `out`, and a world for replicas."""
    async with grouped_spu() as spu, trio.open_nursery() as nursery:
        await spu.running.create("orders", shards)
        await spu.running.create("out", 1)
        yield spu, ReplicaWorld(nursery, spu.network, clock=spu.clock)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _client(spu: GroupedSpu) -> AsyncIterator[SpuClient]:
    spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
    yield spus
    spus.close()


async def _committed(spu: GroupedSpu, shards: int = 1) -> list[int]:
    """Returns the committed offset of each shard."""
    async with _client(spu) as spus:
        found = await GroupClient(spus).committed_in("billing", [Partition("orders", each) for each in range(shards)])
    offsets = []
    for each in found.values():
        assert isinstance(each, Progress) and each.committed is not None
        offsets.append(each.committed)
    return offsets


class _Numbered(Handled):
    """A handler that emits the number of each record and of its shard."""

    async def __call__(self, shard: Shard, record: Record) -> list[Output]:
        await super().__call__(shard, record)
        return [Output("out", None, b"%d/%d" % (shard.number, record.offset), partition=0)]


class _ListWorkers(InProcessWorkers):
    """Workers whose handler gets lists, and reports one of their events as failed until it is repaired."""

    def __init__(self, bad: int, seconds: float = 0.0) -> None:
        super().__init__(Handled())
        self.attempts = 0
        self._seconds = seconds
        self.is_repaired = False
        self._bad = bad

    async def handle(self, chunk: Chunk) -> Outcome:
        await trio.sleep(self._seconds)
        offsets = chunk.offsets or range(chunk.first, chunk.end)
        is_bad = self._bad in offsets and not self.is_repaired
        good = [each for each in offsets if each != self._bad or not is_bad]
        outputs = tuple(Output("out", None, b"0/%d" % each, partition=0) for each in good)
        if not is_bad:
            return Outcome(chunk.end, len(good), outputs)
        self.attempts += 1
        reported = () if not good else (self._bad,)
        failure = Failure(FailureKind.RAISED, offsets[0], chunk.end, "ReportedFailure", failed_offsets=reported)
        return Outcome(offsets[0], len(good), outputs, failure)


def _expected(count: int, shard: int = 0) -> list[bytes]:
    return [b"%d/%d" % (shard, each) for each in range(count)]


async def test_output_and_marks_are_committed_together_at_an_interval(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 10)
        handled = _Numbered()
        replica = await world.start(handled, guarantee=EXACTLY_ONCE, commit_interval=30.0)
        await handled.count(10)
        await trio.sleep(15)
        assert (replica.marks, await committed_values(spu, "out"), await _committed(spu)) == ({0: 10}, [], [0])
        await trio.sleep(15)
        assert (await committed_values(spu, "out"), await _committed(spu)) == (_expected(10), [10])
        commits = replica.metrics.commits
        await trio.sleep(100)
        assert replica.metrics.commits == commits, "nothing has changed"
        await replica.stop()


async def test_a_calm_stop_commits_everything(autojump_clock: object) -> None:
    async with _orders(2) as (spu, world):
        await spu.produce("orders", 0, 5)
        await spu.produce("orders", 1, 5)
        handled = _Numbered()
        replica = await world.start(handled, guarantee=EXACTLY_ONCE, commit_interval=20.0)
        await handled.count(10)
        await replica.stop()
        assert await _committed(spu, 2) == [5, 5]
        assert sorted(await committed_values(spu, "out")) == sorted(_expected(5) + _expected(5, 1))


async def test_what_a_killed_replica_had_sent_is_aborted_and_handled_again(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 10)
        handled = _Numbered()
        first = await world.start(handled, guarantee=EXACTLY_ONCE, commit_interval=20.0)
        await handled.count(10)
        await until(lambda: first.marks == {0: 10})
        await first.kill()
        await spu.produce("orders", 0, 4)
        again = _Numbered()
        second = await world.start(again, guarantee=EXACTLY_ONCE)
        await again.count(14)
        await second.stop()
        assert again.of(0) == list(range(14))
        assert (await committed_values(spu, "out"), await _committed(spu)) == (_expected(14), [14])


async def test_readers_see_each_output_once_whenever_replicas_are_killed(autojump_clock: object) -> None:
    chance = Random(5)
    async with _orders(2) as (spu, world):
        for shard in range(2):
            await spu.produce("orders", shard, 300)
        total = 0
        for number in range(12):
            handled = _Numbered(0.02)
            replica = await world.start(
                handled,
                f"replica{number}",
                guarantee=EXACTLY_ONCE,
                session_timeout=2.0,
                heartbeat_interval=0.5,
                commit_interval=0.2,
            )
            await trio.sleep(2.5 + chance.random())
            await replica.kill()
            total += len(handled.events)
        handled = _Numbered()
        replica = await world.start(handled, guarantee=EXACTLY_ONCE, session_timeout=2.0, heartbeat_interval=0.5)
        await until(lambda: replica.marks == {0: 300, 1: 300})
        await replica.stop()
        assert total + len(handled.events) > 600, "some records were handled twice"
        assert sorted(await committed_values(spu, "out")) == sorted(_expected(300) + _expected(300, 1))


async def test_a_replica_that_another_producer_has_fenced_begins_again_at_its_committed_offset(
    autojump_clock: object,
) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 10)
        handled = _Numbered()
        with capture_logs() as logged:
            replica = await world.start(handled, guarantee=EXACTLY_ONCE, commit_interval=5.0)
            await handled.count(10)
            await until(lambda: replica.marks == {0: 10})
            async with _client(spu) as spus:
                shard = Shard("orders", 0)
                zombie = TransactionalProducer(spus, transactional_id("billing", shard), spu.clock, RandomChance(1))
                await zombie.initialize()
                zombie.close()
            await handled.count(20)
            await trio.sleep(6)
            await replica.stop()
        assert handled.of(0) == [*range(10), *range(10)]
        assert (await committed_values(spu, "out"), await _committed(spu)) == (_expected(10), [10])
        assert replica.metrics.lost_transactions == 1
        (lost,) = [each for each in logged if each["event"] == "transaction_lost"]
        assert (lost["shard"], lost["committed"]) == (0, 0)
        assert "a newer producer" in lost["reason"]


async def test_a_shard_whose_transactions_are_lost_again_and_again_says_so(autojump_clock: object) -> None:
    async with _orders() as (spu, world), _client(spu) as spus:
        handled = _Numbered()
        replica = await world.start(handled, guarantee=EXACTLY_ONCE, commit_interval=5.0)
        zombie = TransactionalProducer(
            spus, transactional_id("billing", Shard("orders", 0)), spu.clock, RandomChance(1)
        )
        await spu.produce("orders", 0, 1)
        for number in range(3):
            await handled.count(number + 1)
            await zombie.initialize()
        zombie.close()
        await handled.count(4)
        (shard,) = replica.replica.report().shards
        assert "its last 3 transactions were lost, so its events are handled again: a newer producer" in shard.error
        await trio.sleep(6)
        assert replica.replica.report().shards[0].error == ""
        assert await committed_values(spu, "out") == _expected(1)


async def test_an_idle_shard_has_no_transaction_so_that_nothing_is_lost_when_it_is_fenced(
    autojump_clock: object,
) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 3)
        handled = _Numbered()
        replica = await world.start(handled, guarantee=EXACTLY_ONCE)
        await handled.count(3)
        await trio.sleep(100)
        await spu.produce("orders", 0, 3)
        await handled.count(6)
        await replica.stop()
        assert (await committed_values(spu, "out"), replica.metrics.lost_transactions) == (_expected(6), 0)


async def test_dead_letters_are_part_of_the_transaction(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 4)
        handled = _Numbered()
        handled.failing = {(0, 2): 99}
        replica = await world.start(handled, guarantee=EXACTLY_ONCE, retry=Retry(attempts=2, backoff=(0.1, 0.1)))
        await handled.count(3)
        await replica.stop()
        letters = await committed_records(spu, "orders.billing.dead")
        assert [read_letter(each).origin.offset for each in letters] == [2]
        assert (await committed_values(spu, "out"), await _committed(spu)) == ([b"0/0", b"0/1", b"0/3"], [4])


async def test_a_shard_that_stops_commits_what_came_before(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 4)
        handled = _Numbered()
        handled.failing = {(0, 2): 99}
        replica = await world.start(
            handled, guarantee=EXACTLY_ONCE, retry=Retry(attempts=1), on_exhausted=OnExhausted.STOP
        )
        await until(lambda: bool(replica.marks) and replica.replica.report().shards[0].state is ShardState.STOPPED)
        await trio.sleep(2)
        assert (await committed_values(spu, "out"), await _committed(spu)) == ([b"0/0", b"0/1"], [2])


async def test_a_refused_output_stops_the_shard_and_readers_see_nothing_of_its_transaction(
    autojump_clock: object,
) -> None:
    class TooLarge(_Numbered):
        async def __call__(self, shard: Shard, record: Record) -> list[Output]:
            outputs = await super().__call__(shard, record)
            return [*outputs, Output("out", None, b"x" * (1 << 21), partition=0)] if record.offset == 3 else outputs

    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 5)
        replica = await world.start(TooLarge(0.1), guarantee=EXACTLY_ONCE, commit_interval=10.0)
        await until(lambda: bool(replica.marks) and replica.replica.report().shards[0].state is ShardState.STOPPED)
        (shard,) = replica.replica.report().shards
        assert "max.message.bytes" in shard.error
        await trio.sleep(20)
        assert (await committed_values(spu, "out"), await _committed(spu)) == ([], [0])
        await replica.stop()
        assert (await committed_values(spu, "out"), await _committed(spu)) == ([], [0])


async def test_output_waits_until_a_person_creates_its_topic(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 2)
        handled = Handled(outputs_to="later")
        replica = await world.start(handled, guarantee=EXACTLY_ONCE)
        await handled.count(2)
        await until(lambda: "there is no topic later" in replica.replica.report().shards[0].error)
        await spu.running.create("later", 1)
        await until(lambda: replica.marks == {0: 2})
        await replica.stop()
        assert len(await committed_records(spu, "later")) == 2
        assert await _committed(spu) == [2]


async def test_a_list_with_a_failed_event_is_committed_when_the_event_is_handled(autojump_clock: object) -> None:
    """The list has emitted already. If its first events were committed alone, a crash would repeat the others."""
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 10)
        workers = _ListWorkers(bad=3)
        retry = Retry(attempts=1000, backoff=(1.0, 1.0))
        first = await world.start_with(workers, guarantee=EXACTLY_ONCE, batch_size=10, retry=retry)
        await until(lambda: workers.attempts > 8)
        assert (first.marks, await _committed(spu)) == ({0: 3}, [0])
        await first.kill()
        workers = _ListWorkers(bad=3)
        second = await world.start_with(workers, guarantee=EXACTLY_ONCE, batch_size=10, retry=retry)
        await until(lambda: workers.attempts > 3)
        workers.is_repaired = True
        await until(lambda: second.marks == {0: 10})
        await second.stop()
        assert sorted(await committed_values(spu, "out")) == _expected(10)
        assert await _committed(spu) == [10]


async def test_a_list_whose_attempts_take_long_does_not_lose_its_transaction(autojump_clock: object) -> None:
    """Otherwise its attempts would begin again and again, and no event would ever be given up."""
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 10)
        retry = Retry(attempts=5, backoff=(0.1, 0.1))
        replica = await world.start_with(
            _ListWorkers(bad=3, seconds=40), guarantee=EXACTLY_ONCE, batch_size=10, retry=retry
        )
        await until(lambda: replica.marks == {0: 10} or replica.metrics.lost_transactions > 0, 600)
        await replica.stop()
        assert (replica.metrics.lost_transactions, replica.metrics.dead_letters) == (0, 1)
        assert (sorted(await committed_values(spu, "out")), await _committed(spu)) == (
            sorted(set(_expected(10)) - {b"0/3"}),
            [10],
        )


async def test_a_claim_that_cannot_be_committed_says_why(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = TransactionalProducer._ask

    async def refuse(producer: Any, places: Any, key: str, request: Any, *others: Any) -> Any:
        if isinstance(request, AddOffsetsToTxnRequest):
            await trio.lowlevel.checkpoint()
            raise RefusedError("the group has no coordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return await asks(producer, places, key, request, *others)

    async with _orders() as (_, world):
        monkeypatch.setattr(TransactionalProducer, "_ask", refuse)
        replica = await world.start(Handled(), guarantee=EXACTLY_ONCE)
        await trio.sleep(20)
        (shard,) = replica.replica.report().shards
        assert (shard.state, shard.error) == (ShardState.CLAIMING, "the group has no coordinator")


async def test_a_list_that_stops_at_a_failed_event_leaves_no_open_transaction(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 10)
        replica = await world.start_with(
            _ListWorkers(bad=3),
            guarantee=EXACTLY_ONCE,
            batch_size=10,
            retry=Retry(attempts=1),
            on_exhausted=OnExhausted.STOP,
        )
        await until(lambda: bool(replica.marks) and replica.replica.report().shards[0].state is ShardState.STOPPED)
        await trio.sleep(2)
        await spu.produce("out", 0, 1)
        assert (await committed_values(spu, "out"), await _committed(spu)) == ([b"v"], [0]), (
            "readers do not wait for a transaction"
        )


async def test_two_lone_replicas_that_fence_each_other_store_each_output_once(autojump_clock: object) -> None:
    """Without an SC nothing divides the shards. Epochs are equal, as with brokers that compare none."""
    async with _orders(2) as (spu, world):
        world.sc = ()
        for shard in range(2):
            await spu.produce("orders", shard, 100)
        one, other = _Numbered(0.02), _Numbered(0.02)
        replicas = [
            await world.start(each, name, guarantee=EXACTLY_ONCE, commit_interval=0.3)
            for each, name in ((one, "a"), (other, "b"))
        ]
        await one.count(1)
        await other.count(1)
        with trio.fail_after(3600):
            while await _committed(spu, 2) != [100, 100]:  # noqa: ASYNC110 - the clock is virtual
                await trio.sleep(1)
        for each in replicas:
            await each.stop()
        assert sum(each.metrics.lost_transactions for each in replicas) > 0
        assert sorted(await committed_values(spu, "out")) == sorted(_expected(100) + _expected(100, 1))
