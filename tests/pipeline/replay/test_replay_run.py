from datetime import UTC, datetime
from errno import EACCES
from pathlib import Path
from typing import Any

import pytest

from tailrace.pipeline.replay import replay, replay_run
from tailrace.pipeline.replay.record_choice import RecordChoice
from tailrace.pipeline.replay.replay_document import PartitionExtent
from tailrace.pipeline.replay.replay_line import ReplayError
from tailrace.pipeline.replay.replay_run import (
    ReplayRequest,
    ReplayRow,
    check_complete,
    grouped,
    partition_tasks,
    result_of,
    settings_for,
)
from tailrace.pipeline.replay.replay_sources import SegmentRows, SourcePartition


def _refused(**given: Any) -> str:
    with pytest.raises(ReplayError) as found:
        replay(None, topic="orders", to_topic="copy", **{"from_segments": ["/data"], "dry_run": True, **given})  # type: ignore[arg-type]
    return str(found.value)


def test_arguments_that_cannot_work_are_refused() -> None:
    assert "needs one source" in _refused(from_segments=None)
    assert "needs a directory for its map" in _refused(dry_run=False)
    assert "zip is not a codec" in _refused(compression="zip")
    assert all("is not a speed" in _refused(speed=speed) for speed in (0, -1.0, float("nan"), float("inf")))
    assert "is no mask" in _refused(masks=["nothing"])
    assert "is no regular expression" in _refused(key_regexes=["("])
    assert "the secret has no effect" in _refused(secret=b"x")
    assert "needs a secret" in _refused(masks=["key=hash"])


def test_a_map_that_cannot_be_read_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(directory: str) -> None:
        raise PermissionError(EACCES, "Permission denied", f"{directory}/_replay.json")

    monkeypatch.setattr(replay_run, "read_document", refuse)
    sentence = _refused(dry_run=False, map_directory=str(tmp_path))
    assert sentence == f"{tmp_path}/_replay.json cannot be read or written: Permission denied"


def test_bounds_are_offsets_or_times() -> None:
    settings = settings_for(
        ReplayRequest("orders", "copy", start=datetime(2026, 1, 31, tzinfo=UTC), until={3: 5, 1: 2})
    )
    assert settings.choice == RecordChoice(from_ms=1_769_817_600_000)
    assert (settings.starting_offsets, settings.ending_offsets) == ("", '{"orders": {"1": 2, "3": 5}}')
    assert settings_for(ReplayRequest("orders", "copy", start=7)).starting_offsets == "7"


def test_a_result_sums_up_the_partitions() -> None:
    rows = tuple(ReplayRow(each, 0, 10, 10, 8, 5, 3, 0, 8, "0" * 16) for each in (0, 1))
    found = result_of("orders", "copy", rows, "were sent to")
    assert found.text().splitlines()[-1] == "ok: 16 records of orders were sent to copy"
    assert found.facts["found in the target"] == 6


def test_a_paced_replay_has_a_slot_for_each_task_and_another_has_a_task_for_each_partition() -> None:
    parts = partition_tasks([PartitionExtent(each, "id", 0, 10, 0) for each in range(5)], [])
    numbers = [[part.extent.partition for part in group] for group in grouped(parts, 2)]
    assert numbers == [[0, 2, 4], [1, 3]]
    assert [len(group) for group in grouped(parts, None)] == [1] * 5
    assert grouped([], None) == []


def test_a_source_that_lacks_what_is_left_is_refused() -> None:
    found = [SourcePartition(0, "id", 5, 10, SegmentRows(())), SourcePartition(1, "id", 5, 9, SegmentRows(()))]
    check_complete("orders", {0: (5, 10), 2: (7, 7)}, found)
    for left in ({1: (5, 10)}, {3: (0, 2)}):
        with pytest.raises(ReplayError, match="the source does not have offsets"):
            check_complete("orders", left, found)
