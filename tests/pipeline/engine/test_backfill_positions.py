"""Tests backfills into topics, exactly once: with an archive on the disk and a real SPU on a simulated network."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path

import pytest
import structlog
import trio
from archived_orders import TOPIC_ID, archive_of
from committed_values import committed_values
from grouped_spu import GroupedSpu, grouped_spu
from msgspec import Struct
from msgspec.structs import replace
from simulation.files import SimulatedFiles
from spus import ADDRESS
from trigger_replicas import Handled, InProcessWorkers

from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import SpuClient
from tailrace.client.transactions.transactional_producer import TransactionalProducer
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.engine.backfill_planning import BackfillError, BackfillId, BackfillTask, Window
from tailrace.pipeline.engine.backfill_positions import check_partitions, group_of, position_of, positions_in
from tailrace.pipeline.engine.backfill_tasks import into_topics_once
from tailrace.pipeline.engine.engine_results import LOSSES_MAX, RangeResult
from tailrace.pipeline.engine.engine_settings import Way, engine_config
from tailrace.pipeline.engine.range_outputs import RangeParts, client_of, outputs_of
from tailrace.pipeline.engine.range_work import RangeWork
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import Guarantee, OnExhausted, Retry, TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.replica.transactional_output import transactional_id
from tailrace.trigger.work import Output, Shard

SHARD = Shard("orders", 0)
BACKFILL = BackfillId("archive", "orders", "billing", Window())
GROUP = group_of(BACKFILL, TOPIC_ID)


class _Numbered(Handled):
    """A handler that emits the value of each record."""

    async def __call__(self, shard: Shard, record: Record) -> list[Output]:
        await super().__call__(shard, record)
        return [Output("out", None, record.value, partition=0)]


class _World(Struct):
    spu: GroupedSpu
    seams: Seams
    archive: str

    def task(self, **given: object) -> BackfillTask:
        config = TriggerConfig(
            name="bill",
            topic="orders",
            group="billing",
            guarantee=Guarantee.EXACTLY_ONCE,
            **given,  # type: ignore[arg-type]
        )
        brokers = ((ADDRESS.host, ADDRESS.port),)
        work = RangeWork(engine_config(config, Way.BACKFILL), FunctionSource("/f.py"), brokers, "backfill")
        chunks = ArchiveFolder(self.archive).load().manifest.chunks_of(TOPIC_ID, 0)
        return BackfillTask(work, self.archive, BACKFILL, TOPIC_ID, 0, tuple(chunks))

    async def handle(self, task: BackfillTask, handler: Handled) -> list[RangeResult]:
        workers = InProcessWorkers(handler)
        workers.set_lease(inf)
        parts = RangeParts(task.work.config, workers, ReplicaMetrics(), self.seams, structlog.get_logger())
        with outputs_of(task.work, SHARD, GROUP, parts) as outputs:
            return await into_topics_once(task, SHARD, parts, outputs)

    def client(self) -> SpuClient:
        return client_of(self.task().work, self.seams)

    async def position(self) -> int | None:
        spus = self.client()
        try:
            return await position_of(spus, GROUP, SHARD)
        finally:
            spus.close()

    async def fence(self) -> None:
        """Fences the running task, as another run of the same backfill does."""
        spus = self.client()
        producer = TransactionalProducer(spus, transactional_id(GROUP, SHARD), self.spu.clock, RandomChance(2))
        await producer.initialize()
        producer.close()
        spus.close()


@asynccontextmanager
async def _world(directory: Path) -> AsyncIterator[_World]:
    archive = archive_of(directory / "archive", {0: [(0, 8), (8, 16)]})
    async with grouped_spu() as spu:
        await spu.running.create("orders", 1)
        await spu.running.create("out", 1)
        yield _World(spu, Seams(spu.network, SimulatedFiles(), spu.clock, RandomChance(1)), archive)


def _values(end: int) -> list[bytes]:
    return [b"%d" % each for each in range(end)]


async def test_each_chunk_is_committed_with_its_output_and_a_second_run_does_nothing(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with _world(tmp_path) as world:
        assert await world.position() is None
        results = await world.handle(world.task(), _Numbered())
        assert [(each.first, each.mark, each.events) for each in results] == [(0, 8, 8), (8, 16, 8)]
        assert (await committed_values(world.spu, "out"), await world.position()) == (_values(16), 16)
        assert await world.handle(world.task(), _Numbered()) == []


async def test_the_next_run_continues_within_a_chunk(tmp_path: Path, autojump_clock: object) -> None:
    async with _world(tmp_path) as world:
        killed = _Numbered(0.1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.handle, world.task(commit_interval=0.3), killed)
            await killed.count(14)
            nursery.cancel_scope.cancel()  # as kill -9 does
        done = await world.position()
        again = _Numbered()
        await world.handle(world.task(), again)
        assert done is not None and 8 < done < 16
        assert again.of(0) == list(range(done, 16))
        assert await committed_values(world.spu, "out") == _values(16)


async def test_a_task_that_loses_its_transaction_goes_on_at_the_committed_offset(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with _world(tmp_path) as world, trio.open_nursery() as nursery:
        handler = _Numbered(0.1)

        async def fence_once() -> None:
            await handler.count(12)
            await world.fence()

        nursery.start_soon(fence_once)
        results = await world.handle(world.task(commit_interval=0.5), handler)
        assert sum(each.lost_transactions for each in results) == 1
        assert len(handler.events) > 16, "some are handled again"
        assert (await committed_values(world.spu, "out"), await world.position()) == (_values(16), 16)


async def test_a_task_that_never_gets_on_gives_up(tmp_path: Path, autojump_clock: object) -> None:
    async with _world(tmp_path) as world:

        class Fenced(_Numbered):
            async def __call__(self, shard: Shard, record: Record) -> list[Output]:
                await world.fence()
                return await super().__call__(shard, record)

        with pytest.raises(JobError, match=f"{LOSSES_MAX} attempts have failed"):
            await world.handle(world.task(), Fenced())


async def test_a_stopped_partition_keeps_the_output_before_the_failed_event(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with _world(tmp_path) as world:
        handler = _Numbered()
        handler.failing = {(0, 11): 99}
        results = await world.handle(world.task(retry=Retry(attempts=1), on_exhausted=OnExhausted.STOP), handler)
        assert results[-1].problem == "stopped at offset 11: ValueError: no luck with 11"
        assert (await committed_values(world.spu, "out"), await world.position()) == (_values(11), 11)


async def test_records_outside_the_window_count_as_done(tmp_path: Path, autojump_clock: object) -> None:
    async with _world(tmp_path) as world:
        task = world.task()
        results = await world.handle(replace(task, id=replace(task.id, window=Window(end_ms=0))), _Numbered())
        assert [(each.events, each.mark) for each in results] == [(0, 8), (0, 16)]


async def test_a_cluster_without_the_partitions_is_refused(tmp_path: Path, autojump_clock: object) -> None:
    async with _world(tmp_path) as world:
        spus = world.client()
        await check_partitions(spus, "orders", {0})
        with pytest.raises(BackfillError, match=r"has no partition 1 of orders.* create it with 3 partitions"):
            await check_partitions(spus, "orders", {0, 1, 2})
        with pytest.raises(BackfillError, match="has no topic missing"):
            await check_partitions(spus, "missing", {0})
        spus.close()


async def test_positions_of_a_plan_are_those_that_are_committed(tmp_path: Path, autojump_clock: object) -> None:
    async with _world(tmp_path) as world:
        await world.spu.running.create("wide", 3)
        await world.spu.commit(GROUP, "wide", {1: 7})
        spus = world.client()
        assert await positions_in(spus, GROUP, "wide", range(3)) == {1: 7}
        spus.close()


def test_another_backfill_has_another_group() -> None:
    others = [replace(BACKFILL, archive="b"), replace(BACKFILL, group="g"), replace(BACKFILL, window=Window(1))]
    groups = {GROUP, group_of(BACKFILL, "other"), *(group_of(each, TOPIC_ID) for each in others)}
    assert len(groups) == 5
    assert GROUP.startswith("billing.backfill.")


@pytest.mark.parametrize(
    "code", [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.INVALID_TRANSACTION_TIMEOUT]
)
async def test_a_refusal_that_only_a_person_can_change_ends_the_task(
    code: ErrorCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    async def refuse(producer: TransactionalProducer) -> None:
        await trio.lowlevel.checkpoint()
        raise RefusedError("the reason", code)

    async with _world(tmp_path) as world:
        monkeypatch.setattr(TransactionalProducer, "initialize", refuse)
        with trio.fail_after(30), pytest.raises(JobError, match="orders/0: the reason"):
            await world.handle(world.task(), _Numbered())
