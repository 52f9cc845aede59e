"""Truncation of an open log when the disk fails halfway. Ordinary truncations: test_log_model."""

import pytest
from batch_samples import header_of
from log_samples import append, offsets, open_log, produced
from simulation.files import SimulatedFiles

from tailrace.storage.producers.producer_state import ProducerStates

pytestmark = pytest.mark.trio


@pytest.mark.parametrize("end", [0, 15])
async def test_a_log_whose_truncation_failed_halfway_is_not_closed_cleanly(
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


async def test_a_replica_that_starts_over_keeps_given_producer_states(files: SimulatedFiles) -> None:
    producers = ProducerStates()
    producers.on_appended(header_of(produced(40, epoch=0)))
    log = open_log(files)
    await log.truncate_fully(50, producers)
    again = open_log(files.crash("synced"))
    assert again.log_start == 50
    assert again.producers.snapshot() == producers.snapshot()


@pytest.mark.parametrize("end", [7, 3, 0])
async def test_truncated_batches_do_not_return_after_a_power_failure(files: SimulatedFiles, end: int) -> None:
    """Other batches may have been committed in their place."""
    log = open_log(files)
    append(log, 23, epoch=1)
    await log.sync()
    await (log.truncate(end) if end else log.truncate_fully(end))
    assert log.synced_end == end
    append(log, 2, epoch=2)
    again = open_log(files.crash("synced"))
    assert offsets(again) == list(range(end))
