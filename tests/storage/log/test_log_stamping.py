"""Stamping: what becomes of batches and of epochs."""

import errno

import pytest
from batch_samples import header_of
from log_samples import CONFIG, DIRECTORY, append, bridge_of, open_log, recovered
from msgspec.structs import replace
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.protocol.batches.control_batches import bridge

pytestmark = pytest.mark.trio


@pytest.mark.parametrize("sync_first", [True, False])
async def test_for_clients_an_epoch_begins_with_its_bridge(files: SimulatedFiles, *, sync_first: bool) -> None:
    log = await recovered(files, sync_first=sync_first)
    stamps = [header.leader_epoch for header, _ in log.headers(0, 99)]
    assert stamps == [1] * 15 + [2] * 14
    reopened = [open_log(files.crash("all"))]
    await log.sync()
    reopened += [open_log(files.crash("synced")), open_log(files.crash("all"))]
    await log.close()
    reopened += [open_log(files.crash("synced"), clean=True), open_log(files.crash("synced"))]
    for each in [log, *reopened]:
        assert list(each.epochs) == [(1, 0), (2, 25)]
        assert [each.epoch_at(offset) for offset in (14, 20, 24, 25, 28)] == [1, 1, 1, 2, 2]
        assert (each.epoch_end(1), each.epoch_end(2)) == ((1, 25), (2, 29))
    for each in reopened:
        assert [header.leader_epoch for header, _ in each.headers(0, 99)] == stamps
        assert [segment.end for segment in each.segments()] == [10, 20, 26, 29]


async def test_stamps_that_reach_the_disk_by_themselves_do_not_change_the_epochs(files: SimulatedFiles) -> None:
    log = open_log(files, replace(CONFIG, segment_bytes_max=10_000))
    append(log, 25, epoch=1)
    await log.sync()
    await log.restamp(0, 25, 2)
    assert log.unsynced_bytes == 100
    for name in files.list(DIRECTORY):
        if name.endswith(".log"):
            files.open(f"{DIRECTORY}/{name}").sync_now()  # as the kernel does at some time
    again = open_log(files.crash("synced"))
    assert {header.leader_epoch for header, _ in again.headers(0, 99)} == {2}
    assert [again.epoch_at(offset) for offset in (0, 24)] == [1, 1]
    assert again.epoch_end(1) == (1, 25)


async def test_a_recovered_bridge_still_begins_its_epoch(files: SimulatedFiles) -> None:
    log = await recovered(files, sync_first=False)
    await log.restamp(20, 29, 4)
    bridge_of(log, 4)
    for each in (log, open_log(files.crash("all"))):
        assert list(each.epochs) == [(1, 0), (2, 25), (4, 29)]
    await log.close()
    assert list(open_log(files.crash("synced"), clean=True).epochs) == [(1, 0), (2, 25), (4, 29)]


async def test_truncation_removes_the_epoch_of_removed_batches(files: SimulatedFiles) -> None:
    log = await recovered(files, sync_first=True)
    await log.truncate(25)
    assert (list(log.epochs), log.epoch_end(1)) == ([(1, 0)], (1, 25))
    append(log, epoch=3)
    assert list(log.epochs) == [(1, 0), (3, 25)]


async def test_after_a_restamp_that_failed_the_log_refuses_everything(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 15)
    await log.sync()
    files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await log.restamp(5, 15, 1)
    files.syncs_fail = False
    with pytest.raises(OSError, match="sync failed"):
        append(log)
    assert [header.leader_epoch for header, _ in open_log(files.crash("all")).headers(0, 15)] == [0] * 15


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_stamps_that_a_full_disk_could_not_sync_may_be_lost(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    log = open_log(files)
    append(log, 5, epoch=255)
    sync = SimulatedFile.sync

    async def fail(file: SimulatedFile) -> None:
        if file.path.endswith(".log"):
            raise OSError(number, "it fails")
        await sync(file)

    monkeypatch.setattr(SimulatedFile, "sync", fail)
    with pytest.raises(OSError, match="it fails"):
        await log.restamp(0, 5, 256)
    assert log.may_have_lost


async def test_batches_stamped_by_another_logs_recovery_begin_no_epoch(files: SimulatedFiles) -> None:
    """This holds even if the bridge never comes, and whatever a power failure leaves."""
    log = open_log(files)
    append(log, 4, epoch=1)
    await log.sync()
    await log.expect_stamped(7, 3)
    append(log, 2, epoch=3)
    assert (log.epochs.latest, log.epoch_end(1)) == (1, (1, 6))
    assert open_log(files.after_kill()).epoch_end(1) == (1, 6)
    synced = files.crash("synced")
    assert open_log(synced).epoch_end(1)[1] in (4, 5, 6)
    made = bridge(6, 3)
    log.append(made, header_of(made))
    append(log, 1, epoch=3)
    assert (log.epoch_end(1), log.epoch_end(3)) == ((1, 6), (3, 8))
    for reopened in (log, open_log(files.after_kill())):
        assert list(reopened.epochs) == [(1, 0), (3, 6)]


async def test_a_later_epoch_begins_even_if_the_expected_bridge_never_came(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 4, epoch=1)
    await log.expect_stamped(9, 3)
    append(log, 1, epoch=3)
    append(log, 1, epoch=4)
    assert list(log.epochs) == [(1, 0), (4, 5)]
    await log.expect_stamped(3, 5)
    append(log, 1, epoch=5)
    for reopened in (log, open_log(files.after_kill())):
        assert list(reopened.epochs) == [(1, 0), (4, 5), (5, 6)]
    append(log, 5, epoch=5)
    assert list(open_log(files.after_kill()).epochs) == [(1, 0), (4, 5), (5, 6)]
