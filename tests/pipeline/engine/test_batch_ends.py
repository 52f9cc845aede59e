"""Tests where micro-batches end, and marks of shards without records, against a real SPU on a simulated network."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grouped_spu import GroupedSpu, grouped_spu
from msgspec.structs import replace
from simulation.files import SimulatedFiles
from spus import ADDRESS

from tailrace.client.group_client import GroupClient
from tailrace.client.log_facts import Partition
from tailrace.pipeline.engine.batch_ends import ends_of_batch, gaps_to_mark, mark_gaps
from tailrace.pipeline.engine.range_outputs import client_of
from tailrace.pipeline.engine.range_work import RangeWork
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource

WORK = RangeWork(
    TriggerConfig(name="bill", topic="orders", group="billing"),
    FunctionSource("/f.py"),
    ((ADDRESS.host, ADDRESS.port),),
    "spark",
    {0: 4, 1: 4},
)


def _checkpoint(directory: Path, text: str) -> str:
    (directory / "offsets").mkdir()
    (directory / "offsets" / "3").write_text(text)
    return str(directory)


def test_the_log_of_offsets_says_where_a_micro_batch_ends(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path, 'v1\n{"batchWatermarkMs":0}\n{"orders":{"0":5,"1":7},"others":{"2":1}}')
    assert ends_of_batch(checkpoint, 3, "orders") == {0: 5, 1: 7}


def test_a_checkpoint_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="offsets/4 cannot be read: No such file"):
        ends_of_batch(_checkpoint(tmp_path, "v9"), 4, "orders")
    with pytest.raises(JobError, match="format v1"):
        ends_of_batch(str(tmp_path), 3, "orders")


def test_only_shards_without_a_task_and_with_an_earlier_mark_are_marked() -> None:
    assert gaps_to_mark({0: 5, 1: 7, 2: 9, 3: 1}, {0: 4, 1: 6, 2: 9}, [0]) == {1: 7, 3: 1}


@asynccontextmanager
async def _orders() -> AsyncIterator[tuple[GroupedSpu, Seams]]:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        yield spu, Seams(spu.network, SimulatedFiles(), spu.clock, RandomChance(1))


async def _committed(seams: Seams) -> list[int | None]:
    spus = client_of(WORK, seams)
    found = await GroupClient(spus).committed_in("billing", [Partition("orders", 0), Partition("orders", 1)])
    spus.close()
    return [getattr(each, "committed", None) for each in found.values()]


async def test_marks_are_committed_with_the_epochs_of_the_driver(autojump_clock: object) -> None:
    async with _orders() as (_, seams):
        assert await mark_gaps(WORK, {0: 5, 1: 7}, seams) == ""
        assert await _committed(seams) == [5, 7]
        problem = await mark_gaps(replace(WORK, epochs={0: 3, 1: 5}), {0: 6, 1: 8}, seams)
        assert problem.startswith("orders/0: ")
        assert await _committed(seams) == [5, 8]


async def test_a_coordinator_that_is_gone_is_a_problem_after_a_while(autojump_clock: object) -> None:
    async with _orders() as (_, seams):
        nowhere = replace(WORK, brokers=(("nowhere", 1),))
        assert "nowhere:1" in await mark_gaps(nowhere, {0: 5}, seams)
