"""Tests whole replicas with a real SC, a real SPU and workers in this process, on a simulated network and clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
from clusters import ClusterOfSpus, address_of, cluster_of
from grouped_spu import GroupedSpu, grouped_spu
from running_sc import PUBLIC
from spus import ADDRESS, SC_PUBLIC
from structlog.testing import capture_logs
from trigger_replicas import Handled, OpenEventWorkers, ReplicaWorld, until

from tailrace.client.admin_client import AdminClient
from tailrace.client.group_client import GroupClient
from tailrace.client.log_facts import Partition
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transactions.transactional_producer import TransactionalProducer
from tailrace.cluster.stream_state.replica_report import ReplicaState, ShardState, decode_report, encode_report
from tailrace.protocol.batches.records import Record
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.config.trigger_config import Acknowledgement, OnExhausted, Retry, RetryMode, SeekTo
from tailrace.trigger.work import Output, Settled, Shard

SESSION = 10.0


@asynccontextmanager
async def _orders(shards: int = 1) -> AsyncIterator[tuple[GroupedSpu, ReplicaWorld]]:
    """Yields an SPU with the topic `orders`, and a world for replicas."""
    async with grouped_spu() as spu, trio.open_nursery() as nursery:
        await spu.running.create("orders", shards)
        yield spu, ReplicaWorld(nursery, spu.network, clock=spu.clock)
        nursery.cancel_scope.cancel()


async def _committed(spu: GroupedSpu, shards: int = 1) -> list[int]:
    """Returns the committed offset of each shard, or -1."""
    spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
    found = await GroupClient(spus).committed_in("billing", [Partition("orders", each) for each in range(shards)])
    spus.close()
    offsets = []
    for each in found.values():
        assert not isinstance(each, RefusedError)
        offsets.append(-1 if each is None or each.committed is None else each.committed)
    return offsets


def _task_names() -> set[str]:
    """Returns the names of all tasks that run now."""
    root = trio.lowlevel.current_root_task()
    names, tasks = set(), [root] if root is not None else []
    while tasks:
        task = tasks.pop()
        names.add(task.name)
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return names


async def test_every_record_is_handled_once_marked_and_committed(autojump_clock: object) -> None:
    async with _orders(3) as (spu, world):
        for shard in range(3):
            await spu.produce("orders", shard, 10)
        handled = Handled()
        replica = await world.start(handled)
        await handled.count(30)
        for shard in range(3):
            await spu.produce("orders", shard, 5)
        await handled.count(45)
        await trio.sleep(1.5)
        assert replica.marks == {0: 15, 1: 15, 2: 15}
        assert await _committed(spu, 3) == [15, 15, 15]
        assert all(handled.of(shard) == list(range(15)) for shard in range(3))
        assert replica.metrics.events == 45
        assert {f"shard orders/{shard}" for shard in range(3)} <= _task_names()
        await replica.stop()


async def test_marks_are_committed_at_an_interval(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        handled = Handled()
        replica = await world.start(handled, commit_interval=30.0)
        await until(lambda: replica.marks == {0: 0})
        await spu.produce("orders", 0, 5)
        await handled.count(5)
        await trio.sleep(15)
        assert (replica.marks, await _committed(spu)) == ({0: 5}, [0])
        await trio.sleep(15)
        assert await _committed(spu) == [5]


async def test_a_killed_replica_repeats_only_what_was_not_committed(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 10)
        handled = Handled()
        first = await world.start(handled)
        await handled.count(10)
        await trio.sleep(1.5)
        assert await _committed(spu) == [10]
        await spu.produce("orders", 0, 3)
        await handled.count(13)
        await first.kill()
        await spu.produce("orders", 0, 4)
        again = Handled()
        await world.start(again)
        await again.count(7)
        assert again.of(0) == list(range(10, 17))


async def test_a_stopped_replica_commits_everything_and_leaves_at_once(autojump_clock: object) -> None:
    async with _orders(2) as (spu, world):
        await spu.produce("orders", 0, 20)
        await spu.produce("orders", 1, 20)
        handled = Handled(0.1)
        first = await world.start(handled, workers=2, commit_interval=1000.0)
        await handled.count(6)
        await first.stop()
        count = len(handled.events)
        assert sum(await _committed(spu, 2)) == count < 40
        began = trio.current_time()
        await world.start(handled, "replica2", workers=2)
        await handled.count(count + 1)
        assert trio.current_time() - began < 1.0
        await handled.count(40)
        assert handled.of(0) == handled.of(1) == list(range(20))


async def test_events_that_do_not_end_in_time_are_given_up_at_the_stop(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 3)
        handled = Handled(7.0)
        first = await world.start(handled, stop_timeout=2.0)
        await handled.count(1)
        began = trio.current_time()
        await first.stop()
        assert trio.current_time() - began < 4.0
        assert first.workers.killed == [(Shard("orders", 0), 1)]
        assert await _committed(spu) == [1]
        await world.start(handled)
        await handled.count(3)
        assert handled.of(0) == [0, 1, 2]


@pytest.mark.parametrize(("seek_to", "expected"), [(SeekTo.EARLIEST, [0, 1, 2, 3, 4]), (SeekTo.LATEST, [3, 4])])
async def test_a_shard_without_a_committed_offset_begins_where_the_trigger_seeks(
    autojump_clock: object, seek_to: SeekTo, expected: list[int]
) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 3)
        handled = Handled()
        replica = await world.start(handled, seek_to=seek_to)
        await until(lambda: replica.marks == {0: 3})
        await spu.produce("orders", 0, 2)
        await handled.count(len(expected))
        assert handled.of(0) == expected
        await replica.stop()
        # A committed offset counts, whatever the trigger seeks now.
        await spu.produce("orders", 0, 1)
        for other in SeekTo:
            replica = await world.start(handled, seek_to=other)
            await handled.count(len(expected) + 1)
            await replica.stop()
        assert handled.of(0) == [*expected, 5]


async def test_a_restart_continues_from_the_first_commit_even_if_nothing_was_handled(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 3)
        handled = Handled()
        replica = await world.start(handled, seek_to=SeekTo.LATEST)
        await until(lambda: replica.marks == {0: 3})
        await replica.kill()
        await spu.produce("orders", 0, 2)
        await world.start(handled, seek_to=SeekTo.LATEST)
        await handled.count(2)
        assert handled.of(0) == [3, 4]


async def test_reads_are_as_large_and_as_often_as_configured(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 100)
        handled = Handled()
        times: list[tuple[float, int]] = []

        async def handle(shard: Shard, record: object) -> list[object]:
            times.append((trio.current_time(), record.offset))  # type: ignore[attr-defined]
            return await handled(shard, record)  # type: ignore[arg-type,return-value]

        await world.start(handle, read_batch_size=10, polling_interval=0.5)  # type: ignore[arg-type]
        await handled.count(100)
        pages = [[at for at, offset in times if offset // 10 == page] for page in range(10)]
        assert all(max(page) - min(page) < 0.1 for page in pages)
        assert all(after[0] - before[0] >= 0.5 for before, after in pairwise(pages))


async def test_shards_are_divided_and_taken_over(autojump_clock: object) -> None:
    async with _orders(4) as (spu, world):
        for shard in range(4):
            await spu.produce("orders", shard, 5)
        handled = Handled()
        first = await world.start(handled, "replica1", replicas=2)
        await handled.count(10)
        await until(lambda: first.marks == {0: 5, 1: 5})
        second = await world.start(handled, "replica2", replicas=2)
        await handled.count(20)
        await until(lambda: second.marks == {2: 5, 3: 5})
        await trio.sleep(1.5)
        await first.kill()
        began = trio.current_time()
        await world.start(handled, "replica1", replicas=2)
        await spu.produce("orders", 0, 1)
        await handled.count(21)
        assert SESSION - 3.0 <= trio.current_time() - began <= SESSION + 2.0
        assert handled.events.count((0, 5)) == 1
        assert all(handled.of(shard)[:5] == list(range(5)) for shard in range(4))


async def test_a_surplus_is_drained_and_released(autojump_clock: object) -> None:
    async with _orders(4) as (spu, world):
        handled = Handled()
        first = await world.start(handled, "replica1", replicas=1)
        await until(lambda: len(first.marks) == 4)
        await spu.produce("orders", 3, 5)
        await handled.count(5)
        second = await world.start(handled, "replica2", replicas=2)
        # The number of replicas of a running replica changes only if a trigger is deployed; here it is started anew.
        await first.stop()
        first = await world.start(handled, "replica1", replicas=2)
        await until(lambda: len(first.marks) == len(second.marks) == 2)
        assert first.marks.keys() | second.marks.keys() == {0, 1, 2, 3}
        assert handled.of(3) == list(range(5))


async def test_handling_goes_on_without_the_sc_until_the_lease_ends_and_resumes(autojump_clock: object) -> None:
    async with cluster_of(1) as cluster, trio.open_nursery() as nursery:
        world = await _cluster_world(cluster, nursery, 1)
        handled = Handled(0.5)
        await world.start(handled)
        await cluster.produce(1, "orders", 0, b"v")
        await handled.count(1)
        await cluster.kill_sc()
        killed_at = trio.current_time()
        ended: list[float] = []
        async with trio.open_nursery() as producing:

            async def note() -> None:
                while trio.current_time() < killed_at + 15.0:
                    count = len(handled.events)
                    await handled.count(count + 1)
                    ended.append(trio.current_time() - killed_at)

            async def produce() -> None:
                while trio.current_time() < killed_at + 15.0:
                    await cluster.produce(1, "orders", 0, b"v")
                    await trio.sleep(0.5)
                await cluster.start_sc()

            producing.start_soon(produce)
            producing.start_soon(note)
        before = [each for each in ended if each < 15.0]
        assert 4.0 < max(before) < 0.95 * SESSION
        assert len(handled.of(0)) == len(set(handled.of(0)))
        nursery.cancel_scope.cancel()


async def test_a_replica_stops_soon_and_commits_without_the_sc(autojump_clock: object) -> None:
    async with cluster_of(1) as cluster, trio.open_nursery() as nursery:
        world = await _cluster_world(cluster, nursery, 1)
        handled = Handled()
        first = await world.start(handled, commit_interval=1000.0)
        await cluster.produce(1, "orders", 0, b"v")
        await handled.count(1)
        await cluster.kill_sc()
        began = trio.current_time()
        with capture_logs() as logged:
            await first.stop()
        assert trio.current_time() - began < 6.0
        assert "departure_failed" in [each["event"] for each in logged]
        await cluster.start_sc()
        second = await world.start(handled, "replica2")
        await until(lambda: second.marks == {0: 1})
        assert len(handled.events) == 1
        nursery.cancel_scope.cancel()


async def test_the_first_output_needs_no_sc(autojump_clock: object) -> None:
    async with cluster_of(1) as cluster, trio.open_nursery() as nursery:
        world = await _cluster_world(cluster, nursery, 1)
        world.brokers = ()  # the replica finds them through the SC
        assert await cluster.create(1, "invoices", 1, 1) == 0
        replica = await world.start(Handled(outputs_to="invoices"))
        await until(lambda: replica.marks == {0: 0})
        await cluster.kill_sc()
        await cluster.produce(1, "orders", 0, b"v")
        await until(lambda: replica.marks == {0: 1}, 5.0)
        nursery.cancel_scope.cancel()


async def test_a_retry_that_is_due_without_a_lease_waits(autojump_clock: object) -> None:
    async with cluster_of(1) as cluster, trio.open_nursery() as nursery:
        world = await _cluster_world(cluster, nursery, 1)
        handled = Handled()
        handled.failing = {(0, 0): 12}
        replica = await world.start(handled, retry=Retry(attempts=100, backoff=(1.0, 1.0)))
        await cluster.produce(1, "orders", 0, b"v")
        await until(lambda: replica.metrics.retries > 2)
        await cluster.kill_sc()
        await trio.sleep(20)
        assert replica.metrics.retries < 12
        await cluster.start_sc()
        await handled.count(1)
        nursery.cancel_scope.cancel()


async def test_an_event_that_outlives_the_lease_is_ended_and_handled_again(autojump_clock: object) -> None:
    async with cluster_of(1) as cluster, trio.open_nursery() as nursery:
        world = await _cluster_world(cluster, nursery, 1)
        handled = Handled(20.0)
        replica = await world.start(handled)
        await cluster.produce(1, "orders", 0, b"v")
        await handled.until(lambda: bool(handled.running))
        await cluster.kill_sc()
        began = trio.current_time()
        await handled.until(lambda: not handled.running)
        assert trio.current_time() - began <= 0.95 * SESSION
        await trio.sleep(0.1)
        assert replica.replica.report().shards == ()
        await cluster.start_sc()
        await handled.count(1)
        nursery.cancel_scope.cancel()


async def test_a_shard_follows_its_leader(autojump_clock: object) -> None:
    async with cluster_of(1, 2, 3) as cluster, trio.open_nursery() as nursery:
        world = await _cluster_world(cluster, nursery, 1, 2, 3)
        handled = Handled()
        await world.start(handled)
        leader = (await cluster.leaders(1, "orders"))[0][0]
        other = next(each for each in (1, 2, 3) if each != leader)
        assert await cluster.produce(leader, "orders", 0, b"v") == 0
        await handled.count(1)
        await cluster.kill_spu(leader)
        while (now := (await cluster.leaders(other, "orders"))[0][0]) in (leader, -1):  # noqa: ASYNC110
            await trio.sleep(0.1)
        while await cluster.produce(now, "orders", 0, b"v"):  # noqa: ASYNC110
            await trio.sleep(0.1)
        await handled.count(2)
        nursery.cancel_scope.cancel()


async def test_a_fenced_replica_moves_no_offset(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 5)
        handled = Handled()
        replica = await world.start(handled)
        await handled.count(5)
        await trio.sleep(1.5)
        # Another owner has claimed the shard, and this replica does not know it.
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        partition = Partition("orders", 0)
        answer = await GroupClient(spus).commit("billing", {partition: 5}, {partition: "trigger epoch=9 member=other"})
        assert answer == {partition: None}
        spus.close()
        with capture_logs() as logged:
            await spu.produce("orders", 0, 1)
            await handled.count(6)
            await trio.sleep(1.5)
            await spu.produce("orders", 0, 1)
            await trio.sleep(5.0)
        assert await _committed(spu) == [5]
        assert replica.metrics.fenced_commits >= 1
        assert [each["event"] for each in logged if each["event"] == "commit_fenced"] == ["commit_fenced"]
        assert len(handled.events) == 6
        assert replica.replica.report().shards[0].state is ShardState.STOPPED


async def test_a_claim_that_is_fenced_although_the_replica_owns_the_shard_raises_the_epoch(
    autojump_clock: object,
) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 5)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        partition = Partition("orders", 0)
        await GroupClient(spus).commit("billing", {partition: 2}, {partition: "trigger epoch=9 member=other"})
        spus.close()
        handled = Handled()
        replica = await world.start(handled)
        await handled.count(3)
        assert handled.of(0) == [2, 3, 4]
        await replica.stop()
        assert await _committed(spu) == [5]


async def test_failed_events_are_retried_in_order_and_then_skipped(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 4)
        handled = Handled()
        handled.failing = {(0, 1): 2, (0, 2): 9}
        retry = Retry(attempts=3, backoff=(1.0, 10.0))
        with capture_logs() as logged:
            replica = await world.start(handled, retry=retry, on_exhausted=OnExhausted.SKIP)
            await until(lambda: replica.marks == {0: 4})
        assert handled.of(0) == [0, 1, 3]
        metrics = replica.metrics
        assert (metrics.failures["raised"], metrics.retries, metrics.skipped) == (5, 4, 1)
        told = [
            (each["event"], each["offset"]) for each in logged if each["event"] in ("event_failed", "event_given_up")
        ]
        assert told == [("event_failed", 1)] * 2 + [("event_failed", 2)] * 2 + [("event_given_up", 2)]
        assert {each["topic"] for each in logged if each["event"] == "event_failed"} == {"orders"}


async def test_a_stopped_shard_says_why_and_the_others_go_on(autojump_clock: object) -> None:
    async with _orders(2) as (spu, world):
        await spu.produce("orders", 0, 4)
        await spu.produce("orders", 1, 4)
        handled = Handled()
        handled.failing = {(0, 2): 9}
        replica = await world.start(handled, retry=Retry(attempts=1), on_exhausted=OnExhausted.STOP)
        await until(lambda: replica.marks == {0: 2, 1: 4})
        stopped, other = replica.replica.report().shards
        assert (stopped.state, stopped.offset, stopped.error) == (ShardState.STOPPED, 2, "ValueError: no luck with 2")
        assert other.state is ShardState.READING
        await replica.stop()
        assert await _committed(spu, 2) == [2, 4]


async def test_records_that_were_deleted_unread_are_skipped_with_a_warning(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.commit("billing", "orders", {0: 1})
        await spu.produce("orders", 0, 5)
        await spu.delete_records("orders", 0, 3)
        handled = Handled()
        with capture_logs() as logged:
            replica = await world.start(handled)
            await until(lambda: replica.marks == {0: 5})
        assert handled.of(0) == [3, 4]
        assert [each["offset"] for each in logged if each["event"] == "unhandled_records_deleted"] == [1]


async def test_an_offset_beyond_the_log_begins_again_at_its_start(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.commit("billing", "orders", {0: 100})
        await spu.produce("orders", 0, 5)
        handled = Handled()
        with capture_logs() as logged:
            replica = await world.start(handled)
            await until(lambda: replica.marks == {0: 5})
        assert handled.of(0) == list(range(5))
        assert "handled_records_truncated" in [each["event"] for each in logged]
        await replica.stop()
        assert await _committed(spu) == [5]


@pytest.mark.parametrize("seconds", [0.0, 1.0, 30.0])
async def test_a_topic_that_is_made_anew_is_handled_from_its_start(autojump_clock: object, seconds: float) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 3)
        handled = Handled()
        replica = await world.start(handled)
        await until(lambda: replica.marks == {0: 3})
        await spu.running.delete(spu.running.spu.cluster.topics["orders"])
        await trio.sleep(seconds)
        await spu.running.create("orders", 2)
        for shard in range(2):
            await spu.produce("orders", shard, 5)
        await until(lambda: replica.marks == {0: 5, 1: 5})
        assert handled.of(0) == [0, 1, 2, 0, 1, 2, 3, 4]
        assert handled.of(1) == list(range(5))
        await replica.stop()


async def test_the_mark_waits_for_the_brokers_to_acknowledge_the_output(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.running.create("invoices")
        await spu.produce("orders", 0, 7)
        handled = Handled(outputs_to="invoices")
        replica = await world.start(handled)
        await until(lambda: replica.marks == {0: 7})
        assert replica.metrics.outputs == 7
        assert spu.running.replica("invoices").log.log_end == 7


async def test_the_mark_waits_for_the_topic_of_the_output(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 2)
        replica = await world.start(Handled(outputs_to="invoices"))
        await until(lambda: any("invoices" in each.error for each in replica.replica.report().shards))
        assert replica.marks == {0: 0}
        await spu.running.create("invoices")
        await until(lambda: replica.marks == {0: 2})


async def test_an_output_that_is_refused_stops_the_shard(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.running.create("invoices", configs={"max.message.bytes": "1"})
        await spu.produce("orders", 0, 2)
        replica = await world.start(Handled(outputs_to="invoices"))
        await until(lambda: any(each.state is ShardState.STOPPED for each in replica.replica.report().shards))
        (shard,) = replica.replica.report().shards
        assert "max.message.bytes" in shard.error
        assert shard.marked == 0


async def test_output_that_cannot_be_sent_does_not_hold_up_the_stop(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 2)
        handled = Handled()

        async def handle(shard: Shard, record: Record) -> list[Output]:
            await handled(shard, record)
            return [Output("nowhere", None, b"v")] if record.offset else []

        replica = await world.start(handle, stop_timeout=3.0, commit_interval=1000.0)
        await handled.count(2)
        began = trio.current_time()
        await replica.stop()
        assert trio.current_time() - began < 8.0
        # It has left, so that another replica has the shard at once.
        other = await world.start(Handled(), "replica2")
        await until(lambda: other.marks == {0: 2}, 2.0)


async def test_output_that_cannot_be_sent_does_not_hold_up_acknowledgements_of_other_shards(
    autojump_clock: object,
) -> None:
    async with _orders(2) as (spu, world):
        for shard in range(2):
            await spu.produce("orders", shard, 20)
        workers, output = OpenEventWorkers(), Output("nowhere", None, b"v")
        replica = await world.start_with(workers, acknowledgement=Acknowledgement.EXPLICIT)
        await until(lambda: len(workers.opened) == 40)
        workers.settle(*(Settled(Shard("orders", 0), each, True, (output,)) for each in range(20)))
        await trio.sleep(1.0)
        workers.settle(*(Settled(Shard("orders", 1), each, True) for each in range(20)))
        await until(lambda: replica.marks == {0: 0, 1: 20}, 5.0)
        await spu.running.create("nowhere")
        await until(lambda: replica.marks == {0: 20, 1: 20})


async def test_a_shard_that_retries_says_so(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 2)
        handled = Handled()
        handled.failing = {(0, 1): 1}
        replica = await world.start(handled, retry=Retry(attempts=3, backoff=(20.0, 20.0)))
        await until(lambda: any(each.state is ShardState.RETRYING for each in replica.replica.report().shards))
        (shard,) = replica.replica.report().shards
        assert (shard.offset, shard.attempt, shard.error) == (1, 1, "ValueError: no luck with 1")
        await until(lambda: replica.marks == {0: 2})
        assert replica.replica.report().shards[0].state is ShardState.READING


async def test_the_sc_gets_reports(autojump_clock: object) -> None:
    async with _orders(2) as (spu, world):
        await spu.produce("orders", 1, 3)
        handled = Handled()
        replica = await world.start(handled)
        await handled.count(3)
        await trio.sleep(3)
        report = replica.replica.report()
        assert (report.topic, report.group, report.replica, report.state) == (
            "orders",
            "billing",
            "replica1",
            ReplicaState.MEMBER,
        )
        assert decode_report(encode_report(report)) == report
        assert [(each.shard, each.marked, each.committed, each.lag) for each in report.shards] == [
            (0, 0, 0, 0),
            (1, 3, 3, 0),
        ]
        gauges = replica.replica.gauges()
        assert (gauges.workers, sorted(gauges.shards)) == (1, [0, 1])


async def test_the_sc_learns_at_once_which_shards_a_replica_has(autojump_clock: object) -> None:
    async with _orders(2) as (spu, world):
        sc = ScClient(spu.network, [SC_PUBLIC])
        first = await world.start(Handled(), "replica1", replicas=2)
        await until(lambda: len(first.marks) == 1)
        await trio.sleep(0.5)
        assert await _reported(sc) == {"replica1": (ReplicaState.MEMBER, 1)}
        second = await world.start(Handled(), "replica2", replicas=2)
        await until(lambda: len(second.marks) == 1)
        await trio.sleep(0.5)
        assert await _reported(sc) == {"replica1": (ReplicaState.MEMBER, 1), "replica2": (ReplicaState.MEMBER, 1)}
        sc.close()


async def _reported(sc: ScClient) -> dict[str, tuple[str, int]]:
    """Returns the state and the number of shards that each replica has reported."""
    (trigger,) = await sc.list_objects("trigger-run-by-hand")
    reports = {each["name"]: each["report"] for each in trigger["status"]["replicas"]}
    return {name: (report["state"], len(report["shards"])) for name, report in reports.items()}


async def test_two_workers_let_all_shards_progress(autojump_clock: object) -> None:
    async with _orders(4) as (spu, world):
        for shard in range(4):
            await spu.produce("orders", shard, 50)
        handled = Handled(0.01)
        most: list[int] = []

        async def handle(shard: Shard, record: object) -> object:
            most.append(len(handled.running) + 1)
            return await handled(shard, record)  # type: ignore[arg-type]

        await world.start(handle, workers=2)  # type: ignore[arg-type]
        await handled.count(100)
        assert max(most) == 2
        assert all(len(handled.of(shard)) >= 15 for shard in range(4))
        await handled.count(200)
        assert all(handled.of(shard) == list(range(50)) for shard in range(4))


async def _cluster_world(cluster: ClusterOfSpus, nursery: trio.Nursery, *spus: int) -> ReplicaWorld:
    """Creates the topic `orders` with a replica on each SPU, and returns a world for replicas of triggers."""
    assert await cluster.create(1, "orders", 1, len(spus), min_insync_replicas="1") == 0
    world = cluster.world
    return ReplicaWorld(nursery, world.network, [address_of(each) for each in spus], [PUBLIC], world.clock)


async def test_events_that_are_retried_aside_do_not_hold_their_shard(autojump_clock: object) -> None:
    async with _orders(2) as (spu, world):
        for shard in range(2):
            await spu.produce("orders", shard, 4)
        handled = Handled()
        handled.failing = {(1, 1): 2, (1, 2): 9}
        retry = Retry(attempts=3, backoff=(5.0, 10.0), mode=RetryMode.ASIDE)
        first = await world.start(handled, retry=retry)
        await until(lambda: first.marks == {0: 4, 1: 4})
        assert handled.of(1) == [0, 3]
        # Another replica goes on with what is aside.
        await first.stop()
        second = await world.start(handled, "replica2", retry=retry)
        await until(lambda: second.metrics.dead_letters == 1)
        await until(lambda: (1, 1) in handled.events)
        await second.stop()
        assert sorted(handled.events) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 3)]
        assert await _committed(spu, 2) == [4, 4]
        assert sum(spu.running.replica("orders.billing.dead", each).log.log_end for each in range(2)) == 1


async def test_the_retry_topic_grows_with_its_topic(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        handled = Handled()
        handled.failing = {(1, 0): 1}
        retry = Retry(backoff=(5.0, 5.0), mode=RetryMode.ASIDE)
        replica = await world.start(handled, retry=retry)
        await until(lambda: replica.marks == {0: 0})
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        await AdminClient(spus).add_partitions("orders", 2)
        await until(lambda: 1 in replica.marks)
        await spu.produce("orders", 1, 2)
        await until(lambda: handled.of(1) == [1, 0])
        spus.close()


async def test_events_that_are_given_up_become_dead_letters(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 3)
        handled = Handled()
        handled.failing = {(0, 1): 9}
        replica = await world.start(handled, retry=Retry(attempts=2))
        await until(lambda: replica.marks == {0: 3})
        assert (handled.of(0), replica.metrics.dead_letters) == ([0, 2], 1)
        assert spu.running.replica("orders.billing.dead").log.log_end == 1


async def test_records_of_aborted_transactions_never_reach_the_function(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        producer = TransactionalProducer(spus, "writer", spu.clock, RandomChance(1))
        seen: list[bytes | None] = []

        async def handle(shard: Shard, record: Record) -> None:
            await trio.lowlevel.checkpoint()
            seen.append(record.value)

        replica = await world.start(handle)
        for value in (b"lost", b"kept", b"lost again"):
            await producer.initialize()
            await producer.send([Output("orders", None, value)])
            await until(lambda: replica.replica.report().shards[0].held_back == 1)
            assert replica.replica.report().shards[0].lag == 0
            if value == b"kept":
                await producer.commit("any", {})
            else:
                await producer.abort()
            await until(lambda: replica.replica.report().shards[0].held_back == 0)
        await trio.sleep(2)
        assert seen == [b"kept"]
        assert (replica.marks, await _committed(spu)) == ({0: 6}, [6]), "the mark is after the last marker"
        producer.close()
        spus.close()
