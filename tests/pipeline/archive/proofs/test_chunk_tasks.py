from pathlib import Path

from archive_files import DATE, archived_rows, write_chunk
from archive_samples import OTHER_ID, chunk

from tailrace.pipeline.archive.proofs.chunk_checking import records_of
from tailrace.pipeline.archive.proofs.chunk_tasks import CheckTask, LogCollector, check_chunks, plan_checks
from tailrace.pipeline.segments.arrow_rows import RecordRows, RowFilter, Source, StoredBatch
from tailrace.pipeline.segments.log_gaps import Gap
from tailrace.pipeline.segments.log_pieces import LogPiece, deleted_piece
from tailrace.pipeline.segments.record_columns import decode_bodies
from tailrace.protocol.batches.record_batch import HEADER_SIZE, read_header
from tailrace.protocol.batches.records import Record, build_batch


def _piece(offset: int, *gaps: Gap) -> LogPiece:
    batch = build_batch([Record(offset, 0, None, b"v")], base_offset=offset)
    header = read_header(batch)
    decoded = decode_bodies([(header, bytes(batch[HEADER_SIZE:]))])
    rows = RecordRows(Source("orders", "", 0, "", 0), [StoredBatch(header, 0, 0)], decoded, RowFilter(0, 100))
    return LogPiece(offset, offset + 1, rows, gaps)


def test_pieces_of_a_log_are_put_together() -> None:
    collector = LogCollector()
    collector.take(deleted_piece(0, 3))
    collector.take(_piece(3))
    collector.take(_piece(5, Gap(4, 4, "compaction"), Gap(6, 7, "hole"), Gap(8, 8, "marker")))
    log = collector.read_log(20, is_compacted=True)
    assert log.records.offsets.tolist() == [3, 5]
    assert (log.end, log.deleted, log.is_compacted) == (20, ((0, 2),), True)
    assert log.never == {"hole": ((6, 7),), "marker": ((8, 8),)}
    assert LogCollector().read_log(0, is_compacted=False).records.offsets.tolist() == records_of([]).offsets.tolist()


def test_a_task_checks_neighbours_of_one_partition() -> None:
    chunks = [chunk(0, 10), chunk(10, 20), chunk(0, 10, 1), chunk(0, 10, topic_id=OTHER_ID)]
    assert [len(each) for each in plan_checks(chunks)] == [2, 1, 1]
    many = [chunk(10 * each, 10 * each + 10) for each in range(130)]
    assert [len(each) for each in plan_checks(many)] == [64, 64, 2]
    large = [chunk(10_000_000 * each, 10_000_000 * (each + 1)) for each in range(3)]
    assert [len(each) for each in plan_checks(large)] == [1, 1, 1]
    assert list(plan_checks([])) == []


def test_a_task_checks_all_of_its_chunks(tmp_path: Path) -> None:
    one = write_chunk(tmp_path, 0, 5, {DATE: archived_rows(range(5))})
    two = write_chunk(tmp_path, 5, 9, {DATE: archived_rows([5, 8])})
    (tmp_path / one.files[0].path).unlink()
    first, second = check_chunks(CheckTask(str(tmp_path), (one, two)))
    assert first.problems == (f"{one.files[0].path} is missing",)
    assert (second.problems, second.gaps) == ((), {"compaction": 2})
