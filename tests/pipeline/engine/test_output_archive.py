"""Tests that what a backfill emits gets into an archive exactly once."""

from pathlib import Path

import pytest
import trio
from archived_orders import TOPIC_ID
from spus import SteadyClock

from tailrace.pipeline.archive.chunks.archive_reading import archive_rows
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.engine.backfill_planning import BackfillId, BackfillTask, Window
from tailrace.pipeline.engine.output_archive import ChunkOutput, OutputArchive, open_output_archive
from tailrace.pipeline.engine.range_work import RangeWork
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.protocol.batches.records import Record
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.shards.line_effects import DeadLetter, Sending
from tailrace.trigger.work import Failure, FailureKind, Output, Shard

WORK = RangeWork(TriggerConfig(name="bill", topic="orders", group="billing"), FunctionSource("/f.py"))


def _archive(directory: Path, partition: int = 0, group: str = "billing") -> OutputArchive:
    open_output_archive(str(directory), RandomChance())
    backfill = BackfillId("a", "orders", group, Window())
    task = BackfillTask(WORK, "/archive", backfill, TOPIC_ID, partition, (), str(directory))
    return OutputArchive(task, RandomChance(), SteadyClock())


def _begin(archive: OutputArchive, *values: bytes, topic: str = "invoices") -> ChunkOutput:
    output = archive.begin(ReplicaMetrics())
    trio.run(output.send, Sending(1, tuple(Output(topic, b"k", each) for each in values)))
    return output


def _rows(directory: Path, topic: str) -> list[tuple[int, int, bytes]]:
    """Returns partition, offset and value of each record."""
    chunks = ArchiveFolder(str(directory)).load().manifest.chunks
    return [
        row
        for chunk in chunks
        if chunk.topic == topic
        for batch in archive_rows(str(directory), chunk, ("partition", "offset", "value"))
        for row in zip(*(batch.column(name).to_pylist() for name in ("partition", "offset", "value")), strict=True)
    ]


def test_output_and_progress_are_one_commit(tmp_path: Path) -> None:
    archive = _archive(tmp_path)
    assert archive.position() is None
    assert archive.commit(10, 20, _begin(archive, b"1", b"2"))
    assert archive.position() == 20
    assert archive.commit(20, 21, _begin(archive, b"3"))
    assert archive.commit(21, 30, _begin(archive))
    assert archive.position() == 30
    assert _rows(tmp_path, "invoices") == [(0, 0, b"1"), (0, 1, b"2"), (0, 2, b"3")]


def test_a_second_attempt_changes_nothing(tmp_path: Path) -> None:
    archive = _archive(tmp_path)
    late = _begin(archive, b"1", b"2")
    assert archive.commit(10, 20, _begin(_archive(tmp_path), b"1", b"2"))
    assert not archive.commit(10, 20, late)
    assert archive.position() == 20
    assert _rows(tmp_path, "invoices") == [(0, 0, b"1"), (0, 1, b"2")]
    assert len(list(tmp_path.rglob("*.parquet"))) == 1, "the files of the late attempt are removed"


def test_partitions_and_groups_do_not_disturb_one_another(tmp_path: Path) -> None:
    first, second, other = (_archive(tmp_path), _archive(tmp_path, 1), _archive(tmp_path, 2, "again"))
    outputs = [_begin(each, b"%d" % number) for number, each in enumerate((first, second, other))]
    for each, output in zip((first, second, other), outputs, strict=True):
        assert each.commit(0, 5, output)
    assert sorted(_rows(tmp_path, "invoices")) == [(0, 0, b"0"), (1, 0, b"1"), (2, 0, b"2")]
    assert (_archive(tmp_path).position(), _archive(tmp_path, 2).position()) == (5, None)


def test_two_backfills_into_the_same_partition_at_once_are_refused(tmp_path: Path) -> None:
    one, other = _archive(tmp_path), _archive(tmp_path, group="again")
    late = _begin(one, b"1")
    assert other.commit(0, 5, _begin(other, b"2"))
    with pytest.raises(JobError, match="another backfill writes to invoices/0"):
        one.commit(0, 5, late)
    assert one.commit(0, 5, _begin(one, b"1")), "the next attempt goes on behind the other one"
    assert _rows(tmp_path, "invoices") == [(0, 0, b"2"), (0, 1, b"1")]


def test_dead_letters_are_archived_with_their_headers(tmp_path: Path) -> None:
    archive = _archive(tmp_path)
    output = archive.begin(ReplicaMetrics())
    failure = Failure(FailureKind.RAISED, 3, 4, "ValueError", "no luck")
    letter = DeadLetter(Shard("orders", 0), 3, Record(3, 0, b"k", b"v"), b"", failure, 5)
    trio.run(output.send, Sending(1, dead_letters=(letter,)))
    assert archive.commit(0, 10, output)
    assert _rows(tmp_path, "orders.billing.dead") == [(0, 0, b"v")]


def test_discarded_output_leaves_no_file(tmp_path: Path) -> None:
    archive = _archive(tmp_path)
    output = _begin(archive, *(b"%d" % number for number in range(600)))
    output.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and "data" in path.parts] == []
