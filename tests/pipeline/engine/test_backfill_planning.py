"""Tests which chunks of an archive a backfill handles."""

from pathlib import Path

import pytest
from archived_orders import BEGIN_MS, DAY_MS, TOPIC_ID, archive_of

from tailrace.pipeline.archive.manifest.archive_layout import NO_DATE
from tailrace.pipeline.archive.manifest.archive_manifest import Manifest
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.engine.backfill_planning import (
    BackfillError,
    BackfillId,
    Window,
    chunks_to_handle,
    ranges_left,
)


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    directory = archive_of(tmp_path, {0: [(0, 8), (8, 16), (16, 24), (24, 32)], 3: [(5, 8)]})
    return ArchiveFolder(directory).load().manifest


def _starts(manifest: Manifest, window: Window) -> dict[int, list[int]]:
    found = chunks_to_handle(manifest, "orders", window)
    return {partition: [chunk.start for chunk in chunks] for (_, partition), chunks in found.items()}


def test_without_a_window_everything_is_handled(manifest: Manifest) -> None:
    assert _starts(manifest, Window()) == {0: [0, 8, 16, 24], 3: [5]}


def test_chunks_before_and_after_the_window_are_left_out(manifest: Manifest) -> None:
    day = BEGIN_MS + DAY_MS
    assert _starts(manifest, Window(day, day + DAY_MS)) == {0: [8, 16]}, "some of the third chunk have the date before"
    assert _starts(manifest, Window(end_ms=BEGIN_MS)) == {0: [0]}, "the date of every fifth record"
    assert _starts(manifest, Window(begin_ms=BEGIN_MS + 9 * DAY_MS)) == {}


def test_records_without_a_date_may_have_a_time_outside_the_calendar() -> None:
    assert Window().may_have(NO_DATE)
    assert Window(begin_ms=0).may_have(NO_DATE)


def test_a_topic_that_is_not_there_is_an_error(manifest: Manifest) -> None:
    with pytest.raises(BackfillError, match="no topic invoices; it has orders"):
        chunks_to_handle(manifest, "invoices", Window())


def test_what_is_done_is_left_out_although_chunks_were_merged_meanwhile(manifest: Manifest) -> None:
    chunks = manifest.chunks_of(TOPIC_ID, 0)
    assert [(chunk.start, start) for chunk, start in ranges_left(chunks, None)] == [(0, 0), (8, 8), (16, 16), (24, 24)]
    assert [(chunk.start, start) for chunk, start in ranges_left(chunks, 19)] == [(16, 19), (24, 24)]
    assert ranges_left(chunks, 32) == []


def test_another_window_is_another_backfill() -> None:
    one = BackfillId("a", "orders", "billing", Window(1, 2))
    other = BackfillId("a", "orders", "billing", Window(1, 3))
    assert one.progress_id(TOPIC_ID) == BackfillId("a", "orders", "billing", Window(1, 2)).progress_id(TOPIC_ID)
    assert one.progress_id(TOPIC_ID) != other.progress_id(TOPIC_ID)
