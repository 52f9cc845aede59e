from pathlib import Path

import pytest
from msgspec.structs import replace
from segment_logs import CONFIG, START_MS, Spu, copy_of, fill

from tailrace.pipeline.segments.log_copies import CopyFinder
from tailrace.pipeline.segments.range_planning import PartitionPlan
from tailrace.pipeline.segments.segment_options import read_options
from tailrace.pipeline.segments.segment_reading import SegmentError, SegmentRange, SegmentReading
from tailrace.protocol.batches.records import read_records
from tailrace.runtime.files import RealFiles
from tailrace.storage.log.log import Log

_ALL = {"includeUnsealed": "true"}


async def _log(spu: Spu, count: int = 200) -> Log:
    log = spu.log()
    fill(log, count)
    await log.sync()
    await spu.commit(count)
    return log


def _plan(tmp_path: Path, **given: str) -> PartitionPlan:
    options = read_options({"path": str(tmp_path), **given})
    files = RealFiles(read_only=True)
    ((_, copies),) = CopyFinder(files, options).copies().items()
    return PartitionPlan(files, copies, options)


def _offsets(ranges: list[SegmentRange]) -> list[int]:
    return [
        record.offset
        for wanted in ranges
        for batch in SegmentReading(wanted).batches()
        for record in read_records(batch.content or b"")
        if wanted.start <= record.offset < wanted.end
    ]


async def test_there_is_one_range_for_each_segment(tmp_path: Path) -> None:
    log = await _log(Spu(tmp_path))
    ranges = _plan(tmp_path).ranges()
    assert [(each.start, each.end, each.size) for each in ranges] == [
        (facts.base, facts.end, facts.size) for facts in log.segments()[:-1]
    ]
    assert [each.is_first for each in ranges] == [True, *[False] * (len(ranges) - 1)]
    assert _offsets(_plan(tmp_path, **_ALL).ranges()) == list(range(200))


async def test_large_segments_are_split_where_batches_begin(tmp_path: Path) -> None:
    spu = Spu(tmp_path, replace(CONFIG, segment_bytes_max=60_000))
    log = await _log(spu, 3000)
    ranges = _plan(tmp_path, maxSplitBytes="10000", **_ALL).ranges()
    assert len(log.segments()) == 5
    assert len(ranges) > 20
    assert max(each.bytes_estimate for each in ranges) < 11_000
    assert all(each.start % 5 == 0 for each in ranges)
    assert all(each.position for each in ranges if each.start != each.base)
    assert _offsets(ranges) == list(range(3000))


@pytest.mark.parametrize("damage", ["missing", "flipped", "short", "zero times"])
async def test_a_damaged_index_costs_only_time(tmp_path: Path, damage: str) -> None:
    log = await _log(Spu(tmp_path))
    _damage_indexes(log.directory, damage)
    plan = _plan(tmp_path, maxSplitBytes="4096", startingOffsets="33", endingOffsets="61", **_ALL)
    assert _offsets(plan.ranges()) == list(range(33, 61))
    assert plan.offset_at(START_MS + 47_000) == 47


def _damage_indexes(directory: str, damage: str) -> None:
    for path in [*Path(directory).glob("*.index"), *Path(directory).glob("*.timeindex")]:
        content = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "zero times":
            path.write_bytes(bytes(len(content)) if path.suffix == ".timeindex" else content)
        elif damage == "flipped":
            path.write_bytes(bytes(byte ^ 1 for byte in content))
        else:
            path.write_bytes(content[:-3])


async def test_offsets_choose_the_range(tmp_path: Path) -> None:
    await _log(Spu(tmp_path))
    for start, end in ((0, 200), (3, 4), (17, 199), (44, 46)):
        plan = _plan(tmp_path, startingOffsets=str(start), endingOffsets=str(end), **_ALL)
        assert _offsets(plan.ranges()) == list(range(start, end))
    assert _plan(tmp_path, startingOffsets="200", **_ALL).ranges() == []
    assert _offsets(_plan(tmp_path, startingOffsets="190", endingOffsets="999", **_ALL).ranges()) == [*range(190, 200)]


async def test_times_choose_the_range_to_the_record(tmp_path: Path) -> None:
    await _log(Spu(tmp_path))
    for start, end in ((0, 200), (3, 4), (17, 199), (44, 46), (90, 91)):
        times = {
            "startingTimestamp": str(START_MS + start * 1000 - 500),
            "endingTimestamp": str(START_MS + end * 1000 - 500),
        }
        assert _offsets(_plan(tmp_path, **times, **_ALL).ranges()) == list(range(start, end))
    assert _plan(tmp_path, startingTimestamp=str(START_MS + 10**9), **_ALL).ranges() == []


async def test_deleted_records_are_an_error_that_names_them_or_left_out(tmp_path: Path) -> None:
    log = await _log(Spu(tmp_path))
    await log.advance_log_start(60)
    with pytest.raises(SegmentError, match=r"offsets 10 to 59 of events/0 are not in .*, which have offsets 60 to 199"):
        _plan(tmp_path, startingOffsets="10", **_ALL).ranges()
    assert _offsets(_plan(tmp_path, startingOffsets="10", failOnDataLoss="false", **_ALL).ranges()) == [*range(60, 200)]
    assert _offsets(_plan(tmp_path, **_ALL).ranges()) == list(range(60, 200))


async def test_a_shelf_and_a_replica_complete_each_other(tmp_path: Path) -> None:
    first, second = (Spu(tmp_path / f"spu-{number}") for number in (1, 2))
    log = await _log(first)
    shelf = second.shelf(0)
    copy_of(shelf, log, 0, log.segments()[1].end)
    await shelf.sync()
    await log.advance_log_start(log.segments()[1].end)
    plan = _plan(tmp_path, **_ALL)
    assert _offsets(plan.ranges()) == list(range(200))
    assert {each.directory.split("/spu-")[1][0] for each in plan.ranges()} == {"1", "2"}


async def test_all_copies_are_read_on_demand(tmp_path: Path) -> None:
    first, second = (Spu(tmp_path / f"spu-{number}") for number in (1, 2))
    log = await _log(first)
    other = second.log()
    copy_of(other, log, 0, 200)
    await other.sync()
    await second.commit(150)
    ranges = _plan(tmp_path, copies="all", startingOffsets="20", **_ALL).ranges()
    assert _offsets(ranges) == [*range(20, 200), *range(20, 150)]
    assert [each.is_first for each in ranges].count(True) == 2
