"""Truncation of an open log when the disk fails halfway. Ordinary truncations: test_log_model."""

import pytest
import trio
from batch_samples import header_of
from log_samples import append, offsets, open_log, produced
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.record_batch import stamp
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.producers import producer_snapshots
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


@pytest.fixture(params=["the segment", "a snapshot"])
def large_transactional_log(
    request: pytest.FixtureRequest, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> Log:
    """A log with many small transactions in its open segment, with or without snapshots in between."""
    monkeypatch.setattr(producer_snapshots, "BATCHES_PER_STEP", 10)
    if request.param == "a snapshot":
        monkeypatch.setattr(producer_snapshots, "KEEP_BYTES", 12_000)
    log = open_log(files, LogConfig(segment_bytes_max=1_000_000))
    for number in range(100):
        record = Record(0, 0, None, b"a value")
        batch = bytearray(
            build_batch([record], producer_id=7, producer_epoch=0, base_sequence=number, is_transactional=True)
        )
        stamp(batch, 0, log.log_end, 0)
        log.append(batch, header_of(batch))
        is_commit = bool(number % 3)
        end = marker_batch(log.log_end, 0, 7, 0, is_commit=is_commit, coordinator_epoch=number, now_ms=number)
        log.append(end, header_of(end))
    return log


async def test_other_tasks_run_while_a_truncation_reads_what_transactions_were_before(
    files: SimulatedFiles, large_transactional_log: Log, request: pytest.FixtureRequest
) -> None:
    """A large segment with small batches has so many of them that reading them in one go would stop the broker."""
    log, turns = large_transactional_log, 0

    async def take_turns() -> None:
        nonlocal turns
        while log.must_load_producers or not turns:
            await trio.lowlevel.checkpoint()
            turns += log.must_load_producers

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        await log.truncate(195)
    reads_all = "the segment" in request.node.name
    assert turns >= 19 if reads_all else 0 < turns <= 10
    again = open_log(files.crash("all"), LogConfig(segment_bytes_max=1_000_000))
    assert again.log_end == log.log_end == 195
    assert again.producers.snapshot() == log.producers.snapshot()
    assert dict(log.producers.open_transactions) == {7: 194}
