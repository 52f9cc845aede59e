"""Tests output in transactions, as tasks use it: against a real SPU on a simulated network."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf

import structlog
import trio
from committed_values import committed_values
from grouped_spu import GroupedSpu, grouped_spu
from msgspec.structs import replace
from simulation.files import SimulatedFiles
from spus import ADDRESS
from trigger_replicas import Handled, InProcessWorkers

from tailrace.client.group_client import GroupClient
from tailrace.client.log_facts import Partition
from tailrace.pipeline.engine.engine_results import RangeResult
from tailrace.pipeline.engine.engine_settings import Way, engine_config
from tailrace.pipeline.engine.range_handling import FENCED, handle_once
from tailrace.pipeline.engine.range_outputs import RangeParts, client_of, outputs_of
from tailrace.pipeline.engine.range_work import RangeWork
from tailrace.protocol.batches.records import Record
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import Guarantee, OnExhausted, Retry, SeekTo, TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.work import Output, Shard

SHARD = Shard("orders", 0)


class _Numbered(Handled):
    """A handler that emits the value of each record. It may wait at one of them until it is told to go on."""

    waits_at = -1

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(seconds)
        self.goes_on = trio.Event()

    async def __call__(self, shard: Shard, record: Record) -> list[Output]:
        await super().__call__(shard, record)
        if record.offset == self.waits_at:
            await self.goes_on.wait()
        return [Output("out", None, record.value, partition=0)]


def _work(**given: object) -> RangeWork:
    config = TriggerConfig(
        name="bill",
        topic="orders",
        group="billing",
        guarantee=Guarantee.EXACTLY_ONCE,
        **given,  # type: ignore[arg-type]
    )
    brokers = ((ADDRESS.host, ADDRESS.port),)
    return RangeWork(engine_config(config, Way.STREAM), FunctionSource("/f.py"), brokers, "spark", {0: 4})


@asynccontextmanager
async def _orders() -> AsyncIterator[tuple[GroupedSpu, Seams]]:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 1)
        await spu.running.create("out", 1)
        yield spu, Seams(spu.network, SimulatedFiles(), spu.clock, RandomChance(1))


async def _handle(work: RangeWork, offsets: Sequence[int], seams: Seams, handler: Handled) -> RangeResult:
    workers = InProcessWorkers(handler)
    workers.set_lease(inf)
    parts = RangeParts(work.config, workers, ReplicaMetrics(), seams, structlog.get_logger())
    rows = [(b"k", b"%d" % each, 0, each, 0, None) for each in offsets]
    with outputs_of(work, SHARD, work.config.group, parts) as outputs:
        return await handle_once(work, SHARD, offsets[0], rows, parts, outputs.of(parts.metrics))


async def _committed(seams: Seams) -> int | None:
    spus = client_of(_work(), seams)
    found = (await GroupClient(spus).committed_in("billing", [Partition("orders", 0)]))[Partition("orders", 0)]
    spus.close()
    return getattr(found, "committed", None)


def _values(end: int, start: int = 0) -> list[bytes]:
    return [b"%d" % each for each in range(start, end)]


async def test_output_and_mark_are_committed_up_to_the_end_of_the_micro_batch(autojump_clock: object) -> None:
    async with _orders() as (spu, seams):
        result = await _handle(replace(_work(), ends={0: 9}), range(5), seams, _Numbered())
        assert (result.mark, result.outputs, result.problem, result.lost) == (9, 5, "", "")
        assert (await committed_values(spu, "out"), await _committed(seams)) == (_values(5), 9)
        assert (await _handle(replace(_work(), ends={0: 9}), range(5), seams, _Numbered())).events == 0


async def test_a_second_attempt_fences_the_first_one_and_skips_what_it_has_committed(autojump_clock: object) -> None:
    async with _orders() as (spu, seams):
        results: list[RangeResult] = []
        slow = _Numbered(0.1)  # so that each event is a chunk
        slow.waits_at = 3

        async def first_attempt() -> None:
            results.append(await _handle(_work(commit_interval=1.0), range(6), seams, slow))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first_attempt)
            while await _committed(seams) != 3:  # noqa: ASYNC110 - only the brokers know
                await trio.sleep(0.1)
            again = _Numbered()
            second = await _handle(_work(), range(6), seams, again)
            slow.goes_on.set()
        assert again.of(0) == [3, 4, 5], "the first attempt had committed 0 to 2 after a second"
        assert (second.mark, second.lost) == (6, "")
        assert (results[0].mark, results[0].lost_transactions) == (3, 1)
        assert "a newer producer has the transactional id" in results[0].lost
        assert (await committed_values(spu, "out"), await _committed(seams)) == (_values(6), 6)


async def test_rows_are_handled_although_the_brokers_have_forgotten_the_offsets_of_the_group(
    autojump_clock: object,
) -> None:
    async with _orders() as (spu, seams):
        await spu.produce("orders", 0, 5)
        handler = _Numbered()
        await _handle(_work(seek_to=SeekTo.LATEST), range(3, 5), seams, handler)
        assert (handler.of(0), await _committed(seams)) == ([3, 4], 5)


async def test_a_task_of_an_earlier_driver_handles_nothing(autojump_clock: object) -> None:
    async with _orders() as (_, seams):
        await _handle(_work(), range(3), seams, _Numbered())
        handler = _Numbered()
        result = await _handle(replace(_work(), epochs={0: 3}), range(6), seams, handler)
        assert (result.problem, handler.events) == (FENCED, [])


async def test_a_stopped_shard_keeps_the_output_before_the_failed_event(autojump_clock: object) -> None:
    async with _orders() as (spu, seams):
        handler = _Numbered()
        handler.failing = {(0, 2): 99}
        work = _work(retry=Retry(attempts=2), on_exhausted=OnExhausted.STOP)
        result = await _handle(work, range(6), seams, handler)
        assert result.problem == "stopped at offset 2: ValueError: no luck with 2"
        assert (await committed_values(spu, "out"), await _committed(seams)) == (_values(2), 2)
