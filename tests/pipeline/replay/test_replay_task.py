from pathlib import Path

import pytest
from replay_samples import arrow_batch, sample_records

from tailrace.pipeline.archive.manifest.record_rollup import rollup_of
from tailrace.pipeline.replay.map_parts import MapNames, PartWriter
from tailrace.pipeline.replay.offset_map import PartState
from tailrace.pipeline.replay.record_choice import RecordChoice
from tailrace.pipeline.replay.replay_document import PartitionExtent, ReplaySettings
from tailrace.pipeline.replay.replay_line import ReplayError
from tailrace.pipeline.replay.replay_position import MappedRange, ReplayPosition
from tailrace.pipeline.replay.replay_task import PartitionTask, ReplayTask, addresses, look, send
from tailrace.protocol.batches.records import Record
from tailrace.runtime.network import Address

RECORDS = sample_records(30)
EXTENT = PartitionExtent(3, "id", 0, 30, 0)


class _Rows:
    def rows(self, start: int):  # type: ignore[no-untyped-def]
        yield arrow_batch(RECORDS[start:])


def _task(directory: str | None, choice: RecordChoice | None = None, bootstrap: str = "") -> ReplayTask:
    settings = ReplaySettings("orders", "copy", choice or RecordChoice())
    return ReplayTask(settings, (PartitionTask(EXTENT, _Rows()),), directory, bootstrap=bootstrap)


def test_a_look_counts_what_would_be_sent() -> None:
    (found,) = look(_task(None, RecordChoice(from_ms=RECORDS[10].timestamp)), is_brief=False)
    assert (found.partition, found.read, found.records, found.first, found.last) == (3, 30, 20, 10, 29)
    assert found.rollup == rollup_of([arrow_batch(RECORDS[10:])])
    assert found.first_timestamp == RECORDS[10].timestamp
    (brief,) = look(_task(None), is_brief=True)
    assert (brief.first_timestamp, brief.records) == (RECORDS[0].timestamp, 0)


def test_a_record_without_a_time_is_not_the_first_one() -> None:
    class Timeless:
        def rows(self, start: int):  # type: ignore[no-untyped-def]
            yield arrow_batch([Record(0, -1, None, b"v")])
            yield arrow_batch([Record(1, 500, None, b"v"), Record(2, 400, None, b"v")])

    task = ReplayTask(ReplaySettings("orders", "copy"), (PartitionTask(EXTENT, Timeless()),), None)
    (found,) = look(task, is_brief=True)
    assert (found.first, found.first_timestamp) == (0, 400)


def test_a_look_begins_where_the_map_ends(tmp_path: Path) -> None:
    writer = PartWriter(str(tmp_path), MapNames("orders", "id", 3, "copy"), ReplayPosition(0, 0))
    writer.add([MappedRange(0, 0, 25)])
    writer.write(PartState(ReplayPosition(25, 25, 25, 25)))
    (found,) = look(_task(str(tmp_path)), is_brief=False)
    assert (found.read, found.records, found.is_done) == (5, 5, False)
    writer.write(PartState(ReplayPosition(30, 30, 30, 30), is_end=True))
    (found,) = look(_task(str(tmp_path)), is_brief=False)
    assert (found.records, found.is_done) == (0, True)
    (outcome,) = send(_task(str(tmp_path)))  # nothing is left, so no broker is asked
    assert (outcome.sent, outcome.state.is_end) == (0, True)


def test_a_broker_that_cannot_be_reached_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.pipeline.replay.partition_replay.PATIENCE_SECONDS", 0)
    monkeypatch.setattr("tailrace.client.spu_client.PATIENCE_SECONDS", 0.01)
    with pytest.raises(ReplayError, match=r"the broker at 127.0.0.1:1 does not answer"):
        send(_task(str(tmp_path), bootstrap="127.0.0.1:1"))


def test_addresses_are_read() -> None:
    assert addresses("a:1, b:2") == [Address("a", 1), Address("b", 2)]
