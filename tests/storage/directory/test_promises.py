from contextlib import suppress
from uuid import UUID

import pytest
import trio
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.protocol.ids import NO_EPOCH, Epoch
from tailrace.storage.directory.promises import PROMISE_BYTES, Promises

DATA = "/data"
A, B = (UUID(int=1), 0), (UUID(int=1), 1)
OTHER = (UUID(int=2), 0)


def files() -> SimulatedFiles:
    made = SimulatedFiles()
    made.make_directories(DATA)
    return made


def reopened(disk: SimulatedFiles) -> Promises:
    """Reopens the file after the machine stopped, with only what was synced."""
    return Promises(disk.crash("synced"), DATA)


async def test_a_replica_without_a_promise_has_no_epoch() -> None:
    assert Promises(files(), DATA).epoch(A) == NO_EPOCH


async def test_a_promise_is_on_the_disk_when_it_is_given() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(3))
    await promises.promise(A, Epoch(5))
    await promises.promise(B, Epoch(0))
    assert [reopened(disk).epoch(key) for key in (A, B, OTHER)] == [5, 0, NO_EPOCH]


async def test_promises_made_together_share_a_sync() -> None:
    disk = files()
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(1))
    syncs = 0

    def count() -> float:
        nonlocal syncs
        syncs += 1
        return 0.0

    disk.sync_seconds = count
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as counting:
        counting.start_soon(count_turns)
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(promises.promise, (UUID(int=9), number), Epoch(1))
        counting.cancel_scope.cancel()
    assert syncs <= 2
    assert turns < 50, "they wake together, since a turn may take long"


async def test_a_torn_record_is_ignored_and_overwritten() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(3))
    torn = disk.open(f"{DATA}/promises")
    torn.append(b"\x01 the machine stopped here")
    again = Promises(disk, DATA)
    assert again.epoch(A) == 3
    await again.promise(B, Epoch(4))
    assert [reopened(disk).epoch(key) for key in (A, B)] == [3, 4]


async def test_records_after_a_corrupt_one_still_count() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    for key in (A, B, OTHER):
        await promises.promise(key, Epoch(3))
    disk.flip(f"{DATA}/promises", 6 + PROMISE_BYTES + 20, 3, is_covered=True)
    again = reopened(disk)
    assert [again.epoch(key) for key in (A, B, OTHER)] == [3, NO_EPOCH, 3]
    assert again.is_incomplete
    await again.promise(B, Epoch(4))
    await again.doubt_all()
    await again.trust_disk()
    whole = reopened(again._files)  # type: ignore[arg-type]
    assert [whole.epoch(key) for key in (A, B, OTHER)] == [3, 4, 3]
    assert whole.is_in_doubt(A)
    assert not whole.is_incomplete


async def test_doubt_stays_until_a_replica_has_caught_up() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    for key in (A, B):
        await promises.promise(key, Epoch(1))
    await promises.doubt_all()
    await promises.promise(OTHER, Epoch(2))
    await promises.end_doubt(A)
    for found in (promises, reopened(disk)):
        assert [found.is_in_doubt(key) for key in (A, B, OTHER)] == [False, True, False]


async def test_a_caller_retries_after_the_write_of_another_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    size = SimulatedFile.size
    kept: list[tuple[UUID, int]] = []

    def fail_once(file: SimulatedFile) -> int:
        monkeypatch.setattr(SimulatedFile, "size", size)
        raise OSError("the disk does not answer")

    async def promise(key: tuple[UUID, int]) -> None:
        with suppress(OSError):
            await promises.promise(key, Epoch(1))
            kept.append(key)

    monkeypatch.setattr(SimulatedFile, "size", fail_once)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(promise, A)
        nursery.start_soon(promise, B)
    assert [reopened(disk).epoch(key) for key in kept] == [1]


async def test_after_a_failed_sync_nothing_is_promised_any_more() -> None:
    disk = files()
    promises = Promises(disk, DATA)
    disk.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await promises.promise(A, Epoch(1))
    disk.syncs_fail = False
    with pytest.raises(OSError, match="broken"):
        await promises.promise(A, Epoch(2))
    assert promises.epoch(A) == NO_EPOCH


async def test_a_failed_disk_is_noted_even_if_a_promise_revealed_it() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(1))
    disk.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await promises.promise(A, Epoch(2))
    with pytest.raises(OSError, match="broken"):
        await promises.note_failed_disk()
    assert Promises(disk.after_kill(), DATA).has_disk_failed, "it is in the page cache at least"
    disk.syncs_fail = False
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(promises.note_failed_disk)
    again = reopened(disk)
    assert (again.has_disk_failed, again.epoch(A)) == (True, 1)
    with pytest.raises(OSError, match="broken"):
        await promises.promise(A, Epoch(3))


async def test_the_note_of_a_failed_disk_survives_a_rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.storage.directory.promises._STALE_RECORDS_MAX", 2)
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    await promises.note_failed_disk()
    for epoch in range(10):
        await promises.promise(A, Epoch(epoch))
    assert reopened(disk).has_disk_failed


async def test_a_file_full_of_old_promises_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.storage.directory.promises._STALE_RECORDS_MAX", 10)
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(1))
    await promises.promise(B, Epoch(1))
    await promises.doubt_all()
    await promises.end_doubt(B)
    await promises.promise(OTHER, Epoch(1))
    for epoch in range(2, 60):
        await promises.promise(B, Epoch(epoch))
    assert disk.size(f"{DATA}/promises") < 33 * 25
    for found in (promises, reopened(disk)):
        assert [found.epoch(key) for key in (A, B, OTHER)] == [1, 59, 1]
        assert [found.is_in_doubt(key) for key in (A, B, OTHER)] == [True, False, False]


async def test_without_room_for_a_second_file_the_long_one_stays_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.storage.directory.promises._STALE_RECORDS_MAX", 10)
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    for epoch in range(1, 12):
        await promises.promise(A, Epoch(epoch))
    long = disk.size(f"{DATA}/promises")
    for epoch in range(12, 16):
        disk.room_bytes = 33
        await promises.promise(A, Epoch(epoch))
    assert disk.size(f"{DATA}/promises") > long
    assert reopened(disk).epoch(A) == 15
    disk.room_bytes = None
    await promises.promise(A, Epoch(16))
    assert disk.size(f"{DATA}/promises") < long
    assert reopened(disk).epoch(A) == 16


async def test_a_replica_that_lost_something_is_in_doubt_until_it_has_caught_up() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(3))
    for key in (A, B):
        await promises.doubt(key)
    again = reopened(disk)
    assert [again.is_in_doubt(key) for key in (A, B)] == [True, False], "the other replica has no promise to doubt"
    assert again.epoch(A) == 3
    await promises.end_doubt(A)
    assert not reopened(disk).is_in_doubt(A)


async def test_removed_storage_is_forgotten() -> None:
    promises = Promises(files(), DATA)
    await promises.promise(A, Epoch(1))
    await promises.promise(OTHER, Epoch(1))
    promises.forget(A[0])
    assert [promises.epoch(key) for key in (A, OTHER)] == [NO_EPOCH, 1]


async def test_removed_storage_stays_forgotten_after_a_restart() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    for key in (A, B, OTHER):
        await promises.promise(key, Epoch(1))
    await promises.doubt_all()
    promises.forget(*A)
    await promises.settle()
    await promises.promise(OTHER, Epoch(2))
    again = reopened(disk)
    assert [again.epoch(key) for key in (A, B, OTHER)] == [NO_EPOCH, 1, 2]
    assert [again.is_in_doubt(key) for key in (A, B, OTHER)] == [False, True, True]


async def test_a_promise_made_during_a_rewrite_is_in_the_new_file() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(1))
    for _ in range(20):
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(promises.promise, (UUID(int=9), number), Epoch(1))
                nursery.start_soon(promises.settle)
        again = reopened(disk)
        assert [again.epoch((UUID(int=9), number)) for number in range(10)] == [1] * 10


async def test_if_a_rewrite_fails_the_old_file_stays_in_use() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    for key in (A, OTHER):
        await promises.promise(key, Epoch(1))
    promises.forget(*A)
    disk.room_bytes = 40
    with pytest.raises(OSError, match="no space"):
        await promises.settle()
    await promises.promise(OTHER, Epoch(2))
    assert [reopened(disk).epoch(key) for key in (A, OTHER)] == [1, 2]


async def test_nothing_is_promised_after_a_rewrite_that_may_not_be_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    for key in (A, OTHER):
        await promises.promise(key, Epoch(1))
    promises.forget(*A)

    async def fail(directory: str) -> None:
        raise OSError("the directory is not on the disk")

    monkeypatch.setattr(disk, "sync_directory", fail)
    with pytest.raises(OSError, match="not on the disk"):
        await promises.settle()
    with pytest.raises(OSError, match="not on the disk"):
        await promises.promise(OTHER, Epoch(2))


async def test_promises_fail_on_a_full_disk_and_succeed_later() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(1))
    failed: list[int] = []

    async def promise(number: int) -> None:
        try:
            await promises.promise((UUID(int=9), number), Epoch(2))
        except OSError:
            failed.append(number)

    disk.room_bytes = 10
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(promise, number)
    assert sorted(failed) == [0, 1, 2, 3, 4]
    assert promises.epoch((UUID(int=9), 0)) == NO_EPOCH
    disk.room_bytes = None
    await promises.promise(B, Epoch(4))
    assert [reopened(disk).epoch(key) for key in (A, B)] == [1, 4]


async def test_nothing_is_promised_if_a_torn_record_cannot_be_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither waiting callers nor later ones may append behind it, where no one would read."""
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(1))

    def refuse(file: SimulatedFile, size: int) -> None:
        raise OSError("no space for that either")

    async def promise(key: tuple[UUID, int]) -> None:
        with pytest.raises(OSError, match="no space"):
            await promises.promise(key, Epoch(2))

    disk.room_bytes = 10
    with monkeypatch.context() as broken:
        broken.setattr(SimulatedFile, "truncate", refuse)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(promise, A)
            nursery.start_soon(promise, B)
    disk.room_bytes = None
    await promise(OTHER)
    assert [reopened(disk).epoch(key) for key in (A, B, OTHER)] == [1, NO_EPOCH, NO_EPOCH]


async def test_after_a_failed_sync_nothing_is_promised() -> None:
    disk = files()
    promises = Promises(disk, DATA)
    disk.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await promises.promise(A, Epoch(1))
    disk.syncs_fail = False
    with pytest.raises(OSError, match="promises"):
        await promises.promise(A, Epoch(1))
    assert promises.epoch(A) == NO_EPOCH


@pytest.mark.parametrize("start", [b"", b"T", b"TRPR", bytes(6), b"TRP\0\0\0\0\0"])
async def test_a_file_that_was_never_synced_is_a_new_one(start: bytes) -> None:
    disk = files()
    disk.open(f"{DATA}/promises", create=True).append(start)
    await disk.sync_directory(DATA)
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(1))
    assert Promises(disk, DATA).epoch(A) == 1


async def test_a_file_with_a_damaged_start_is_not_taken_for_an_empty_one() -> None:
    disk = files()
    await Promises(disk, DATA).promise(A, Epoch(1))
    disk.open(f"{DATA}/promises").write_at(1, b"x")
    with pytest.raises(OSError, match="is not a file of promises"):
        Promises(disk, DATA)


@pytest.mark.parametrize(("position", "count"), [(5, 1), (0, 512)])
async def test_a_file_that_begins_with_zeros_and_goes_on_with_promises_was_synced_and_is_incomplete(
    position: int, count: int
) -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    keys = [(UUID(int=3), partition) for partition in range(20)]
    for key in keys:
        await promises.promise(key, Epoch(3))
    file = disk.open(f"{DATA}/promises")
    file.write_at(position, bytes(count))
    await file.sync()
    again = reopened(disk)
    lost = -(-(position + count - 6) // PROMISE_BYTES)
    assert [again.epoch(key) for key in keys] == [NO_EPOCH] * lost + [3] * (20 - lost)
    assert (again.is_incomplete, again.has_disk_failed) == (True, True)
    await again.note_what_is_missing()
    again = reopened(again._files)  # type: ignore[arg-type]
    assert again.is_incomplete
    await again.doubt_all()
    await again.trust_disk()
    whole = reopened(again._files)  # type: ignore[arg-type]
    assert not whole.is_incomplete
    assert [whole.is_in_doubt(key) for key in keys] == [False] * lost + [True] * (20 - lost)


async def test_unsynced_records_of_a_killed_process_are_synced_before_they_count() -> None:
    disk = files()
    await disk.sync_directory("")
    await Promises(disk, DATA).promise(A, Epoch(3))
    disk.syncs_fail = True
    with pytest.raises(OSError):
        await Promises(disk, DATA).promise(A, Epoch(4))
    disk.syncs_fail = False
    found = Promises(disk, DATA)
    assert (found.epoch(A), reopened(disk).epoch(A)) == (4, 3)
    await found.settle()
    await found.promise(B, Epoch(1))
    again = reopened(disk)
    assert (again.epoch(A), again.epoch(B), again.is_in_doubt(A)) == (4, 1, False)


async def test_a_replica_that_promises_in_doubt_stays_so_until_it_has_caught_up() -> None:
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    await promises.promise(A, Epoch(3), in_doubt=True)
    await promises.promise(A, Epoch(4), in_doubt=True)
    await promises.promise(B, Epoch(3))
    await promises.settle()  # rewritten
    again = reopened(disk)
    assert [(again.epoch(key), again.is_in_doubt(key)) for key in (A, B)] == [(4, True), (3, False)]
    await promises.end_doubt(A)
    assert not reopened(disk).is_in_doubt(A)


async def test_a_lack_of_open_files_only_delays_a_promise(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.storage.directory.promises._STALE_RECORDS_MAX", 2)
    disk = files()
    await disk.sync_directory("")
    promises = Promises(disk, DATA)
    for epoch in range(30):
        disk.opens_left = epoch % 4
        async with trio.open_nursery() as nursery:
            nursery.start_soon(disk.close_others_after, 3)
            await promises.promise(A, Epoch(epoch))
        assert reopened(disk).epoch(A) == epoch
