from pathlib import Path

import pyarrow as pa
import pytest
import trio
from archive_files import DATE, NEXT_DATE, archived_rows, write_archive, write_chunk
from archive_samples import OTHER_ID
from archive_samples import TOPIC_ID as ARCHIVED_ID
from segment_logs import START_MS, TOPIC_ID, Spu, fill

from tailrace.pipeline.archive.manifest.archive_layout import NO_DATE
from tailrace.pipeline.replay.record_choice import RecordChoice
from tailrace.pipeline.replay.replay_document import ReplaySettings
from tailrace.pipeline.replay.replay_line import ReplayError
from tailrace.pipeline.replay.replay_sources import ArchiveSource, SegmentRows, SegmentsSource, SourceRows


@pytest.fixture
def data(tmp_path: Path) -> str:
    async def write() -> None:
        spu = Spu(tmp_path)
        for partition in (0, 2):
            log = spu.log(partition)
            fill(log, 100)
            await log.sync()
            await spu.commit(90, partition)

    trio.run(write)
    return str(tmp_path)


def _offsets(rows: SourceRows, start: int) -> list[int]:
    return [each for batch in rows.rows(start) for each in batch.column("offset").to_pylist()]


def test_segments_are_read_in_order_up_to_the_high_watermark(data: str) -> None:
    one, other = SegmentsSource([data]).partitions(ReplaySettings("events", "copy"))
    assert (one.partition, one.start, one.end, one.topic_id) == (0, 0, 90, str(TOPIC_ID))
    assert other.partition == 2
    assert isinstance(one.rows, SegmentRows)
    assert len(one.rows.ranges) > 1
    assert _offsets(one.rows, 0) == list(range(90))
    assert _offsets(one.rows, 43) == list(range(43, 90))


def test_options_choose_what_is_read(data: str) -> None:
    settings = ReplaySettings("events", "copy", partitions=(2,), starting_offsets="10", ending_offsets="20")
    (found,) = SegmentsSource([data]).partitions(settings)
    assert (found.partition, found.start, found.end) == (2, 10, 20)
    settings = ReplaySettings("events", "copy", RecordChoice(from_ms=START_MS + 50_000))
    assert [each.start for each in SegmentsSource([data]).partitions(settings)] == [50, 50]


def test_a_partition_that_is_not_there_is_named(data: str) -> None:
    with pytest.raises(ReplayError, match=f"events has no partition 1, 7 in {data}: it has 2$"):
        SegmentsSource([data]).partitions(ReplaySettings("events", "copy", partitions=(1, 2, 7)))


def test_a_replay_that_has_begun_keeps_its_end(data: str) -> None:
    (found,) = SegmentsSource([data]).partitions(ReplaySettings("events", "copy"), {2: (30, 50)})
    assert (found.partition, _offsets(found.rows, 35)) == (2, list(range(35, 50)))


def test_a_missing_topic_is_named(data: str) -> None:
    with pytest.raises(ReplayError, match="there is no topic missing below"):
        SegmentsSource([data]).partitions(ReplaySettings("missing", "copy"))


def test_a_missing_directory_is_one_sentence(data: str) -> None:
    with pytest.raises(ReplayError, match=f"{data}/none does not exist on the driver: name the data directory of an"):
        SegmentsSource([f"{data}/none"]).partitions(ReplaySettings("events", "copy"))


@pytest.fixture
def archive(tmp_path: Path) -> str:
    first = write_chunk(tmp_path, 5, 20, {DATE: archived_rows(range(5, 15)), NEXT_DATE: archived_rows(range(15, 18))})
    second = write_chunk(tmp_path, 20, 30, {NEXT_DATE: archived_rows(range(20, 30), date=NEXT_DATE)})
    write_archive(tmp_path, first, second, start=5)
    return str(tmp_path)


def test_chunks_of_an_archive_are_read_in_order(archive: str) -> None:
    (found,) = ArchiveSource(archive).partitions(ReplaySettings("orders", "copy"))
    assert (found.partition, found.topic_id, found.start, found.end) == (0, ARCHIVED_ID, 5, 30)
    assert _offsets(found.rows, 0) == [*range(5, 18), *range(20, 30)]
    assert _offsets(found.rows, 16) == [16, 17, *range(20, 30)]


def test_offsets_dates_and_partitions_choose_what_is_read_of_an_archive(archive: str) -> None:
    settings = ReplaySettings("orders", "copy", starting_offsets="17", ending_offsets='{"orders": {"0": 25}}')
    (found,) = ArchiveSource(archive).partitions(settings)
    assert (found.start, found.end, _offsets(found.rows, 17)) == (17, 25, [17, *range(20, 25)])
    midnight = 1_795_910_400_000  # between the two dates
    (late,) = ArchiveSource(archive).partitions(ReplaySettings("orders", "copy", RecordChoice(from_ms=midnight)))
    assert (late.start, _offsets(late.rows, 0)) == (5, [15, 16, 17, *range(20, 30)])
    (early,) = ArchiveSource(archive).partitions(ReplaySettings("orders", "copy", RecordChoice(until_ms=midnight - 1)))
    assert _offsets(early.rows, 0) == list(range(5, 15))
    with pytest.raises(ReplayError, match=f"orders has no partition 3, 4 in the archive {archive}: it has 0$"):
        ArchiveSource(archive).partitions(ReplaySettings("orders", "copy", partitions=(0, 3, 4)))
    (left,) = ArchiveSource(archive).partitions(ReplaySettings("orders", "copy"), {0: (12, 21)})
    assert (left.start, _offsets(left.rows, 12)) == (12, [*range(12, 18), 20])


def test_records_without_a_time_are_sent_too(tmp_path: Path) -> None:
    rows = archived_rows(range(3))
    place = rows.schema.get_field_index("timestamp")
    timeless = rows.set_column(place, rows.schema.field(place), pa.nulls(3, rows.schema.field(place).type))
    write_archive(tmp_path, write_chunk(tmp_path, 0, 6, {NO_DATE: timeless, DATE: archived_rows(range(3, 6))}))
    (found,) = ArchiveSource(str(tmp_path)).partitions(ReplaySettings("orders", "copy"))
    assert _offsets(found.rows, 0) == list(range(6))


def test_a_topic_that_is_not_in_the_archive_is_named(archive: str, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="there is no topic missing in the archive"):
        ArchiveSource(archive).partitions(ReplaySettings("missing", "copy"))
    with pytest.raises(ReplayError, match=f"there is no topic orders with the id {OTHER_ID} in the archive"):
        ArchiveSource(archive, OTHER_ID).partitions(ReplaySettings("orders", "copy"))
