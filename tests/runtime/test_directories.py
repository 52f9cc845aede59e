from simulation.files import SimulatedFiles

from tailrace.runtime.directories import make_directories_durably


async def test_directories_outlive_a_power_failure() -> None:
    files = SimulatedFiles()
    await make_directories_durably(files, "/data/cluster/sc")
    after = files.crash("synced")
    assert after.exists("/data/cluster/sc")


async def test_what_is_there_is_left_alone() -> None:
    files = SimulatedFiles()
    await make_directories_durably(files, "/data")
    files.syncs_fail = True
    await make_directories_durably(files, "/data")
