import pytest
import trio
from simulation.files import SimulatedFiles

from tailrace.runtime.directories import make_directories_durably


async def test_directories_survive_a_power_failure() -> None:
    files = SimulatedFiles()
    await make_directories_durably(files, "/data/cluster/sc")
    after = files.crash("synced")
    assert after.exists("/data/cluster/sc")


@pytest.mark.parametrize("operations", range(1, 7))
async def test_directories_of_a_killed_process_are_made_durable(operations: int) -> None:
    files = SimulatedFiles()
    left = operations

    def be_killed() -> None:
        nonlocal left
        left -= 1
        if not left:
            scope.cancel()

    files.on_operation = be_killed
    with trio.CancelScope() as scope:
        await make_directories_durably(files, "/data/cluster/sc")
    files = files.after_kill()
    await make_directories_durably(files, "/data/cluster/sc")
    assert files.crash("synced").exists("/data/cluster/sc")


async def test_a_directory_with_an_unreadable_parent_is_left_alone() -> None:
    class OthersFiles(SimulatedFiles):
        async def sync_directory(self, directory: str) -> None:
            raise PermissionError(directory)

    files = OthersFiles()
    files.make_directories("/data")
    await make_directories_durably(files, "/data")
