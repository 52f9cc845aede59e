"""Tests the rows that are made of an archive's records."""

from pathlib import Path

from archived_orders import BEGIN_MS, DAY_MS, TOPIC_ID, archive_of, record

from tailrace.pipeline.archive.manifest.archive_manifest import Chunk
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.engine.backfill_planning import Window
from tailrace.pipeline.engine.backfill_rows import rows_of_chunk
from tailrace.pipeline.engine.row_batches import batches_of
from tailrace.protocol.batches.records import Record, read_records


def _records(directory: str, chunk: Chunk, window: Window, start: int = 0) -> list[Record]:
    rows = rows_of_chunk(directory, chunk, start, window)
    return [each for batch in batches_of(rows, 2, start) for each in read_records(batch.data)]


def _archive(tmp_path: Path) -> tuple[str, Chunk]:
    directory = archive_of(tmp_path, {2: [(0, 20)]})
    (chunk,) = ArchiveFolder(directory).load().manifest.chunks_of(TOPIC_ID, 2)
    assert len(chunk.files) > 1, "the dates do not follow the offsets"
    return directory, chunk


def test_records_are_those_that_were_archived_in_the_order_of_offsets(tmp_path: Path) -> None:
    directory, chunk = _archive(tmp_path)
    assert _records(directory, chunk, Window()) == [record(offset) for offset in range(20)]
    assert _records(directory, chunk, Window(), 17) == [record(offset) for offset in (17, 18, 19)]


def test_only_records_in_the_window_are_handled(tmp_path: Path) -> None:
    directory, chunk = _archive(tmp_path)
    window = Window(BEGIN_MS + 2, BEGIN_MS + DAY_MS)
    expected = [record(offset) for offset in range(20) if BEGIN_MS + 2 <= record(offset).timestamp < BEGIN_MS + DAY_MS]
    assert _records(directory, chunk, window) == expected
    assert _records(directory, chunk, Window(begin_ms=BEGIN_MS + 100 * DAY_MS)) == []
