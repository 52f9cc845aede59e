import pytest
from replay_samples import sample_records

from tailrace.pipeline.replay.replay_line import (
    BatchLimits,
    LandedBatch,
    ReplayError,
    ReplayLine,
    SourceRecord,
    ordinals_between,
)
from tailrace.pipeline.replay.replay_position import MappedRange, ReplayPosition
from tailrace.protocol.batches.records import Record


def _line(count: int, limits: BatchLimits, position: ReplayPosition | None = None) -> ReplayLine:
    line = ReplayLine("copy/0", position or ReplayPosition(0, 0), limits)
    records = sample_records(count)
    line.add([SourceRecord(each.offset, each, 40, 1 << number, number + 1) for number, each in enumerate(records)])
    return line


def test_batches_depend_only_on_the_records() -> None:
    few, many = _line(4, BatchLimits(records_max=3)), _line(9, BatchLimits(records_max=3))
    assert few.is_full
    assert few.batch() == many.batch()
    assert few.batch() is not None and len(few.batch() or []) == 3
    sizes = _line(4, BatchLimits(bytes_max=90))
    assert len(sizes.batch() or []) == 2
    assert len(_line(5, BatchLimits(window_ms=2000)).batch() or []) == 3


def test_an_appended_batch_is_mapped_and_counted() -> None:
    line = _line(4, BatchLimits(records_max=3))
    line.batch()
    line.on_appended(100)
    assert line.take_ranges() == [MappedRange(0, 100, 3)]
    assert line.position == ReplayPosition(3, 103, 3, 3, 7, 100)
    assert line.sequence == 3
    line.batch()
    line.on_appended(200)  # another producer wrote in between
    assert line.take_ranges() == [MappedRange(3, 200, 1)]
    assert not line.has_batch


def test_a_batch_that_is_too_large_is_divided_down_to_one_record() -> None:
    line = _line(4, BatchLimits())
    assert len(line.batch() or []) == 4
    assert line.on_too_large() and len(line.batch() or []) == 2
    assert line.on_too_large() and len(line.batch() or []) == 1
    assert not line.on_too_large()


def test_records_that_the_target_deleted_are_known_to_be_sent_without_their_offsets() -> None:
    line = _line(4, BatchLimits())
    found = sample_records(4)[2]
    line.on_landed([LandedBatch(2, 50, 0, [Record(50, found.timestamp, found.key, found.value, found.headers)])])
    assert line.take_ranges() == [MappedRange(0, None, 2), MappedRange(2, 50, 1)]
    assert line.position.first_target == 50


def test_the_source_must_have_what_the_target_has() -> None:
    line = ReplayLine("copy/0", ReplayPosition(0, 0))
    line.on_landed([LandedBatch(0, 5, 0, [Record(5, 1, None, b"v", [])])])
    assert line.wants_source
    with pytest.raises(ReplayError, match="copy/0 has more records of this replay than the source"):
        line.check_end()
    with pytest.raises(ReplayError, match="has not the content of offset 9"):
        line.add([SourceRecord(9, Record(9, 1, None, b"other", []), 0, 0, 1)])


def test_sequence_numbers_wrap() -> None:
    end = 2**31
    assert ordinals_between(end - 1, end - 1) == 0
    assert ordinals_between(end - 1, 1) == 2
    assert ordinals_between(3 * end + 5, 4) == -1
    line = _line(1, BatchLimits(), ReplayPosition(0, 0, ordinal=end))
    assert line.sequence == 0
