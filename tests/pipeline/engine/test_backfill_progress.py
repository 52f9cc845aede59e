"""Tests what a backfill into topics keeps about its progress."""

from pathlib import Path

import pytest
from archived_orders import TOPIC_ID

from tailrace.pipeline.engine.backfill_planning import BackfillError, BackfillId, Window
from tailrace.pipeline.engine.backfill_progress import ChunkProgress, begin_progress
from tailrace.pipeline.engine.engine_results import RangeResult
from tailrace.pipeline.jobs.job_errors import JobError

RESULT = RangeResult("orders", 1, 0, 10, events=10)


def test_the_position_is_behind_the_last_chunk_that_is_done(tmp_path: Path) -> None:
    progress = ChunkProgress(str(tmp_path), TOPIC_ID, 1)
    assert progress.position() is None
    progress.done(5, 10, RESULT)
    progress.done(10, 12, RESULT)
    progress.done(10, 12, RESULT)  # a task that runs twice
    assert progress.position() == 12
    assert ChunkProgress(str(tmp_path), TOPIC_ID, 2).position() is None
    (tmp_path / "notes.txt").write_text("something else")
    assert ChunkProgress(str(tmp_path), TOPIC_ID, 1).position() == 12


def test_a_directory_belongs_to_one_backfill(tmp_path: Path) -> None:
    directory = str(tmp_path / "progress")
    backfill = BackfillId("a", "orders", "billing", Window(1, None))
    begin_progress(directory, backfill)
    begin_progress(directory, backfill)
    with pytest.raises(BackfillError, match="another backfill, of orders for the group billing"):
        begin_progress(directory, BackfillId("a", "orders", "billing", Window(2, None)))


def test_a_directory_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JobError, match="cannot keep the progress"):
        begin_progress(str(tmp_path / "file" / "progress"), BackfillId("a", "t", "g", Window()))
    with pytest.raises(JobError, match="cannot be read"):
        ChunkProgress(str(tmp_path / "missing"), TOPIC_ID, 1).position()
