from pathlib import Path

import pytest
import trio
from segment_logs import START_MS, TOPIC_ID, Spu, fill

from tailrace.pipeline.replay.record_choice import RecordChoice
from tailrace.pipeline.replay.replay_document import ReplaySettings
from tailrace.pipeline.replay.replay_sources import SegmentRows, SegmentsSource
from tailrace.pipeline.segments.segment_options import OptionError


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


def _offsets(rows: SegmentRows, start: int) -> list[int]:
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


def test_a_replay_that_has_begun_keeps_its_end(data: str) -> None:
    (found,) = SegmentsSource([data]).partitions(ReplaySettings("events", "copy"), {2: (30, 50)})
    assert (found.partition, _offsets(found.rows, 35)) == (2, list(range(35, 50)))  # type: ignore[arg-type]


def test_a_missing_topic_is_named(data: str) -> None:
    with pytest.raises(OptionError, match="there is no topic missing below"):
        SegmentsSource([data]).partitions(ReplaySettings("missing", "copy"))
