from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from segment_logs import CONFIG, Spu, append, fill

from tailrace.pipeline.segments.segment_reading import (
    ReadBatch,
    SegmentError,
    SegmentGoneError,
    SegmentRange,
    SegmentReading,
)
from tailrace.protocol.batches.control_batches import bridge, hole
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import read_records
from tailrace.storage.log.log import Log

_COMPACTED = replace(CONFIG, compacts=True, deletes=False, min_cleanable_dirty_ratio=0.0)


async def _log(tmp_path: Path, count: int = 200) -> Log:
    log = Spu(tmp_path).log()
    fill(log, count)
    await log.sync()
    return log


def _range(log: Log, number: int = 0) -> SegmentRange:
    facts = log.segments()[number]
    is_open = number == len(log.segments()) - 1
    return SegmentRange(
        "events", "id", 0, log.directory, facts.base, facts.base, facts.end, size=None if is_open else facts.size
    )


def _read(wanted: SegmentRange, **settings: bool) -> list[ReadBatch]:
    return list(SegmentReading(wanted, **settings).batches())


def _offsets(wanted: SegmentRange) -> list[int]:
    found = [record.offset for batch in _read(wanted) for record in read_records(batch.content or b"")]
    return [offset for offset in found if wanted.start <= offset < wanted.end]


def _content(path: str) -> bytes:
    return Path(path).read_bytes()


def _change(path: str, change: Callable[[bytes], bytes]) -> None:
    Path(path).write_bytes(change(Path(path).read_bytes() if Path(path).exists() else b""))


def _flip(path: str, position: int) -> None:
    _change(path, lambda content: content[:position] + bytes((content[position] ^ 1,)) + content[position + 1 :])


async def test_all_segments_have_all_records(tmp_path: Path) -> None:
    log = await _log(tmp_path)
    assert len(log.segments()) > 3
    found = [offset for number in range(len(log.segments())) for offset in _offsets(_range(log, number))]
    assert found == list(range(200))


async def test_a_range_begins_at_its_position_or_is_searched_if_the_position_is_wrong(tmp_path: Path) -> None:
    log = await _log(tmp_path)
    whole = _range(log)
    batches = _read(whole)
    middle = batches[4]
    start = middle.header.base_offset
    planned = replace(whole, start=start, position=middle.position)
    for position in (middle.position, middle.position + 3, batches[5].position, 0, 10**6):
        assert _offsets(replace(planned, position=position)) == list(range(start, whole.end))


async def test_each_batch_belongs_to_one_of_the_ranges_that_meet_in_it(tmp_path: Path) -> None:
    whole = _range(await _log(tmp_path))
    left = replace(whole, end=7)
    right = replace(whole, start=7, is_first=False)
    found = [each.position for each in _read(left, header_only=True) + _read(right, header_only=True)]
    assert found == [each.position for each in _read(whole, header_only=True)]


async def test_headers_alone_are_the_same(tmp_path: Path) -> None:
    log = await _log(tmp_path)
    for number in range(len(log.segments())):
        wanted = _range(log, number)
        expected = [(each.position, each.header) for each in _read(wanted)]
        found = _read(wanted, header_only=True, checks_crc=False)
        assert [(each.position, each.header) for each in found] == expected
        assert all(each.content is None and each.crc_matches is None for each in found)


async def test_entries_of_recovery_and_markers_are_told_apart(tmp_path: Path) -> None:
    log = Spu(tmp_path).log()
    fill(log, 5)
    for batch in (hole(5, 10, 1), bridge(10, 1)):
        log.append(memoryview(batch), read_header(batch))
    append(log, [(b"\0\0\0\1", b"")], leader_epoch=1, is_control=True, producer_id=3, is_transactional=True)
    for header_only in (False, True):
        ranges = [_range(log, number) for number in range(len(log.segments()))]
        found = [each for wanted in ranges for each in _read(wanted, header_only=header_only, checks_crc=False)]
        assert [each.entry_type for each in found] == [0, 1, 2, 3]


async def test_a_range_of_a_log_that_grows_and_rolls_is_read(tmp_path: Path) -> None:
    log = Spu(tmp_path).log()
    fill(log, 10)
    wanted = _range(log)
    fill(log, 100)
    assert len(log.segments()) > 1
    assert _offsets(wanted) == list(range(10))


async def test_a_range_is_found_again_after_compaction(tmp_path: Path) -> None:
    """Compaction merges the segments into one that has an earlier base."""
    log = Spu(tmp_path, _COMPACTED).log()
    fill(log, 200)
    log.roll()
    await log.sync()
    planned = [_range(log, number) for number in range(len(log.segments()) - 1)]
    open_reading = SegmentReading(planned[0]).batches()
    before = [next(open_reading)]
    await log.compact(10**14, log.log_end)
    assert log.segments()[0].end == planned[0].end
    assert [offset for wanted in planned for offset in _offsets(wanted)] == list(range(193, 200))

    fill(log, 10)
    log.roll()
    await log.compact(10**14, log.log_end)
    assert log.segments()[0].end > planned[0].end
    found = [offset for wanted in planned for offset in _offsets(wanted)]
    assert found == []
    before += open_reading
    assert [each.header.base_offset for each in before] == list(range(0, planned[0].end, 5))


async def test_a_compacted_segment_is_found_before_it_has_its_name(tmp_path: Path) -> None:
    """The manifest names a compacted segment a moment before the file is renamed. The old one may have less."""
    log = await _log(tmp_path)
    wanted = _range(log)
    _change(wanted.path + ".cleaned", lambda _: _content(wanted.path))
    _change(wanted.path, lambda content: content[:100])
    assert _offsets(wanted) == list(range(wanted.start, wanted.end))


async def test_a_deleted_segment_is_named(tmp_path: Path) -> None:
    log = await _log(tmp_path)
    wanted = _range(log)
    reading = SegmentReading(wanted).batches()
    next(reading)
    Spu(tmp_path).files.remove(wanted.path)
    assert len(list(reading)) == wanted.end // 5 - 1
    with pytest.raises(SegmentGoneError, match=f"{wanted.path}.* of events/0 were deleted"):
        _read(wanted)


async def test_a_truncated_segment_is_named(tmp_path: Path) -> None:
    log = await _log(tmp_path)
    wanted = _range(log, len(log.segments()) - 1)
    _change(wanted.path, lambda content: content[:-10])
    for header_only in (False, True):
        with pytest.raises(SegmentError, match=f"{wanted.path} ends at offset 195"):
            _read(wanted, header_only=header_only)


async def test_a_flipped_bit_is_named_or_reported(tmp_path: Path) -> None:
    log = await _log(tmp_path)
    wanted = _range(log)
    position = _read(wanted)[3].position
    _flip(wanted.path, position + 70)
    with pytest.raises(SegmentError, match=f"{wanted.path} is damaged at position {position}.*checksum.*offset 15"):
        _read(wanted)
    found = _read(wanted, header_only=True, checks_crc=True)
    assert [each.header.base_offset for each in found if not each.crc_matches] == [15]
    _flip(wanted.path, position + 16)
    with pytest.raises(SegmentError, match="magic"):
        _read(wanted)


async def test_an_error_of_the_disk_names_the_segment(tmp_path: Path) -> None:
    wanted = _range(await _log(tmp_path))

    class BadFile:
        def size(self) -> int:
            return wanted.size or 0

        def read_at(self, position: int, count: int) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(SegmentError, match=f"{wanted.path}: offsets 0 to .*Input/output error"):
        list(SegmentReading(wanted, open_file=lambda path: BadFile()).batches())
