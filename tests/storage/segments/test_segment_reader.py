"""Finding batches and records in a segment."""

import tracemalloc

import pytest
from batch_samples import header_of
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import KafkaError
from tailrace.storage.indexes.open_files import LazyFile, OpenFiles
from tailrace.storage.indexes.segment_index import SegmentIndex
from tailrace.storage.segments.batch_walk import FAR_BYTES
from tailrace.storage.segments.segment_reader import SegmentReader

BASE = 1000
TIMES = [[5, 3], [4, 9, 2], [9], [1], [12, 12], [7], [30, 40, 35]]
"""The timestamps of the records, batch by batch."""


@pytest.fixture(params=[1, 100, 10_000], ids=lambda interval: f"interval{interval}")
def reader(request: pytest.FixtureRequest) -> SegmentReader:
    files = SimulatedFiles()
    open_files = OpenFiles(files)
    index = SegmentIndex(open_files, "", BASE, interval_bytes=request.param)
    reader = SegmentReader(BASE, LazyFile(open_files, "/log", create=True), index, request.param)
    offset, largest = BASE, -1
    for number, times in enumerate(TIMES):
        records = [Record(offset + index, time, b"key", b"value" * 5, []) for index, time in enumerate(times)]
        batch = build_batch(records, base_offset=offset, leader_epoch=3, compression=Compression(number % 2))
        index.new.on_batch(offset - BASE, reader.log.get().size(), largest)
        reader.log.get().append(batch)
        # Compaction left a gap of ten offsets after each.
        offset += len(times) + 10
        largest = max(largest, *times)
    return reader


def _batches(reader: SegmentReader) -> list[tuple[int, int, int]]:
    """Returns (position, base offset, next offset) of each batch."""
    found, position = [], 0
    while position < reader.log.get().size():
        header = reader.header_at(position)
        found.append((position, header.base_offset, header.next_offset))
        position += header.size
    return found


def test_the_batch_of_an_offset_or_the_next_one(reader: SegmentReader) -> None:
    size = reader.log.get().size()
    batches = _batches(reader)
    for offset in range(BASE - 5, batches[-1][2] + 5):
        expected = next((position for position, _, end in batches if end > offset), size)
        assert reader.position_of(offset, size) == expected


@pytest.mark.parametrize(("byte", "bit"), [(0, 0x80), (0, 0x40), (3, 1), (6, 1)], ids=str)
def test_an_index_is_rebuilt_around_a_batch_with_a_damaged_offset(reader: SegmentReader, byte: int, bit: int) -> None:
    file = reader.log.get()
    size, batches = file.size(), _batches(reader)
    at = batches[3][0] + byte
    file.write_at(at, bytes([file.read_at(at, 1)[0] ^ bit]))
    reader.index.trust(len(reader.index), 1, 1, 0)  # with checksums that cannot match
    for position, base, end in batches[:3]:
        assert reader.position_of(base, size) == reader.position_of(end - 1, size) == position


@pytest.mark.parametrize("bit", range(64))
def test_a_corrupt_index_in_use_skips_no_batch(reader: SegmentReader, bit: int) -> None:
    size, batches = reader.log.get().size(), _batches(reader)
    reader.index.write()
    files = reader.index._open_files.files
    assert isinstance(files, SimulatedFiles)
    path = reader.index._offsets_path
    for number in range(len(reader.index)):
        assert reader.position_of(batches[-1][1], size) == batches[-1][0]  # it is mapped now
        node = files._names[path]
        files._synced_names[path] = node
        node.unsynced.clear()
        node.synced = bytes(node.content)
        files.flip(path, 8 * number + bit // 8, bit % 8, is_covered=True)
        for position, base, end in batches:
            assert reader.position_of(base, size) == reader.position_of(end - 1, size) == position
            assert reader.boundary(0, position, size) == position


def test_a_batch_with_a_damaged_length_or_end_is_not_skipped(reader: SegmentReader) -> None:
    file = reader.log.get()
    size, batches = file.size(), _batches(reader)
    for position, base, end in batches:
        whole = file.read_at(position, 61)
        file.write_at(position + 9, b"\x40")  # longer than the segment
        if position == 0:
            with pytest.raises(KafkaError):
                reader.position_of(base, size)
        file.write_at(position, whole)
        file.write_at(position + 23, b"\xff\xff\xff\xff")  # the delta of its last offset: it ends before its beginning
        assert reader.position_of(end - 1, size) == position
        file.write_at(position, whole)


@pytest.mark.parametrize("number", [3, len(TIMES) - 1])
def test_batches_after_one_with_a_huge_length_are_not_taken_for_missing(reader: SegmentReader, number: int) -> None:
    file, batches = reader.log.get(), _batches(reader)
    size, (position, _, end) = file.size(), batches[number]
    file.write_at(position + 8, (2**20).to_bytes(4))
    with pytest.raises(KafkaError, match="longer than its segment"):
        list(reader.headers(0, size, end, end))
    before = batches[number - 1][1]
    assert [header.next_offset for header, _ in reader.headers(0, size, before, end)][-1:] == [batches[number - 2][2]]


def test_batches_after_one_with_a_huge_offset_are_not_taken_for_missing(reader: SegmentReader) -> None:
    file, batches = reader.log.get(), _batches(reader)
    size, end = file.size(), batches[-1][2]
    file.write_at(batches[3][0], b"\x20")
    assert len(list(reader.headers(0, size, batches[2][1], end))) == 2
    for up_to in (batches[3][2], end, 2**63 - 1):
        with pytest.raises(KafkaError, match="out of its segment"):
            list(reader.headers(0, size, up_to, end))


@pytest.mark.parametrize("wrong", [1 << 63, BASE - 16, BASE + 1])
def test_a_batch_with_a_smaller_offset_is_not_skipped(reader: SegmentReader, wrong: int) -> None:
    file, batches = reader.log.get(), _batches(reader)
    size, (position, base, end) = file.size(), batches[3]
    file.write_at(position, wrong.to_bytes(8))
    for offset in (base, end - 1, end):
        with pytest.raises(KafkaError, match=f"position {position} is out of place"):
            reader.position_of(offset, size)
    for start, first, next_offset in (*batches[:3], *batches[4:]):
        assert reader.position_of(first, size) == reader.position_of(next_offset - 1, size) == start


def test_the_last_boundary_up_to_a_position(reader: SegmentReader) -> None:
    size = reader.log.get().size()
    boundaries = [position for position, _, _ in _batches(reader)] + [size]
    for start in boundaries[:-1]:
        for limit in range(start, size + 1):
            expected = max(boundary for boundary in boundaries if boundary <= limit)
            assert reader.boundary(start, limit, size) == expected


def test_ranges_have_whole_batches(reader: SegmentReader) -> None:
    size = reader.log.get().size()
    second = _batches(reader)[1][0]
    assert reader.range(second, second, 1000, at_least_one=True) is None
    whole = reader.range(0, size, size, at_least_one=False)
    assert whole is not None
    assert len(whole) == size
    too_large = reader.range(0, size, second - 1, at_least_one=False)
    assert too_large is not None
    assert len(too_large) == 0
    first = reader.range(0, size, 1, at_least_one=True)
    assert first is not None
    assert header_of(first.read()).size == len(first) == second


def test_the_first_record_at_or_after_a_time(reader: SegmentReader) -> None:
    size = reader.log.get().size()
    assert reader.find_timestamp(5, 0, 10_000, size) == (5, 1000, 3)
    assert reader.find_timestamp(6, 0, 10_000, size) == (9, 1013, 3)
    assert reader.find_timestamp(10, 0, 10_000, size) == (12, 1047, 3)
    assert reader.find_timestamp(31, 0, 10_000, size) == (40, 1071, 3)
    assert reader.find_timestamp(41, 0, 10_000, size) is None
    assert reader.find_timestamp(0, 1001, 10_000, size) == (3, 1001, 3)
    assert reader.find_timestamp(9, 1014, 10_000, size) == (9, 1025, 3)
    assert reader.find_timestamp(10, 0, 1047, size) is None


def test_the_largest_timestamp_of_a_range(reader: SegmentReader) -> None:
    size = reader.log.get().size()
    assert reader.max_timestamp(0, 10_000, size) == 40
    assert reader.max_timestamp(0, 1071, size) == 30
    assert reader.max_timestamp(0, 1012, size) == 5
    assert reader.max_timestamp(1001, 1012, size) == 3
    assert reader.max_timestamp(1048, 1062, size) == 12
    assert reader.max_timestamp(1002, 1012, size) == -1


@pytest.mark.parametrize("step_ms", [0, 1])
def test_batches_before_the_range_are_not_walked_over(step_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    open_files = OpenFiles(SimulatedFiles())
    index = SegmentIndex(open_files, "", 0, interval_bytes=4096)
    reader = SegmentReader(0, LazyFile(open_files, "/log", create=True), index, 4096)
    count, largest = 500, -1
    for offset in range(count):
        time = 1000 + step_ms * offset
        index.new.on_batch(offset, reader.log.get().size(), largest)
        reader.log.get().append(build_batch([Record(offset, time, None, bytes(8000))], base_offset=offset))
        largest = time
    read_bytes = 0

    def read_at(file: SimulatedFile, position: int, size: int) -> bytes:
        nonlocal read_bytes
        read_bytes += size
        return bytes(file.node.content[position : position + size])

    monkeypatch.setattr(SimulatedFile, "read_at", read_at)
    size = reader.log.get().size()
    assert reader.find_timestamp(0, 400, count, size) == (1000 + step_ms * 400, 400, -1)
    assert reader.max_timestamp(400, count, size) == largest
    assert reader.max_timestamp(10, count - 1, size) == 1000 + step_ms * (count - 2)
    assert read_bytes < 6 * FAR_BYTES < size / 2


def _reader_of(batch: bytes | bytearray) -> SegmentReader:
    open_files = OpenFiles(SimulatedFiles())
    index = SegmentIndex(open_files, "", 0, interval_bytes=4096)
    reader = SegmentReader(0, LazyFile(open_files, "/log", create=True), index, 4096)
    reader.log.get().append(batch)
    return reader


@pytest.mark.parametrize("append_time", [None, 7000])
def test_the_records_of_a_large_batch_are_held_one_at_a_time(append_time: int | None) -> None:
    count = 3_000
    records = (Record(offset, 1000 + offset, b"key", b"") for offset in range(count))
    reader = _reader_of(build_batch(records, append_time=append_time, compression=Compression.ZSTD))
    size = reader.log.get().size()
    first, last = (1000 + 9, 1000 + count - 1) if append_time is None else (append_time, append_time)
    tracemalloc.start()
    assert reader.find_timestamp(1009, 9, count, size) == (first, 9, -1)
    assert reader.find_timestamp(last, 10, count, size) == (last, count - 1 if append_time is None else 10, -1)
    assert reader.max_timestamp(10, count - 1, size) == last - (append_time is None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * count
