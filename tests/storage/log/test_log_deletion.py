"""Deletion of the beginning of a log, by request and by retention, and on a full disk."""

import errno
from random import Random
from types import SimpleNamespace
from typing import Never

import pytest
import trio
from batch_samples import header_of, make_batch
from log_samples import CONFIG, append, offsets, open_log, produced
from msgspec.structs import replace
from simulation.files import Keep, SimulatedFile, SimulatedFiles

from tailrace.storage.log import log_disk

pytestmark = pytest.mark.trio


async def test_a_log_goes_on_after_everything_was_deleted(files: SimulatedFiles) -> None:
    log = open_log(files, replace(CONFIG, retention_ms=10))
    append(log, 25, epoch=3)
    removed = await log.apply_retention(1000, 25)
    assert [segment.end for segment in removed] == [10, 20, 25]
    assert (log.log_start, log.log_end, log.size_bytes) == (25, 25, 0)
    assert await log.apply_retention(1000, 25) == []
    for again in (log, open_log(files.crash("all")), open_log(files.crash("synced"))):
        assert (again.log_start, again.log_end) == (25, 25)
        assert again.epoch_end(3) == (3, 25)
        append(again, epoch=4)
        assert again.epoch_end(3) == (3, 25)
        assert offsets(again) == [25]


async def test_retention_stops_at_the_high_watermark(files: SimulatedFiles) -> None:
    log = open_log(files, replace(CONFIG, retention_ms=10))
    append(log, 25)
    await log.apply_retention(1000, 15)
    assert log.log_start == 10


async def test_nobody_waits_while_large_files_are_removed(files: SimulatedFiles, autojump_clock: object) -> None:
    log = open_log(files, replace(CONFIG, retention_ms=10))
    append(log, 25)
    files.removal_seconds = 9.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.apply_retention, 1000, 20)
        await trio.testing.wait_all_tasks_blocked()
        append(log, 3)
        assert offsets(log) == list(range(20, 28))
    await log.close()
    assert offsets(open_log(files)) == list(range(20, 28))


@pytest.mark.parametrize("keep", ["all", "synced"])
async def test_reads_work_on_a_full_disk_without_indexes(files: SimulatedFiles, keep: Keep) -> None:
    """After a process was killed, or its machine lost power, no index is on the disk."""
    log = open_log(files)
    append(log, 25)
    await log.sync()
    after = files.crash(keep)
    for path in after.paths():
        if path.endswith((".index", ".timeindex")):
            after.remove(path)
    after.room_bytes = 0
    again = open_log(after)
    assert offsets(again) == list(range(25))
    assert [next(again.headers(offset, offset + 1))[0].base_offset for offset in range(25)] == list(range(25))
    await again.sync()
    after.room_bytes = None
    append(again, 3)
    await again.close()
    assert offsets(open_log(after)) == list(range(28))


async def test_retention_makes_room_on_a_full_disk(files: SimulatedFiles) -> None:
    log = open_log(files, replace(CONFIG, retention_ms=10))
    append(log, 25)
    files.room_bytes = 0
    removed = await log.apply_retention(1000, 20)
    assert [segment.end for segment in removed] == [10, 20]
    append(log, 10)
    assert offsets(log) == list(range(20, 35))


@pytest.mark.parametrize("is_asked_for", [True, False])
async def test_deleting_a_whole_log_frees_a_full_disk(files: SimulatedFiles, is_asked_for: bool) -> None:
    log = open_log(files)
    append(log, 25)
    await log.sync()
    files.room_bytes = 0
    if is_asked_for:
        await log.advance_log_start(25)
    else:
        assert len(await log.apply_retention(10**12, 25)) == 3
    assert (log.log_start, log.log_end, log.size_bytes) == (25, 25, 0)
    assert files.room_bytes > 2000
    append(log, 2)
    await log.sync()
    assert offsets(log) == offsets(open_log(files.crash("synced"))) == [25, 26]


async def test_records_stay_if_the_manifest_cannot_be_written(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 5)
    files.room_bytes = 0
    with pytest.raises(OSError, match="no space"):
        await log.advance_log_start(3)
    assert log.log_start == 0
    files.room_bytes = None
    await log.advance_log_start(3)
    assert offsets(log) == [3, 4]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
async def test_segments_that_could_not_be_removed_keep_their_indexes(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    log = open_log(files)
    append(log, 25)
    await log.sync()
    segments = log.segment_list.sealed[:2]

    def fail(_: object) -> Never:
        raise OSError(number, "it fails")

    with monkeypatch.context() as patch:
        patch.setattr(log.disk, "_manifest", SimpleNamespace(append=fail))
        for offset in (20, 25):
            with pytest.raises(OSError, match="it fails"):
                await log.advance_log_start(offset)
    assert offsets(log) == list(range(25))
    assert [len(segment.reader.index) for segment in segments] == [9, 9]
    for again in (log, open_log(files.crash("synced"))):
        await again.advance_log_start(20)
        assert offsets(again) == list(range(20, 25))


async def test_segments_to_remove_are_readable_until_the_manifest_says_so(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(files)
    data = produced(0, epoch=0)
    log.append(data, header_of(data))
    append(log, 24)
    await log.sync()
    segment = log.segment_list.sealed[0]
    before, entries = len(segment.reader.index), []
    sync_note = log.disk.sync_note

    async def look(file: SimulatedFile) -> None:
        entries.append((log.log_start, len(segment.reader.index)))
        await sync_note(file)

    monkeypatch.setattr(log_disk.LogDisk, "sync_note", lambda _, file: look(file))
    await log.advance_log_start(20)
    assert entries == [(0, before), (20, before)]


async def test_deleting_all_records_frees_their_bytes(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 5)
    await log.advance_log_start(5)
    assert log.size_bytes == 0
    append(log, 1)
    assert offsets(open_log(files.crash("all"))) == [5]


async def test_what_was_deleted_before_it_was_synced_may_come_back_torn(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 5)
    await log.sync()
    append(log, 20)
    await log.advance_log_start(24)

    def crash() -> None:
        for seed in range(10):
            assert offsets(open_log(files.crash(Random(seed)))) in ([], [24])

    files.on_operation = crash
    await log.close()


async def test_no_power_failure_takes_the_batch_in_which_a_log_starts(files: SimulatedFiles) -> None:
    log = open_log(files)
    batch = make_batch(0, 4, size=200)
    log.append(batch, header_of(batch))
    await log.advance_log_start(2)
    after = open_log(files.crash("synced"))
    assert (after.log_start, after.log_end) == (2, 4)
