"""The logs of shelves: how many stay open, what a crash leaves of them, and how one replaces another."""

from uuid import UUID

import pytest
import trio
import trio.testing
from batch_samples import header_of, make_batch
from simulation.files import Keep, SimulatedFiles

from tailrace.storage.directory.layout import ShelfKey, removed_shelves_directory, shelves_directory
from tailrace.storage.log.log import Log
from tailrace.storage.log.shelf_logs import ShelfLogs

pytestmark = pytest.mark.trio

DATA = "/data"
KEYS = [ShelfKey(UUID(int=7), 0, base) for base in (0, 100, 200, 300)]


async def _files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories(DATA)
    await files.sync_directory("")
    return files


def _append(log: Log, count: int) -> None:
    for _ in range(count):
        batch = make_batch(log.log_end)
        log.append(batch, header_of(batch))


async def _fill(logs: ShelfLogs, directory: str, base: int, count: int) -> None:
    async with logs.using(directory) as log:
        await log.truncate_fully(base)
        _append(log, count)
        await log.end_segment()


async def _range(logs: ShelfLogs, key: ShelfKey) -> tuple[int, int]:
    async with logs.using(logs.directory(key)) as log:
        return log.log_start, log.log_end


async def test_the_least_recently_used_log_is_closed_and_opens_without_a_scan() -> None:
    logs = ShelfLogs(DATA, await _files(), open_logs_max=2)
    for key in KEYS:
        await _fill(logs, logs.directory(key), key.base, 3)
    assert logs.open_count == 2
    for key in (KEYS[2], KEYS[0], KEYS[2]):
        async with logs.using(logs.directory(key)) as log:
            assert (log.log_start, log.log_end) == (key.base, key.base + 3)
            assert log.recovery.was_clean
    assert logs.open_count == 2
    assert [logs.size_bytes(logs.directory(key)) for key in KEYS] == [300] * 4


async def test_a_log_in_use_is_not_closed_and_excess_users_wait() -> None:
    logs = ShelfLogs(DATA, await _files(), open_logs_max=2)
    async with trio.open_nursery() as nursery, logs.using(logs.directory(KEYS[0])) as log:
        for key in KEYS[1:3]:
            await _range(logs, key)
        assert logs.open_count == 2
        _append(log, 1)
        async with logs.using(logs.directory(KEYS[1])):
            nursery.start_soon(_range, logs, KEYS[3])
            await trio.testing.wait_all_tasks_blocked()
            assert logs.open_count == 2
        assert not log.has_failed
    assert logs.open_count == 2


async def test_a_removal_waits_for_users_of_the_log() -> None:
    files = await _files()
    logs = ShelfLogs(DATA, files)
    directory = logs.directory(KEYS[0])
    await _fill(logs, directory, 0, 3)
    async with trio.open_nursery() as nursery, logs.using(directory) as log:
        nursery.start_soon(logs.remove, directory)
        await trio.testing.wait_all_tasks_blocked()
        _append(log, 1)
    assert (logs.found(), files.list(directory), logs.size_bytes(directory)) == ([], [], 0)
    assert files.list(removed_shelves_directory(DATA)) == []
    assert await _range(logs, KEYS[0]) == (0, 0)


async def test_concurrent_users_share_one_open_log() -> None:
    logs = ShelfLogs(DATA, await _files())
    found: list[Log] = []

    async def use() -> None:
        async with logs.using(logs.directory(KEYS[0])) as log:
            found.append(log)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(use)
    assert len(set(map(id, found))) == 1


@pytest.mark.parametrize("keep", ["all", "synced"])
async def test_synced_records_survive_a_crash(keep: Keep) -> None:
    files = await _files()
    logs = ShelfLogs(DATA, files)
    await _fill(logs, logs.directory(KEYS[1]), 100, 3)
    async with logs.using(logs.directory(KEYS[1])) as log:
        _append(log, 2)
    crashed = ShelfLogs(DATA, files.crash(keep))
    assert crashed.found() == [KEYS[1]]
    assert crashed.size_bytes(crashed.directory(KEYS[1])) == (500 if keep == "all" else 300)
    assert await _range(crashed, KEYS[1]) == (100, 105 if keep == "all" else 103)


async def test_a_failed_log_is_opened_again() -> None:
    logs = ShelfLogs(DATA, await _files())
    directory = logs.directory(KEYS[0])
    await _fill(logs, directory, 0, 3)
    async with logs.using(directory) as log:
        log.disk.fail("a failed sync", OSError("broken"))
    async with logs.using(directory) as again:
        assert again is not log
        assert (again.log_end, again.recovery.was_clean) == (3, False)


async def test_reopening_writes_what_a_failed_sync_may_have_lost() -> None:
    files = await _files()
    logs = ShelfLogs(DATA, files)
    directory = logs.directory(KEYS[0])
    await _fill(logs, directory, 0, 3)
    async with logs.using(directory) as log:
        _append(log, 2)
        files.syncs_fail = True
        with pytest.raises(OSError, match="broken"):
            await log.sync()
        files.syncs_fail = False
    async with logs.using(directory) as again:
        await again.sync()
    assert await _range(ShelfLogs(DATA, files.crash("synced")), KEYS[0]) == (0, 5)


async def test_a_replacement_takes_the_place_of_the_shelf() -> None:
    files = await _files()
    logs = ShelfLogs(DATA, files)
    await _fill(logs, logs.directory(KEYS[1]), 100, 3)
    await _fill(logs, logs.replacement(KEYS[1]), 100, 4)
    assert (logs.size_bytes(logs.directory(KEYS[1])), logs.size_bytes(logs.replacement(KEYS[1]))) == (300, 400)
    await logs.put_replacement_in_place(KEYS[1])
    assert await _range(logs, KEYS[1]) == (100, 104)
    assert (logs.size_bytes(logs.directory(KEYS[1])), logs.size_bytes(logs.replacement(KEYS[1]))) == (400, 0)
    assert len(files.list(shelves_directory(DATA))) == 1
    crashed = ShelfLogs(DATA, files.crash("synced"))
    await crashed.end_replacements()
    assert await _range(crashed, KEYS[1]) == (100, 104)


@pytest.mark.parametrize("keep", ["all", "synced"])
async def test_an_unfinished_replacement_is_discarded_or_completed(keep: Keep) -> None:
    files = await _files()
    logs = ShelfLogs(DATA, files)
    for key in KEYS[:2]:
        await _fill(logs, logs.replacement(key), key.base, 4)
    await _fill(logs, logs.directory(KEYS[1]), 100, 3)
    crashed_files = files.crash(keep)
    crashed = ShelfLogs(DATA, crashed_files)
    await crashed.end_replacements()
    assert crashed.found() == KEYS[:2]
    assert await _range(crashed, KEYS[0]) == (0, 4)
    assert await _range(crashed, KEYS[1]) == (100, 103)
    assert len(crashed_files.list(shelves_directory(DATA))) == 2


async def test_all_are_closed_at_the_end() -> None:
    files = await _files()
    logs = ShelfLogs(DATA, files)
    await _fill(logs, logs.directory(KEYS[0]), 0, 3)
    async with logs.using(logs.directory(KEYS[0])) as log:
        _append(log, 1)
    await logs.close()
    assert logs.open_count == 0
    assert await _range(ShelfLogs(DATA, files.crash("synced")), KEYS[0]) == (0, 4)
