"""Checkpoints are read back, and damaged ones count as missing."""

from uuid import UUID

import pytest
from simulation.files import SimulatedFiles

from tailrace.protocol.ids import NO_EPOCH, Epoch
from tailrace.storage.directory.checkpoints import (
    SavedHighWatermark,
    load_high_watermarks,
    load_removed_replicas,
    save_high_watermarks,
    save_removed_replicas,
    take_clean_shutdown_mark,
    write_clean_shutdown_mark,
)
from tailrace.storage.directory.layout import clean_shutdown_path, high_watermarks_path, removed_replicas_path

pytestmark = pytest.mark.trio

MARKS = {
    (UUID(int=7), 0): SavedHighWatermark(12, Epoch(3)),
    (UUID(int=7), 1): SavedHighWatermark(2**40, Epoch(2**31 - 1)),
    (UUID(int=9), 0): SavedHighWatermark(0, NO_EPOCH),
}


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/data")
    return files


async def test_the_clean_shutdown_mark_is_good_for_one_start(files: SimulatedFiles) -> None:
    await files.sync_directory("")
    assert await take_clean_shutdown_mark(files, "/data") is None
    for closed in ((), MARKS):
        await write_clean_shutdown_mark(files, "/data", closed)
        files = files.crash("synced")
        assert await take_clean_shutdown_mark(files, "/data") == set(closed)
        files = files.crash("synced")
        assert await take_clean_shutdown_mark(files, "/data") is None


async def test_a_damaged_clean_shutdown_mark_is_ignored(files: SimulatedFiles) -> None:
    await write_clean_shutdown_mark(files, "/data", MARKS)
    file = files.open(clean_shutdown_path("/data"))
    file.write_at(7, bytes([file.read_at(7, 1)[0] ^ 4]))
    assert await take_clean_shutdown_mark(files, "/data") is None
    assert not files.exists(clean_shutdown_path("/data"))


async def test_high_watermarks_are_read_back(files: SimulatedFiles) -> None:
    assert load_high_watermarks(files, "/data") == {}
    await save_high_watermarks(files, "/data", {})
    assert load_high_watermarks(files, "/data") == {}
    await save_high_watermarks(files, "/data", MARKS)
    assert load_high_watermarks(files, "/data") == MARKS


async def test_a_damaged_file_of_high_watermarks_is_ignored(files: SimulatedFiles) -> None:
    await save_high_watermarks(files, "/data", MARKS)
    file = files.open(high_watermarks_path("/data"))
    for position in range(file.size()):
        whole = file.read_at(position, 1)
        file.write_at(position, bytes([whole[0] ^ 4]))
        assert load_high_watermarks(files, "/data") == {}
        file.write_at(position, whole)
    file.truncate(5)
    assert load_high_watermarks(files, "/data") == {}


async def test_replacing_high_watermarks_leaves_the_old_or_the_new(files: SimulatedFiles) -> None:
    await files.sync_directory("")
    await save_high_watermarks(files, "/data", MARKS)
    newer = {(UUID(int=7), 0): SavedHighWatermark(13, Epoch(3))}
    found = []

    def crash() -> None:
        found.extend(load_high_watermarks(files.crash(keep), "/data") for keep in ("all", "synced"))

    files.on_operation = crash
    await save_high_watermarks(files, "/data", newer)
    assert MARKS in found
    assert newer in found
    assert all(each in (MARKS, newer) for each in found)


async def test_removed_replicas_are_read_back_in_order_or_not_at_all(files: SimulatedFiles) -> None:
    assert load_removed_replicas(files, "/data") == []
    removed = [(UUID(int=7), 3), (UUID(int=2), 0)]
    await save_removed_replicas(files, "/data", removed)
    assert load_removed_replicas(files, "/data") == removed
    files.open(removed_replicas_path("/data")).write_at(9, b"x")
    assert load_removed_replicas(files, "/data") == []
