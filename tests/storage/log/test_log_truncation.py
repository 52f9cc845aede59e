"""Truncation of an open log, also when the disk fails halfway. Ordinary truncations: test_log_model."""

import pytest
from batch_samples import header_of
from log_samples import append, offsets, open_log, produced
from simulation.files import SimulatedFiles

from tailrace.storage.producers.producer_state import ProducerStates

pytestmark = pytest.mark.trio


@pytest.mark.parametrize("end", [0, 15])
async def test_after_a_cut_that_failed_halfway_the_log_is_not_closed_as_if_it_were_whole(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch, end: int
) -> None:
    log = open_log(files)
    append(log, 35)
    await log.sync()
    remove = files.remove

    def fail_once(path: str) -> None:
        if path.endswith("20.log"):
            monkeypatch.undo()
            raise OSError("the disk does not remove it")
        remove(path)

    monkeypatch.setattr(files, "remove", fail_once)
    with pytest.raises(OSError, match="does not remove"):
        await log.truncate(end)
    with pytest.raises(OSError, match="could not be truncated"):
        append(log)
    await log.close()
    assert offsets(open_log(files)) == list(range(30))


async def test_a_replica_that_starts_over_takes_any_offset(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 25, epoch=3)
    for start in (7, 1000):
        await log.truncate_fully(start)
        assert (log.log_start, log.log_end, log.synced_end) == (start, start, start)
        assert list(log.epochs) == []
        append(log, 12, epoch=1)
        assert offsets(log) == list(range(start, start + 12))
        assert offsets(open_log(files.crash("all"))) == list(range(start, start + 12))


async def test_a_replica_that_starts_over_keeps_what_it_is_told_of_producers(files: SimulatedFiles) -> None:
    producers = ProducerStates()
    producers.on_appended(header_of(produced(40, epoch=0)))
    log = open_log(files)
    await log.truncate_fully(50, producers)
    again = open_log(files.crash("synced"))
    assert again.log_start == 50
    assert again.producers.snapshot() == producers.snapshot()


@pytest.mark.parametrize("end", [7, 3, 0])
async def test_what_was_cut_off_does_not_come_back_when_power_fails(files: SimulatedFiles, end: int) -> None:
    """Seed 91000141: in its place was by then what was known to be committed."""
    log = open_log(files)
    append(log, 23, epoch=1)
    await log.sync()
    await (log.truncate(end) if end else log.truncate_fully(end))
    assert log.synced_end == end
    append(log, 2, epoch=2)
    again = open_log(files.crash("synced"))
    assert offsets(again) == list(range(end))
