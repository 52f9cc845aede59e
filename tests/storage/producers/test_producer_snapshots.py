"""Producer states are restored from a snapshot, or from the batches."""

from random import Random
from struct import pack_into

import pytest
import trio
from batch_samples import header_of, make_batch
from logs import log_at
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.record_batch import crc_of
from tailrace.runtime.files import UnreadableError
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.producers.producer_snapshots import ProducerSnapshots, ProducersUnknownError
from tailrace.storage.verification.replica_verification import ReplicaVerification

pytestmark = pytest.mark.trio

DIRECTORY = "/r"
CONFIG = LogConfig(segment_bytes_max=1000, index_interval_bytes=100, retention_ms=10)


def _open(files: SimulatedFiles, *, clean: bool = True) -> Log:
    return log_at(files, DIRECTORY, CONFIG, clean=clean)


def _append(log: Log, producer_id: int, sequence: int) -> None:
    batch = make_batch(log.log_end)
    pack_into(">qhi", batch, 43, producer_id, 0, sequence)
    pack_into(">I", batch, 17, crc_of(batch, 0, len(batch)))
    log.append(batch, header_of(batch))


def _log(files: SimulatedFiles) -> Log:
    """Makes a log in which producer 7 wrote offsets 0-4 and producer 8 the 20 after them; segments begin at 0, 10
    and 20."""
    log = _open(files)
    for sequence in range(5):
        _append(log, 7, sequence)
    for sequence in range(20):
        _append(log, 8, sequence)
    return log


def _last_sequences(log: Log) -> dict[int, int]:
    return {producer_id: producer.batches[-1].last_sequence for producer_id, producer in log.producers}


def _names(files: SimulatedFiles) -> list[int]:
    return [int(name[:20]) for name in files.list(DIRECTORY) if name.endswith(".producers")]


async def test_a_snapshot_lies_at_the_end_of_each_segment() -> None:
    files = SimulatedFiles()
    log = _log(files)
    assert _names(files) == [10, 20]
    await log.close()
    assert _names(files) == [10, 20, 25]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [[], [25], [20, 25], [10, 20, 25]])
async def test_states_are_restored_from_any_remaining_snapshots(clean: bool, damage: list[int]) -> None:
    files = SimulatedFiles()
    await _log(files).close()
    for end in damage:
        files.open(f"{DIRECTORY}/{end:020}.producers").write_at(30, b"\x55")
    log = _open(files, clean=clean)
    assert _last_sequences(log) == {7: 4, 8: 19}
    _append(log, 8, 20)
    assert _last_sequences(_open(files, clean=False)) == {7: 4, 8: 20}


@pytest.mark.parametrize("end", [20, 25])
async def test_a_torn_snapshot_does_not_stay_to_be_taken_for_damage(end: int) -> None:
    files = SimulatedFiles()
    log = _log(files)
    await log.close()
    files.open(f"{DIRECTORY}/{end:020}.producers").truncate(40)
    assert _last_sequences(_open(files, clean=False)) == {7: 4, 8: 19}
    assert not [finding for finding in ReplicaVerification(files, DIRECTORY).findings() if finding.is_damage]


async def test_a_process_that_was_killed_wrote_no_last_snapshot() -> None:
    files = SimulatedFiles()
    _log(files)
    assert _last_sequences(_open(files, clean=False)) == {7: 4, 8: 19}


async def test_a_sealed_segment_missing_from_the_manifest_restores_states() -> None:
    files = SimulatedFiles()
    _log(files)
    killed = _open(files, clean=False)
    await killed.sync()  # now the manifest names what the first process had sealed
    assert _names(files) == [10, 20]
    again = _open(files, clean=False)
    assert _last_sequences(again) == {7: 4, 8: 19}
    await again.advance_log_start(20)
    await again.sync()
    assert _last_sequences(_open(files, clean=False)) == {7: 4, 8: 19}


async def test_missing_snapshots_of_sealed_segments_are_written() -> None:
    files = SimulatedFiles()
    _log(files)
    for end in _names(files):
        files.remove(f"{DIRECTORY}/{end:020}.producers")
    await _open(files, clean=False).sync()
    assert _names(files) == [10, 20]
    log = _open(files, clean=False)
    await log.advance_log_start(20)
    assert _last_sequences(_open(files, clean=False)) == {7: 4, 8: 19}


async def test_truncation_reverts_producer_states() -> None:
    files = SimulatedFiles()
    log = _log(files)
    await log.sync()
    await log.truncate(22)
    assert _last_sequences(log) == {7: 4, 8: 16}
    await log.truncate(12)
    assert _last_sequences(log) == {7: 4, 8: 6}
    assert _names(files) == [10]
    await log.truncate(3)
    assert _last_sequences(log) == {7: 2}
    await log.truncate_fully(0)
    assert _last_sequences(log) == {}
    assert _names(files) == []


async def test_producers_outlive_the_records_that_told_of_them() -> None:
    files = SimulatedFiles()
    log = _log(files)
    await log.advance_log_start(20)
    assert _names(files) == [20]
    assert _last_sequences(_open(files.crash("all"), clean=False)) == {7: 4, 8: 19}
    await log.close()
    assert _last_sequences(_open(files)) == {7: 4, 8: 19}


@pytest.mark.parametrize("end", [20, 25])
async def test_they_survive_a_crash_at_any_step(end: int) -> None:
    files = SimulatedFiles()
    files.make_directories(DIRECTORY)
    await files.sync_directory("")
    log = _log(files)
    if end < log.log_end:
        await log.sync()
    chance = Random(7)
    states = [files.crash("synced")]

    def stop() -> None:
        states.extend(files.crash(keep) for keep in ("all", "synced", Random(chance.random()), Random(chance.random())))

    files.on_operation = stop
    await log.advance_log_start(end)
    await log.close()
    for after in states:
        found = _open(after, clean=False)
        if found.log_end >= end:
            expected = {7: 4, 8: found.log_end - 6}
            assert _last_sequences(found) == expected


async def test_the_next_snapshot_replaces_a_lost_one_at_the_log_start() -> None:
    files = SimulatedFiles()
    files.make_directories(DIRECTORY)
    await files.sync_directory("")
    log = _log(files)
    await log.sync()
    files.remove(f"{DIRECTORY}/{10:020}.producers")
    await log.advance_log_start(10)
    assert _last_sequences(_open(files.crash("synced"), clean=False)) == {7: 4, 8: 19}


async def test_snapshots_that_a_power_failure_took_are_there_again_when_records_are_deleted() -> None:
    files = SimulatedFiles()
    files.make_directories(DIRECTORY)
    await files.sync_directory("")
    await _log(files).sync()
    files = files.crash("all")
    for end in (10, 20):
        files.remove(f"{DIRECTORY}/{end:020}.producers")
    log = _open(files, clean=False)
    assert _names(files) == [10, 20]
    await log.advance_log_start(20)
    assert _last_sequences(_open(files.crash("synced"), clean=False)) == {7: 4, 8: 19}


async def test_a_log_opens_on_a_full_disk_without_snapshots() -> None:
    files = SimulatedFiles()
    await _log(files).close()
    for end in (10, 20, 25):
        files.remove(f"{DIRECTORY}/{end:020}.producers")
    files.room_bytes = 0
    log = _open(files)
    assert _names(files) == []
    assert _last_sequences(log) == {7: 4, 8: 19}


async def test_on_a_full_disk_deletion_makes_room_for_snapshots() -> None:
    files = SimulatedFiles()
    log = _log(files)
    for sequence in range(20, 60):
        _append(log, 8, sequence)
    await log.sync()
    files.room_bytes = 0
    await log.advance_log_start(65)
    again = _open(files, clean=False)
    assert (again.log_start, _last_sequences(again)) == (65, {7: 4, 8: 59})


async def test_producers_of_deleted_records_are_known_after_a_truncation() -> None:
    files = SimulatedFiles()
    log = _log(files)
    await log.advance_log_start(22)
    await log.truncate(22)
    assert (log.log_start, log.log_end) == (22, 22)
    assert _last_sequences(log) == {7: 4, 8: 16}
    assert _last_sequences(_open(files, clean=False)) == {7: 4, 8: 16}


async def test_a_segment_that_ends_at_the_log_start_is_not_needed_with_its_snapshot() -> None:
    files = SimulatedFiles()
    log = _log(files)
    await log.advance_log_start(25)
    files.open(f"{DIRECTORY}/{20:020}.log", create=True).append(make_batch(20, 5))
    found = _open(files, clean=False)
    assert (found.log_start, found.log_end, _last_sequences(found)) == (25, 25, {7: 4, 8: 19})
    await found.close()
    files.open(f"{DIRECTORY}/{20:020}.log", create=True).append(make_batch(20, 5))
    files.remove(f"{DIRECTORY}/{25:020}.producers")
    assert [segment.base for segment in _open(files, clean=False).segments()] == [20]


async def test_a_log_without_producers_has_no_snapshots() -> None:
    files = SimulatedFiles()
    log = _open(files)
    for _ in range(25):
        batch = make_batch(log.log_end)
        log.append(batch, header_of(batch))
    await log.close()
    assert _names(files) == []
    assert _last_sequences(_open(files)) == {}


def _lose_snapshots(files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the disk fail to read the snapshots."""

    def check_reading(path: str) -> None:
        if path.endswith(".producers"):
            raise UnreadableError(path)

    monkeypatch.setattr(files, "check_reading", check_reading)


@pytest.mark.parametrize("clean", [True, False])
async def test_unreadable_snapshots_are_ignored(monkeypatch: pytest.MonkeyPatch, clean: bool) -> None:
    files = SimulatedFiles()
    await _log(files).close()
    _lose_snapshots(files, monkeypatch)
    log = _open(files, clean=clean)
    assert _last_sequences(log) == {7: 4, 8: 19}
    await log.advance_log_start(20)
    _append(log, 8, 20)
    await log.close()


async def test_an_unreadable_snapshot_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    files = SimulatedFiles()
    log = _log(files)
    await log.close()
    path = f"{DIRECTORY}/{25:020}.producers"
    unreadable = files.open(path)
    with monkeypatch.context() as patch:
        _lose_snapshots(files, patch)
        ProducerSnapshots(files, DIRECTORY).write(25, log.producers)
    assert files.read(path) == log.producers.snapshot()
    unreadable.write_at(0, b"damaged")
    assert files.read(path) == log.producers.snapshot(), "it is another file"


async def test_a_lack_of_open_files_does_not_count_as_a_lost_snapshot() -> None:
    files = SimulatedFiles()
    await _log(files).close()
    files.opens_left = 0
    with pytest.raises(OSError, match="no more"):
        ProducerSnapshots(files, DIRECTORY).has(25)


MAGIC, LENGTH = 16, 9


@pytest.mark.parametrize("field", [MAGIC, LENGTH], ids=["no batch", "longer than its segment"])
@pytest.mark.parametrize(("base", "number", "told_from"), [(0, 0, 0), (10, 4, 13), (20, 1, 20)])
async def test_a_log_with_unknown_producers_opens_and_knows_them_after_a_repair(
    field: int, base: int, number: int, told_from: int
) -> None:
    files = SimulatedFiles()
    await _log(files).close()
    for end in (10, 20, 25):
        files.remove(f"{DIRECTORY}/{end:020}.producers")
    file = files.open(f"{DIRECTORY}/{base:020}.log")
    position = 100 * number + field
    (right,) = file.read_at(position, 1)
    file.write_at(position, bytes([right ^ 0x40]))
    log = _open(files)
    for _ in range(2):
        with pytest.raises(ProducersUnknownError) as raised:
            log.load_producers()
        assert raised.value.offset == told_from
    file.write_at(position, bytes([right]))
    log.load_producers()
    assert _last_sequences(log) == {7: 4, 8: 19}


async def test_unknown_producers_are_not_written() -> None:
    """The open segment is sealed for the repair, and the manifest must not say that it has no producers."""
    files = SimulatedFiles()
    log = _log(files)
    await log.close()
    files.remove(f"{DIRECTORY}/{20:020}.producers")
    files.remove(f"{DIRECTORY}/{25:020}.producers")
    file = files.open(f"{DIRECTORY}/{20:020}.log")
    file.write_at(200 + MAGIC, b"\x03")
    log = _open(files)
    assert await log.damaged_segment(21) is not None
    assert [segment.base for segment in log.segments()] == [0, 10, 20, 25], "it is sealed"
    await log.close()
    file.write_at(200 + MAGIC, b"\x02")
    assert _last_sequences(_open(files, clean=False)) == {7: 4, 8: 19}


async def test_a_truncated_log_with_unknown_producers_is_not_closed_cleanly() -> None:
    files = SimulatedFiles()
    log = _log(files)
    await log.sync()
    for end in (10, 20):
        files.remove(f"{DIRECTORY}/{end:020}.producers")
    file = files.open(f"{DIRECTORY}/{0:020}.log")
    file.write_at(200 + MAGIC, b"\x03")
    with pytest.raises(ProducersUnknownError):
        await log.truncate(12)
    await log.close()
    file.write_at(200 + MAGIC, b"\x02")
    assert _last_sequences(_open(files)) == {7: 4, 8: 6}


async def _cancel_as_it_is_cut(
    files: SimulatedFiles, log: Log, to_offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = files.replace
    with trio.CancelScope() as scope:

        async def cancel(path: str, data: bytes) -> None:
            scope.cancel()
            await replace(path, data)

        with monkeypatch.context() as patch:
            patch.setattr(files, "replace", cancel)
            await log.truncate(to_offset)
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


async def test_a_cancelled_truncation_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a batch that is sent again would count as a repetition, although it is in no log."""
    files = SimulatedFiles()
    log = _open(files)
    for sequence in range(4):
        _append(log, 7, sequence)
    await log.sync()
    await _cancel_as_it_is_cut(files, log, 2, monkeypatch)
    assert (log.log_end, log.synced_end, _last_sequences(log)) == (2, 2, {7: 1})
    await log.close()
    assert _last_sequences(_open(files)) == {7: 1}


@pytest.mark.parametrize("end", [17, 0])
async def test_a_cancelled_start_over_is_completed(monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    files = SimulatedFiles()
    log = _log(files)
    await log.advance_log_start(17)
    await _cancel_as_it_is_cut(files, log, end, monkeypatch)
    assert (log.log_start, log.log_end, log.size_bytes) == (end, end, 0)
    await log.close()
    again = _open(files)
    assert (again.log_start, again.log_end) == (end, end)
    assert _last_sequences(again) == _last_sequences(log) == ({7: 4, 8: 11} if end else {})


@pytest.mark.parametrize("end", [2, 12])
async def test_a_truncation_that_ran_out_of_files_is_completed_by_the_next_call(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, end: int
) -> None:
    files = SimulatedFiles()
    log = _log(files)
    await files.sync_directory("")
    await log.sync()
    for known in (10, 20):
        files.remove(f"{DIRECTORY}/{known:020}.producers")

    def use_up() -> None:
        if files.size(f"{DIRECTORY}/{end // 10 * 10:020}.log") == 200:
            files.opens_left = 0

    files.on_operation = use_up
    with pytest.raises(OSError, match="no more simulated files"):
        await log.truncate(end)
    assert not log.has_failed
    files.on_operation, files.opens_left = lambda: None, None
    await log.truncate(end)
    expected = {7: min(end, 5) - 1, 8: end - 6} if end > 5 else {7: end - 1}
    assert _last_sequences(log) == expected
    after = _open(files.crash("synced"), clean=False)
    assert (after.log_end, _last_sequences(after)) == (end, expected)
