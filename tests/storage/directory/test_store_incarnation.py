from uuid import UUID

import pytest
from simulation.files import SimulatedFiles

from tailrace.protocol.ids import Epoch
from tailrace.storage.directory.promises import PROMISE_BYTES, Promises
from tailrace.storage.directory.store_incarnation import take_store_incarnation

DATA = "/data"
KEY = (UUID(int=1), 0)
FIRST, SECOND = UUID(int=11), UUID(int=12)


async def started(
    disk: SimulatedFiles, new: UUID, *, clean: bool = False, lacks_replicas: bool = False
) -> tuple[str, bool]:
    """Starts the store. Returns the incarnation, and whether its replica is in doubt."""
    promises = Promises(disk, DATA)
    incarnation = await take_store_incarnation(
        disk, DATA, promises, clean=clean, lacks_replicas=lacks_replicas, new=new
    )
    return incarnation, promises.is_in_doubt(KEY)


async def used() -> SimulatedFiles:
    disk = SimulatedFiles()
    disk.make_directories(DATA)
    await disk.sync_directory("")
    assert await started(disk, FIRST) == (str(FIRST), False)
    await Promises(disk, DATA).promise(KEY, Epoch(1))
    return disk


async def test_a_killed_process_has_lost_nothing() -> None:
    disk = await used()
    assert await started(disk.after_kill(), SECOND) == (str(FIRST), False)


async def test_unsynced_records_of_a_killed_process_are_synced_before_they_count() -> None:
    disk = await used()
    disk.syncs_fail = True
    with pytest.raises(OSError):
        await Promises(disk, DATA).promise(KEY, Epoch(2))
    after = disk.after_kill()
    await started(after, SECOND)
    assert Promises(after.crash("synced"), DATA).epoch(KEY) == 2


async def test_after_a_power_failure_every_replica_is_in_doubt() -> None:
    disk = (await used()).crash("synced")
    assert await started(disk, SECOND) == (str(SECOND), True)
    assert await started(disk.after_kill(), UUID(int=13)) == (str(SECOND), True)


async def test_after_a_clean_stop_the_machine_may_stop_too() -> None:
    disk = (await used()).crash("synced")
    assert await started(disk, SECOND, clean=True) == (str(FIRST), False)
    assert await started(disk.after_kill(), SECOND) == (str(FIRST), False)


async def test_without_a_boot_id_the_store_is_not_trusted() -> None:
    disk = await used()
    disk.boot_id = lambda: ""  # type: ignore[method-assign]
    assert await started(disk, SECOND) == (str(SECOND), True)
    assert await started(disk, UUID(int=13)) == (str(UUID(int=13)), True)


async def test_a_damaged_file_makes_a_new_incarnation() -> None:
    disk = await used()
    disk.open(f"{DATA}/store").write_at(20, b"x")
    assert await started(disk, SECOND, clean=True) == (str(SECOND), True)


@pytest.mark.parametrize("clean", [True, False])
async def test_missing_logs_make_a_new_incarnation(clean: bool) -> None:
    disk = await used()
    assert await started(disk, SECOND, clean=clean, lacks_replicas=True) == (str(SECOND), True)
    assert await started(disk.after_kill(), UUID(int=13), clean=clean) == (str(SECOND), True)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("is_empty", [True, False])
async def test_lost_promises_make_a_new_incarnation(clean: bool, is_empty: bool) -> None:
    disk = await used()
    if is_empty:
        disk.open(f"{DATA}/promises").truncate(0)
    else:
        disk.remove(f"{DATA}/promises")
    incarnation, _ = await started(disk, SECOND, clean=clean)
    assert incarnation == str(SECOND)


async def test_an_interrupted_start_without_promises_is_completed_by_the_next() -> None:
    disk = await used()
    disk.remove(f"{DATA}/promises")
    states: list[SimulatedFiles] = []
    disk.on_operation = lambda: states.append(disk.after_kill())
    assert (await started(disk, SECOND))[0] == str(SECOND)
    disk.on_operation = lambda: None
    assert len(states) > 3
    for state in states:
        assert (await started(state, UUID(int=13)))[0] in (str(SECOND), str(UUID(int=13)))


async def test_a_flipped_bit_in_the_promises_makes_a_new_incarnation_also_after_a_clean_stop() -> None:
    disk = await used()
    await Promises(disk, DATA).promise((UUID(int=2), 0), Epoch(1))
    disk.flip(f"{DATA}/promises", 6 + PROMISE_BYTES + 1, 0, is_covered=True)
    assert await started(disk, SECOND, clean=True) == (str(SECOND), True)
    assert await started(disk.after_kill(), UUID(int=13)) == (str(SECOND), True)


async def test_a_failed_disk_may_lose_data_while_the_machine_runs() -> None:
    disk = await used()
    await Promises(disk, DATA).note_failed_disk()
    assert await started(disk, SECOND) == (str(SECOND), True)
    assert await started(disk.after_kill(), UUID(int=13)) == (str(SECOND), True)


async def test_an_interrupted_start_after_a_failed_disk_is_completed_by_the_next() -> None:
    disk = await used()
    await Promises(disk, DATA).note_failed_disk()
    states: list[SimulatedFiles] = []
    disk.on_operation = lambda: states.append(disk.after_kill())
    await started(disk, SECOND)
    disk.on_operation = lambda: None
    assert len(states) > 3
    for state in states:
        assert (await started(state, UUID(int=13)))[0] in (str(SECOND), str(UUID(int=13)))
