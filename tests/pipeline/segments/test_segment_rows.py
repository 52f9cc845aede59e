from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from segment_logs import CONFIG, START_MS, Spu, append, fill

from tailrace.pipeline.segments import segment_rows
from tailrace.pipeline.segments.batch_decoding import decode_batches
from tailrace.pipeline.segments.query_planning import QueryPlan
from tailrace.pipeline.segments.record_columns import RecordColumns
from tailrace.pipeline.segments.segment_options import SegmentOptions, read_options
from tailrace.pipeline.segments.segment_pieces import pieces_of
from tailrace.pipeline.segments.segment_readers import settings_of
from tailrace.pipeline.segments.segment_reading import ReadBatch, SegmentError
from tailrace.pipeline.segments.segment_rows import rows_of
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.record_batch import HEADER_SIZE, read_header
from tailrace.storage.log.log import Log


async def _log(tmp_path: Path, count: int = 200, **attributes: Any) -> Log:
    spu = Spu(tmp_path)
    log = spu.log()
    fill(log, count, **attributes)
    await log.sync()
    await spu.commit(10**6)
    return log


def _options(tmp_path: Path, **given: str) -> SegmentOptions:
    return read_options({"path": str(tmp_path), "includeUnsealed": "true", **given})


def _rows(tmp_path: Path, **given: str) -> list[dict[str, Any]]:
    options = _options(tmp_path, **given)
    settings = settings_of(options)
    return [row for task in QueryPlan(options).tasks() for part in rows_of(task, settings) for row in part.to_pylist()]


@pytest.mark.parametrize("compression", list(Compression))
async def test_every_codec_gives_all_rows(tmp_path: Path, compression: Compression) -> None:
    await _log(tmp_path, compression=compression)
    found = _rows(tmp_path, columns="offset,key,value")
    assert found == [{"offset": i, "key": b"key-%d" % (i % 7), "value": b"%060d" % i} for i in range(200)]


async def test_headers_alone_give_a_row_for_each_batch(tmp_path: Path) -> None:
    await _log(tmp_path)
    found = _rows(tmp_path, headerOnly="true", startingOffsets="12", endingOffsets="41")
    assert [(row["offset"], row["lastOffset"], row["records"]) for row in found] == [
        (offset, offset + 4, 5) for offset in range(10, 41, 5)
    ]
    assert {row["crcMatches"] for row in found} == {None}
    assert {row["crcMatches"] for row in _rows(tmp_path, headerOnly="true", verifyChecksums="true")} == {True}


async def test_entries_other_than_events_are_rows_on_demand(tmp_path: Path) -> None:
    log = await _log(tmp_path, 5)
    batch = bridge(5, 1)
    log.append(memoryview(batch), read_header(batch))
    append(log, [(b"k", b"v")], leader_epoch=1)
    assert [row["offset"] for row in _rows(tmp_path)] == [0, 1, 2, 3, 4, 6]
    found = _rows(tmp_path, entryTypes="all")
    assert [row["entryType"] for row in found] == ["event"] * 5 + ["bridge", "event"]
    assert [row["offset"] for row in _rows(tmp_path, entryTypes="bridge")] == [5]


async def test_the_latest_row_of_each_key_is_found_across_segments(tmp_path: Path) -> None:
    log = await _log(tmp_path)
    append(log, [(b"key-3", None), (None, b"no key")])
    found = _rows(tmp_path, latestByKey="true", columns="key,offset,value")
    assert [(row["key"], row["offset"]) for row in found] == [
        *((b"key-%d" % (i % 7), i) for i in range(193, 200) if i % 7 != 3),
        (b"key-3", 200),
        (None, 201),
    ]
    as_of = _rows(tmp_path, latestByKey="true", asOf=str(START_MS + 50_000), columns="offset")
    assert [row["offset"] for row in as_of] == list(range(44, 51))


async def test_too_many_keys_for_one_task_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await _log(tmp_path)
    monkeypatch.setattr(segment_rows, "LATEST_KEYS_MAX", 6)
    with pytest.raises(SegmentError, match=r"events/0 has more than 6 keys.* latest_by_key"):
        _rows(tmp_path, latestByKey="true")


async def test_many_rows_come_in_parts_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await _log(tmp_path)
    monkeypatch.setattr(segment_rows, "ROWS_MAX", 12)
    options = read_options({"path": str(tmp_path), "columns": "offset", "maxSplitBytes": "4096"})
    (first, *_) = QueryPlan(options).tasks()
    sizes = [part.num_rows for part in rows_of(first, settings_of(options))]
    assert max(sizes) <= 12
    assert sum(sizes) == first[-1].end


async def test_a_deleted_segment_is_an_error_or_left_out(tmp_path: Path) -> None:
    log = await _log(tmp_path)
    for fails in (True, False):
        given = {"failOnDataLoss": str(fails), "columns": "offset", "maxSplitBytes": "4096"}
        options = read_options({"path": str(tmp_path), **given})
        first, second, *_ = QueryPlan(options).tasks()
        if fails:
            await log.advance_log_start(second[0].start)
            with pytest.raises(SegmentError, match=f"{first[0].path}: offsets 0 to .* were deleted"):
                list(rows_of(first, settings_of(options)))
        else:
            await log.advance_log_start(log.log_end)
            assert list(rows_of(first, settings_of(options))) == []


async def test_a_batch_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    log = await _log(tmp_path, 20)
    damaged = bytearray(log.read(10, 1, 20, at_least_one=True).read())  # type: ignore[union-attr]
    header = read_header(damaged)
    damaged[HEADER_SIZE] ^= 2
    _put(log, header.base_offset, bytes(damaged[: header.size]))
    with pytest.raises(SegmentError, match=r"\.log is damaged at position \d+: .*tailrace log verify"):
        _rows(tmp_path, verifyChecksums="false", columns="offset")


def _put(log: Log, offset: int, batch: bytes) -> None:
    (part,) = log.segment_list.ranges(offset, offset + 5)
    path = Path(part.file.path)
    content = bytearray(path.read_bytes())
    content[part.position : part.position + len(batch)] = batch
    path.write_bytes(content)


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
async def test_records_that_were_compressed_well_are_decoded_a_few_at_a_time(
    tmp_path: Path, compression: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    spu = Spu(tmp_path, replace(CONFIG, segment_bytes_max=10**6))
    log = spu.log()
    for _ in range(12):
        append(log, [(b"k", bytes(3 * 2**20))], compression=compression)
    await log.sync()
    await spu.commit(log.log_end)
    together: list[int] = []

    def decode(batches: Sequence[ReadBatch]) -> RecordColumns:
        found = decode_batches(batches)
        together.append(len(found.data))
        return found

    monkeypatch.setattr(segment_rows, "decode_batches", decode)
    assert [row["offset"] for row in _rows(tmp_path, columns="offset,value")] == list(range(12))
    assert max(together) < 9 * 2**20
    pieces = pieces_of([each for task in QueryPlan(_options(tmp_path)).tasks() for each in task])
    sizes = [piece.rows.record_batch(("value",)).nbytes for piece in pieces if piece.rows is not None]
    assert max(sizes) < 9 * 2**20
