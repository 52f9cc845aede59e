from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tailrace.pipeline.archive.manifest.archive_manifest import Chunk, DataFile
from tailrace.pipeline.archive.upkeep.compaction_planning import RECORDS_MAX, plan_merges

_TARGET = 100


def _chunk(start: int, size: int, *, partition: int = 0, records: int = 10) -> Chunk:
    file = DataFile(f"data/{start}", "2026-11-28", start, start + 9, records, size, rollup=1)
    return Chunk("t", "an-id", partition, start, start + 10, "0a0b0c0d", records, 1, (file,))


def _chunks(*sizes: int) -> list[Chunk]:
    return [_chunk(10 * number, size) for number, size in enumerate(sizes)]


def _starts(chunks: list[Chunk]) -> list[list[int]]:
    return [[each.start for each in merge.chunks] for merge in plan_merges(chunks, _TARGET)]


def test_small_neighbours_are_merged_up_to_the_target() -> None:
    assert _starts(_chunks(40, 40, 40, 40, 40)) == [[0, 10], [20, 30]]
    assert _starts(_chunks(10, 10, 10)) == [[0, 10, 20]]
    assert plan_merges(_chunks(40, 40), _TARGET)[0].bytes == 80


def test_large_chunks_stay_and_separate_their_neighbours() -> None:
    assert _starts(_chunks(10, 50, 10, 10)) == [[20, 30]]
    assert _starts(_chunks(50, 60, 200)) == []


def test_one_small_chunk_stays() -> None:
    assert _starts(_chunks(10)) == []
    assert _starts([]) == []


def test_chunks_of_other_partitions_and_beyond_a_gap_are_no_neighbours() -> None:
    assert _starts([_chunk(0, 10), _chunk(10, 10, partition=1)]) == []
    assert _starts([_chunk(0, 10), _chunk(20, 10)]) == []


def test_a_merged_chunk_has_a_bounded_number_of_records() -> None:
    half = RECORDS_MAX // 2 - 1
    chunks = [_chunk(10 * each, 1, records=half) for each in range(3)]
    assert _starts(chunks) == [[0, 10]]
    assert _starts([_chunk(0, 1, records=half + 1), _chunk(10, 1)]) == []


@given(st.lists(st.integers(1, 120), max_size=20))
def test_compacting_again_finds_little_to_do(sizes: list[int]) -> None:
    chunks = _chunks(*sizes)
    for _ in range(6):
        merges = plan_merges(chunks, _TARGET)
        for merge in merges:
            assert merge.bytes <= _TARGET
            assert len(merge.chunks) > 1
            place = chunks.index(merge.chunks[0])
            file = replace(merge.chunks[0].files[0], bytes=merge.bytes)
            chunks[place : place + len(merge.chunks)] = [
                replace(merge.chunks[0], end=merge.chunks[-1].end, files=(file,))
            ]
    assert plan_merges(chunks, _TARGET) == []
