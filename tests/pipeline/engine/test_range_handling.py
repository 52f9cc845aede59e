"""Tests the handling of a range: against a real SPU on a simulated network, and with real worker processes."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path

import structlog
import trio
from grouped_spu import GroupedSpu, grouped_spu
from msgspec.structs import replace
from simulation.files import SimulatedFiles
from spus import ADDRESS
from trigger_replicas import Handled, InProcessWorkers
from worker_pools import function_in

from tailrace.client.group_client import GroupClient
from tailrace.client.log_facts import Partition
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.pipeline.engine.engine_results import RangeResult
from tailrace.pipeline.engine.engine_settings import Way, engine_config
from tailrace.pipeline.engine.range_handling import FENCED, handle_claimed, handle_input, range_parts
from tailrace.pipeline.engine.range_outputs import RangeParts, broker_senders, client_of
from tailrace.pipeline.engine.range_work import RangeWork
from tailrace.pipeline.engine.row_batches import SparkRow, batches_of
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.seams import Seams, real_seams
from tailrace.trigger.config.trigger_config import Acknowledgement, OnExhausted, Retry, SeekTo, TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource, with_snapshot
from tailrace.trigger.replica.group_offsets import GroupOffsets
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.shards.line_effects import Sending
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Output, Shard

SHARD = Shard("orders", 0)
BROKERS = ((ADDRESS.host, ADDRESS.port),)


def _work(source: FunctionSource | None = None, **given: object) -> RangeWork:
    config = TriggerConfig(name="bill", topic="orders", group="billing", **given)  # type: ignore[arg-type]
    return RangeWork(
        engine_config(config, Way.STREAM), source or FunctionSource("/f.py"), BROKERS, "spark", {0: 4}, log_json=True
    )


def _rows(offsets: Sequence[int]) -> list[SparkRow]:
    return [(b"k", b"%d" % each, 0, each, 0, None) for each in offsets]


@asynccontextmanager
async def _orders() -> AsyncIterator[tuple[GroupedSpu, Seams]]:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 1)
        await spu.running.create("invoices", 1)
        yield spu, Seams(spu.network, SimulatedFiles(), spu.clock, RandomChance(1))


async def _handle(work: RangeWork, rows: Sequence[SparkRow], seams: Seams, handler: Handled) -> RangeResult:
    workers = InProcessWorkers(handler)
    workers.set_lease(inf)
    parts = RangeParts(work.config, workers, ReplicaMetrics(), seams, structlog.get_logger())
    async with broker_senders(work, parts) as senders:
        offsets = GroupOffsets(senders.spus.another(), work.config.group, work.member_id)
        result = await handle_claimed(work, SHARD, rows[0][3], rows, parts, senders.of(parts), offsets)
        offsets.close()
        return result


async def _committed(seams: Seams) -> int | None:
    spus = client_of(_work(), seams)
    found = (await GroupClient(spus).committed_in("billing", [Partition("orders", 0)]))[Partition("orders", 0)]
    spus.close()
    return getattr(found, "committed", None)


async def test_rows_are_handled_their_output_is_sent_and_the_mark_is_committed(autojump_clock: object) -> None:
    async with _orders() as (spu, seams):
        handler = Handled(outputs_to="invoices")
        result = await _handle(_work(), _rows([0, 1, 4, 5]), seams, handler)
        assert handler.of(0) == [0, 1, 4, 5]
        assert (result.first, result.mark, result.events, result.outputs, result.problem) == (0, 6, 4, 4, "")
        assert await _committed(seams) == 6
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        assert (await spus.metadata(["invoices"])).topics[0].error_code == 0
        spus.close()


async def test_a_task_that_runs_again_begins_at_its_mark(autojump_clock: object) -> None:
    async with _orders() as (_, seams):
        await _handle(_work(), _rows(range(5)), seams, Handled())
        again = Handled()
        result = await _handle(_work(), _rows(range(8)), seams, again)
        assert again.of(0) == [5, 6, 7]
        assert (result.first, result.mark) == (0, 8)


async def test_the_mark_passes_the_offsets_without_a_record_at_the_end_of_a_micro_batch(autojump_clock: object) -> None:
    async with _orders() as (_, seams):
        result = await _handle(replace(_work(), ends={0: 9, 1: 20}), _rows([0, 1]), seams, Handled())
        assert (result.mark, await _committed(seams)) == (9, 9)
        assert (await _handle(replace(_work(), ends={0: 9}), _rows([0, 1]), seams, Handled())).events == 0


async def test_a_shard_that_stops_is_not_marked_up_to_the_end(autojump_clock: object) -> None:
    async with _orders() as (_, seams):
        handler = Handled()
        handler.failing = {(0, 1): 99}
        work = _work(retry=Retry(attempts=1), on_exhausted=OnExhausted.STOP)
        await _handle(replace(work, ends={0: 9}), _rows([0, 1]), seams, handler)
        assert await _committed(seams) == 1


async def test_rows_behind_the_group_are_handled_from_the_first_one(autojump_clock: object) -> None:
    async with _orders() as (_, seams):
        handler = Handled()
        await _handle(_work(), _rows([3, 4]), seams, handler)
        assert handler.of(0) == [3, 4]


async def test_rows_are_handled_although_the_brokers_have_forgotten_the_offsets_of_the_group(
    autojump_clock: object,
) -> None:
    async with _orders() as (spu, seams):
        await spu.produce("orders", 0, 5)
        handler = Handled()
        await _handle(_work(seek_to=SeekTo.LATEST), _rows([3, 4]), seams, handler)
        assert (handler.of(0), await _committed(seams)) == ([3, 4], 5)


async def test_a_task_of_an_earlier_driver_handles_nothing(autojump_clock: object) -> None:
    async with _orders() as (_, seams):
        await _handle(_work(), _rows(range(3)), seams, Handled())
        handler = Handled()
        result = await _handle(replace(_work(), epochs={0: 3}), _rows(range(6)), seams, handler)
        assert (result.problem, handler.events) == (FENCED, [])
        assert await _committed(seams) == 3


async def test_a_stopped_shard_is_reported_with_its_offset(autojump_clock: object) -> None:
    async with _orders() as (_, seams):
        handler = Handled()
        handler.failing = {(0, 2): 99}
        work = _work(retry=Retry(attempts=2), on_exhausted=OnExhausted.STOP)
        result = await _handle(work, _rows(range(6)), seams, handler)
        assert result.problem == "stopped at offset 2: ValueError: no luck with 2"
        assert (result.mark, await _committed(seams)) == (2, 2)


class _Collected:
    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.letters: list[int] = []

    async def send(self, sending: Sending) -> None:
        await trio.lowlevel.checkpoint()
        self.outputs += sending.outputs
        self.letters += [each.offset for each in sending.dead_letters]


async def test_worker_processes_call_the_function_and_blame_the_event_that_kills_them(tmp_path: Path) -> None:
    source = function_in(
        tmp_path,
        """
        import os, time
        def handler(context, event):
            if event.offset == 3:
                os._exit(3)
            if event.offset == 5:
                time.sleep(60)
            context.emit("out", event.body)
        """,
    )
    work = _work(with_snapshot(source), retry=Retry(attempts=1), event_timeout=0.3)
    (tmp_path / "billing.py").write_text("executors have no such file")
    seams, sender = real_seams(send_buffer_bytes=0, waits_awake=False), _Collected()
    async with range_parts(work, SHARD, seams) as parts:
        line = ShardLine(SHARD, 0, work.config)
        batches = batches_of(_rows(range(7)), 0, 0)
        await handle_input(line, parts, sender, lambda: next(batches, None), lambda now: True)
    assert [each.value for each in sender.outputs] == [b"0", b"1", b"2", b"4", b"6"]
    assert sender.letters == [3, 5]
    assert parts.metrics.failures == {"worker-ended": 1, "timed-out": 1}


async def test_an_input_ends_when_its_open_events_are_acknowledged_or_given_up(tmp_path: Path) -> None:
    source = function_in(
        tmp_path,
        """
        held = []
        def handler(context, event):
            held.append(event)
            if len(held) == 3:
                while held:
                    context.emit("out", held[-1].body, event=held[-1])
                    held.pop().acknowledge()
        """,
    )
    work = _work(
        with_snapshot(source),
        acknowledgement=Acknowledgement.EXPLICIT,
        acknowledgement_timeout=0.3,
        retry=Retry(attempts=1),
    )
    seams, sender = real_seams(send_buffer_bytes=0, waits_awake=False), _Collected()
    async with range_parts(work, SHARD, seams) as parts:
        line = ShardLine(SHARD, 0, work.config)
        batches = batches_of(_rows(range(7)), 0, 0)
        await handle_input(line, parts, sender, lambda: next(batches, None), lambda now: True)
    assert sorted(each.value or b"" for each in sender.outputs) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert (sender.letters, line.mark) == ([6], 7)
    assert parts.metrics.failures == {"unacknowledged": 1}
