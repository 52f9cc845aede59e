"""No log misses a sync of a directory, and no needless sync happens."""

import pytest
import trio
from simulation.files import SimulatedFiles
from trio.testing import wait_all_tasks_blocked

from tailrace.storage.directory.directory_syncs import DIRECTORIES_MAX, DirectorySyncs


class NotingFiles(SimulatedFiles):
    """Files that note which directories were synced; each sync waits until the test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.may_go_on = trio.Event()
        self.may_go_on.set()

    async def sync_directory(self, directory: str) -> None:
        self.synced.append(directory)
        await self.may_go_on.wait()
        if self.syncs_fail:
            raise OSError("broken")


async def test_one_sync_is_enough_for_all_earlier_callers() -> None:
    files = NotingFiles()
    syncs = DirectorySyncs(files)
    first, second = syncs.next_number(), syncs.next_number()
    for number in (first, second, first):
        await syncs.sync("/data/topics", number)
    assert files.synced == ["/data/topics"]
    await syncs.sync("/data", second)
    await syncs.sync("/data/topics", syncs.next_number())
    assert files.synced == ["/data/topics", "/data", "/data/topics"]


async def test_a_running_sync_does_not_count_for_later_callers(nursery: trio.Nursery) -> None:
    files = NotingFiles()
    syncs = DirectorySyncs(files)
    files.may_go_on = trio.Event()
    nursery.start_soon(syncs.sync, "/data", syncs.next_number())
    await wait_all_tasks_blocked()
    later = syncs.next_number()
    files.may_go_on.set()
    await wait_all_tasks_blocked()
    await syncs.sync("/data", later)
    assert files.synced == ["/data"] * 2


async def test_a_sync_that_has_not_ended_or_has_failed_does_not_count(nursery: trio.Nursery) -> None:
    files = NotingFiles()
    syncs = DirectorySyncs(files)
    number = syncs.next_number()
    files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await syncs.sync("/data", number)
    files.syncs_fail, files.may_go_on = False, trio.Event()
    for _ in range(2):
        nursery.start_soon(syncs.sync, "/data", number)
    await wait_all_tasks_blocked()
    assert files.synced == ["/data"] * 3
    files.may_go_on.set()


async def test_a_forgotten_directory_is_synced_again() -> None:
    files = NotingFiles()
    syncs = DirectorySyncs(files)
    number = syncs.next_number()
    for directory in range(DIRECTORIES_MAX + 1):
        await syncs.sync(f"/data/{directory}", number)
    await syncs.sync("/data/0", number)
    assert len(files.synced) == DIRECTORIES_MAX + 2
