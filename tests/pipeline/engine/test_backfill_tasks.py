"""Tests the task of a partition with real worker processes: chunks in order, stops, and a second run."""

from pathlib import Path

import pytest
from archived_orders import archive_of
from msgspec.structs import replace
from worker_pools import function_in

from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.engine.backfill_planning import BackfillTask, Window
from tailrace.pipeline.engine.backfill_run import BackfillSettings, plan_backfill
from tailrace.pipeline.engine.backfill_tasks import backfill_partition
from tailrace.pipeline.engine.output_archive import ChunkOutput, OutputArchive
from tailrace.trigger.config.trigger_config import OnExhausted, Retry, TriggerConfig
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics

FUNCTION = """
def handler(context, event):
    with open(HANDLED, "a") as file:
        file.write(f"{event.offset} ")
    if event.offset == BAD:
        raise ValueError("no luck")
    if event.offset % 2:
        context.emit("odd", event.body, key=event.key, headers=event.headers)
"""


class _World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.archive = archive_of(directory / "archive", {0: [(0, 8), (8, 16)]})

    def task(self, bad: int = -1, **given: object) -> BackfillTask:
        text = FUNCTION.replace("HANDLED", repr(str(self.directory / "handled"))).replace("BAD", str(bad))
        config = TriggerConfig(name="bill", topic="orders", group="billing", **given)  # type: ignore[arg-type]
        settings = BackfillSettings(
            config=config,
            source=function_in(self.directory, text),
            archive=self.archive,
            output_archive=str(self.directory / "output"),
        )
        (task,) = plan_backfill(settings).tasks
        return task

    @property
    def handled(self) -> list[int]:
        return [int(each) for each in (self.directory / "handled").read_text().split()]

    def archived(self, topic: str) -> int:
        chunks = ArchiveFolder(str(self.directory / "output")).load().manifest.chunks
        return sum(each.records for each in chunks if each.topic == topic)


@pytest.fixture
def world(tmp_path: Path) -> _World:
    return _World(tmp_path)


def test_chunks_are_handled_in_order_and_a_second_run_does_nothing(world: _World) -> None:
    task = world.task(bad=3, retry=Retry(attempts=2, backoff=(0, 0)))
    results = backfill_partition(task)
    assert world.handled == [0, 1, 2, 3, *range(3, 16)]
    assert [(each.first, each.mark, each.events, each.dead_letters) for each in results] == [
        (0, 8, 7, 1),
        (8, 16, 8, 0),
    ]
    assert (world.archived("odd"), world.archived("orders.billing.dead")) == (7, 1)
    assert backfill_partition(task) == []
    assert len(world.handled) == 17


def test_a_stopped_chunk_is_not_done(world: _World) -> None:
    stops = world.task(bad=11, retry=Retry(attempts=1), on_exhausted=OnExhausted.STOP)
    results = backfill_partition(stops)
    assert results[-1].problem == "stopped at offset 11: ValueError: no luck"
    assert world.archived("odd") == 4
    assert [each.problem for each in backfill_partition(world.task())] == [""]
    assert world.handled[-8:] == list(range(8, 16))
    assert world.archived("odd") == 8


def test_an_attempt_goes_on_after_a_chunk_that_another_attempt_has_done(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other attempt may be killed before it does the rest."""

    def begin_late(archive: OutputArchive, metrics: ReplicaMetrics) -> ChunkOutput:
        monkeypatch.undo()
        output = archive.begin(metrics)
        assert archive.commit(0, 8, archive.begin(ReplicaMetrics()))
        return output

    task = world.task()
    monkeypatch.setattr(OutputArchive, "begin", begin_late)
    assert [(each.first, each.mark) for each in backfill_partition(task)] == [(8, 16)]
    assert backfill_partition(task) == []
    assert world.archived("odd") == 4


def test_the_directories_of_a_task_do_not_depend_on_where_it_runs(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.directory)
    settings = BackfillSettings(
        config=TriggerConfig(name="bill", topic="orders", group="billing"),
        source=function_in(world.directory, FUNCTION),
        archive="archive",
        output_archive="output",
    )
    (task,) = plan_backfill(settings).tasks
    assert (task.archive, task.output_archive) == (world.archive, str(world.directory / "output"))


def test_lists_of_events_end_with_their_chunk(world: _World) -> None:
    text = 'def handler(context, events):\n    context.emit("sizes", str(len(events)))'
    task = world.task(batch_size=5)
    source = replace(task.work.source, source=text)
    backfill_partition(replace(task, work=replace(task.work, source=source)))
    assert world.archived("sizes") == 4, "5 + 3 events of each chunk"


def test_a_function_that_cannot_be_loaded_is_a_problem(world: _World) -> None:
    task = world.task()
    broken = replace(task.work, source=replace(task.work.source, source="import nothing_of_this_name"))
    (result,) = backfill_partition(replace(task, work=broken))
    assert "nothing_of_this_name" in result.problem


def test_records_outside_the_window_count_as_done(world: _World) -> None:
    task = world.task()
    nothing = replace(task, id=replace(task.id, window=Window(end_ms=0)))
    assert [(each.events, each.mark) for each in backfill_partition(nothing)] == [(0, 8), (0, 16)]
