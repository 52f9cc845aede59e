from pathlib import Path

import pytest
from msgspec.structs import replace
from segment_logs import CONFIG, Spu, append, fill

from tailrace.pipeline.segments.log_gaps import Gap
from tailrace.pipeline.segments.log_pieces import LogPiece
from tailrace.pipeline.segments.query_planning import QueryPlan
from tailrace.pipeline.segments.segment_options import read_options
from tailrace.pipeline.segments.segment_pieces import each_segment_piece, pieces_of
from tailrace.pipeline.segments.segment_reading import SegmentError, SegmentRange
from tailrace.protocol.batches.control_batches import bridge, hole
from tailrace.protocol.batches.record_batch import read_header


def ranges_of(spu: Spu) -> list[SegmentRange]:
    options = read_options({"path": spu.directory, "includeUnsealed": "true", "committedOnly": "false"})
    return [each for task in QueryPlan(options).tasks() for each in task]


def read(ranges: list[SegmentRange]) -> list[LogPiece]:
    found: list[LogPiece] = []
    each_segment_piece(ranges, found.append)
    position = ranges[0].start
    for piece in found:
        assert piece.start == position
        position = piece.end
    assert position == ranges[-1].end
    return found


def offsets_of(pieces: list[LogPiece]) -> list[int]:
    batches = [piece.arrow(("offset",)) for piece in pieces]
    return [offset for batch in batches if batch is not None for offset in batch.column(0).to_pylist()]


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


async def test_pieces_follow_one_another_through_all_segments(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    log = spu.log()
    fill(log, 300)
    for control in (hole(300, 310, 1), bridge(310, 1)):
        log.append(memoryview(control), read_header(control))
    append(log, [(b"k", b"v")])
    await log.sync()
    ranges = ranges_of(spu)
    assert len(ranges) > 3
    pieces = read(ranges)
    assert offsets_of(pieces) == [*range(300), 311]
    assert [gap for piece in pieces for gap in piece.gaps] == [Gap(300, 309, "hole"), Gap(310, 310, "bridge")]
    inner = [replace(ranges[1], start=ranges[1].start + 3, end=ranges[1].end - 2)]
    assert offsets_of(read(inner)) == list(range(inner[0].start, inner[0].end))


async def test_a_flipped_bit_names_the_segment(tmp_path: Path) -> None:
    spu = Spu(tmp_path, replace(CONFIG, segment_bytes_max=10**6))
    log = spu.log()
    fill(log, 20)
    await log.sync()
    (wanted,) = ranges_of(spu)
    flip_bit(Path(wanted.path))
    with pytest.raises(SegmentError, match=r"00000000000000000000.log is damaged at position"):
        list(pieces_of([wanted]))
