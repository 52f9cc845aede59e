"""The index files of a segment."""

import errno
import os
from pathlib import Path

import pytest
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.runtime.files import RealFiles, UnreadableError
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.indexes.segment_index import BEGINNING, BUFFERED_ENTRIES_MAX, UNWRITTEN_ENTRIES_MAX, SegmentIndex

COUNT = 100


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/r")
    return files


def _index(files: SimulatedFiles) -> SegmentIndex:
    return SegmentIndex(OpenFiles(files, 2), "/r", 0, interval_bytes=10)


def _fill(index: SegmentIndex, start: int = 0, end: int = COUNT) -> None:
    """Fills the index: batch n has offset 2 n, position 10 n, and timestamps up to 3 n before it."""
    for number in range(start, end):
        if index.wants_write:
            index.write()
        index.new.on_batch(2 * number, 10 * number, 3 * number)


def _check(index: SegmentIndex, count: int = COUNT) -> None:
    for number in range(1, count):
        assert index.before_offset(2 * number) == (2 * number, 10 * number, 3 * number)
        assert index.before_offset(2 * number + 1) == (2 * number, 10 * number, 3 * number)
        assert index.up_to_position(10 * number + 9).position == 10 * number
        assert index.before_time(3 * number + 1).position == 10 * number
        assert index.before_time(3 * number).position == 10 * (number - 1)
    assert index.before_offset(1) == BEGINNING
    assert index.up_to_position(9) == BEGINNING
    assert index.before_time(0) == BEGINNING


def _reopened(files: SimulatedFiles, index: SegmentIndex) -> SegmentIndex:
    again = _index(files)
    again.trust(len(index), index.checksum, index.time_checksum, index.last_position)
    return again


def _rebuild() -> IndexEntries:
    entries = IndexEntries(10)
    for number in range(COUNT):
        entries.on_batch(2 * number, 10 * number, 3 * number)
    return entries


def test_lookups_find_written_and_buffered_entries(files: SimulatedFiles) -> None:
    index = _index(files)
    _fill(index)
    assert 0 < files.size("/r/00000000000000000000.index") < (COUNT - 1) * 8
    assert len(index) == COUNT - 1
    _check(index)
    _fill(index, COUNT, COUNT + 3 * BUFFERED_ENTRIES_MAX)
    _check(index, COUNT + 3 * BUFFERED_ENTRIES_MAX)


def test_another_process_continues_where_this_one_ended(files: SimulatedFiles) -> None:
    index = _index(files)
    _fill(index)
    index.write()
    again = _reopened(files, index)
    assert again.ensure_sound(_rebuild)
    _check(again)
    _fill(again, COUNT, 2 * COUNT)
    again.write()
    _check(_reopened(files, again), 2 * COUNT)
    assert _reopened(files, again).ensure_sound(_rebuild)


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "short", "odd", "flipped"])
def test_damaged_files_are_rebuilt(files: SimulatedFiles, kind: str, damage: str) -> None:
    index = _index(files)
    _fill(index)
    index.write()
    path = f"/r/00000000000000000000.{kind}"
    size = files.size(path)
    if damage == "missing":
        files.remove(path)
    elif damage == "flipped":
        file = files.open(path)
        file.write_at(size // 2, bytes([file.read_at(size // 2, 1)[0] ^ 1]))
    else:
        files.open(path).truncate({"empty": 0, "short": size - 8, "odd": size - 3}[damage])
    again = _reopened(files, index)
    assert not again.ensure_sound(_rebuild)
    _check(again)
    assert _reopened(files, again).ensure_sound(_rebuild)


def test_an_index_that_cannot_be_written_is_whole_in_memory_and_written_later(files: SimulatedFiles) -> None:
    index = _index(files)
    files.room_bytes = 100
    with pytest.raises(OSError) as caught:
        _fill(index)
    assert caught.value.errno == errno.ENOSPC
    count = len(index) + 1
    _check(index, count)
    files.room_bytes = None
    _fill(index, count)
    index.write()
    _check(index)
    assert _reopened(files, index).ensure_sound(_rebuild)


@pytest.mark.parametrize("room", [0, 100, 1000])
def test_a_rebuilt_index_without_room_stays_in_memory(files: SimulatedFiles, room: int) -> None:
    """The next opening rebuilds it again, whichever of the two files had room."""
    index = _index(files)
    _fill(index)
    index.write()
    again = _reopened(files, index)
    files.remove("/r/00000000000000000000.index")
    files.remove("/r/00000000000000000000.timeindex")
    files.room_bytes = room
    assert not again.ensure_sound(_rebuild)
    _check(again)
    files.room_bytes = None
    last = _reopened(files, index)
    assert not last.ensure_sound(_rebuild)
    _check(last)


def test_an_index_without_room_is_thinned_out(files: SimulatedFiles) -> None:
    index, count = _index(files), 4 * UNWRITTEN_ENTRIES_MAX + 1
    entries = IndexEntries(10)
    for number in range(count):
        entries.on_batch(2 * number, 10 * number, 3 * number)
    files.room_bytes = 0
    index.replace(entries)
    assert UNWRITTEN_ENTRIES_MAX / 2 < len(index) <= UNWRITTEN_ENTRIES_MAX
    for number in range(0, count, 97):
        before = index.before_offset(2 * number), index.up_to_position(10 * number), index.before_time(3 * number + 1)
        assert len(set(before)) == 1
        relative_offset, position, largest_before = before[0]
        assert 2 * number - 20 < relative_offset <= 2 * number
        assert (position, largest_before) == (5 * relative_offset, max(-1, 3 * relative_offset // 2) or -1)
    assert index.last_position == 10 * (count - 1), "the next entry is as far away as ever"


def test_an_unreadable_file_is_not_read_through_the_map(files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """That would end the process, and every later one that uses this index."""
    index = _index(files)
    _fill(index)
    index.write()
    again = _reopened(files, index)
    with monkeypatch.context() as damaged:

        def end_process(_: SimulatedFile) -> memoryview:
            raise AssertionError("SIGBUS")

        def read(path: str) -> bytes:
            raise UnreadableError(path)

        damaged.setattr(SimulatedFile, "map", end_process)
        damaged.setattr(files, "read", read)
        assert not again.ensure_sound(_rebuild)
    _check(again)


def test_an_empty_index_needs_no_files(files: SimulatedFiles) -> None:
    index = _index(files)
    index.write()
    assert files.list("/r") == []
    assert index.ensure_sound(_rebuild)
    assert index.before_offset(5) == BEGINNING


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="looks at the maps through /proc")
def test_it_is_memory_mapped_once_it_is_used(tmp_path: Path) -> None:
    def is_mapped() -> bool:
        with open("/proc/self/maps") as maps:
            return str(tmp_path) in maps.read()

    index = SegmentIndex(OpenFiles(RealFiles()), str(tmp_path), 0, interval_bytes=10)
    _fill(index)
    assert not is_mapped()
    _check(index)
    assert is_mapped()
    index.close()
    assert not is_mapped()


@pytest.mark.parametrize("written", [0, 32, 64, 96, 99])
def test_a_truncated_index_equals_one_that_was_never_longer(files: SimulatedFiles, written: int) -> None:
    for kept in (1, 2, 31, 32, 33, 34, 64, 65, 97, 99, 100):
        index = _index(files)
        index.discard()
        for number in range(COUNT):
            index.new.on_batch(2 * number, 10 * number, 3 * number)
            if len(index) == written:
                index.write()
        index.truncate(10 * kept)
        assert len(index) == kept - 1
        _check(index, kept)
        _fill(index, kept)
        _check(index)
        index.write()
        again = _reopened(files, index)
        assert again.ensure_sound(_rebuild)
        _check(again)


def test_an_index_that_cannot_be_truncated_is_rebuilt(files: SimulatedFiles) -> None:
    index = _index(files)
    _fill(index)
    index.write()
    files.remove("/r/00000000000000000000.timeindex")
    index.truncate(500)
    assert not index.ensure_sound(_rebuild)
    _check(index)


def test_an_index_that_made_room_is_rebuilt_when_needed(files: SimulatedFiles) -> None:
    index = _index(files)
    _fill(index)
    index.make_room()
    assert (len(index), files.list("/r")) == (0, [])
    assert not index.ensure_sound(_rebuild)
    _check(index)
    assert index.ensure_sound(_rebuild)
