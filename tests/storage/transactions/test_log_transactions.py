"""Committed readers know how far they may read, and what was aborted, whatever became of files and segments."""

import pytest
from batch_samples import header_of
from logs import log_at
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.runtime.files import UnreadableError
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.manifest import UNKNOWN_ABORTED
from tailrace.storage.transactions import log_transactions
from tailrace.storage.verification.replica_verification import ReplicaVerification

pytestmark = pytest.mark.trio

DIRECTORY = "/r"
CONFIG = LogConfig(segment_bytes_max=1000, index_interval_bytes=100)


def _open(files: SimulatedFiles, *, clean: bool = True) -> Log:
    return log_at(files, DIRECTORY, CONFIG, clean=clean)


def _write(log: Log, producer_id: int = 7, count: int = 1, *, is_transactional: bool = True) -> int:
    """Appends a batch, which is transactional unless the producer is -1, and returns its base offset."""
    base = log.log_end
    known = log.producers.expected(producer_id, 0)
    batch = build_batch(
        [Record(base + each, base, None, b"v" * 100) for each in range(count)],
        base_offset=base,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=-1 if producer_id < 0 else known or 0,
        is_transactional=producer_id >= 0 and is_transactional,
    )
    log.append(batch, header_of(batch))
    return base


def _end(log: Log, producer_id: int = 7, *, is_commit: bool = False) -> int:
    base = log.log_end
    batch = marker_batch(base, 0, producer_id, 0, is_commit=is_commit, coordinator_epoch=1, now_ms=base)
    log.append(batch, header_of(batch))
    return base


def _aborted(log: Log, start: int, end: int) -> list[tuple[int, int, int]]:
    found = log.transactions.aborted(start, end)
    return [(each.producer_id, each.first_offset, each.last_offset) for each in found]


def _files_of_aborted(files: SimulatedFiles) -> list[int]:
    return [int(name[:20]) for name in files.list(DIRECTORY) if name.endswith(".aborted")]


async def test_a_reader_stops_before_the_first_transaction_that_is_not_decided() -> None:
    log = _open(SimulatedFiles())
    transactions = log.transactions
    _write(log, -1)
    assert transactions.first_unstable(1) is None
    assert _write(log, 7) == 1
    assert _write(log, 8) == 2
    assert transactions.first_unstable(3) == 1
    marker = _end(log, 7)
    assert transactions.first_unstable(marker) == 1, "the marker may still be lost"
    assert transactions.first_unstable(marker + 1) == 2
    _end(log, 8, is_commit=True)
    assert transactions.first_unstable(log.log_end) is None
    assert not transactions.is_unsettled


async def test_a_transaction_that_stays_open_does_not_keep_all_that_follow_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_transactions, "UNSTABLE_MIN", 10)
    log = _open(SimulatedFiles())
    transactions = log.transactions
    _write(log, 7)
    undecided = 0
    for _ in range(100):
        undecided = _write(log, 8)
        marker = _end(log, 8)
        assert transactions.first_unstable(marker) == 0
        assert len(transactions._unstable) <= 12
    _end(log, 7)
    assert transactions.first_unstable(marker) == 0
    assert transactions.first_unstable(log.log_end - 1) == 0
    assert transactions.first_unstable(log.log_end) is None
    assert undecided > 0


async def test_thousands_of_markers_are_appended_in_one_go() -> None:
    """A follower that catches up gets them so. Each size is looked at once, however many markers there are."""
    looked_at = 0

    class Header(BatchHeader):
        @property
        def size(self) -> int:
            nonlocal looked_at
            looked_at += 1
            return int(super().size)

    log = log_at(SimulatedFiles(), DIRECTORY, LogConfig(), clean=True)
    data, headers = bytearray(), []
    for offset in range(0, 2000, 2):
        batch = build_batch(
            [Record(offset, 0, None, b"v")],
            base_offset=offset,
            leader_epoch=0,
            producer_id=7,
            producer_epoch=0,
            base_sequence=offset // 2,
            is_transactional=True,
        )
        marker = marker_batch(offset + 1, 0, 7, 0, is_commit=False, coordinator_epoch=1, now_ms=0)
        for each in (batch, marker):
            data += each
            header = header_of(each)
            headers.append(Header(*(getattr(header, name) for name in header.__struct_fields__)))
    log.append_batches(bytes(data), headers)
    assert len(log.transactions.aborted(0, 2000)) == 1000
    assert looked_at < 10 * len(headers)


async def test_redpanda_aborted_transactions_are_sorted_by_their_first_offsets() -> None:
    log = _open(SimulatedFiles())
    for producer in (7, 8, 9):
        _write(log, producer)
    for producer in (8, 9, 7):
        _end(log, producer)
    assert _aborted(log, 0, 6) == [(7, 0, 5), (8, 1, 3), (9, 2, 4)]


async def test_automq_754_a_transaction_is_found_by_absolute_offsets_in_every_segment() -> None:
    log = _open(SimulatedFiles())
    expected = []
    for producer in range(1, 30):
        first = _write(log, producer)
        expected.append((producer, first, _end(log, producer)))
    assert len(log.segments()) > 4
    for producer, first, last in expected:
        assert _aborted(log, first, first + 1) == [(producer, first, last)]
        assert _aborted(log, last, last + 1) == [(producer, first, last)]
    assert _aborted(log, 0, log.log_end) == expected


async def test_a_transaction_over_many_segments_is_found_in_each() -> None:
    log = _open(SimulatedFiles())
    _write(log, 7)
    while len(log.segments()) < 5:
        _write(log, -1)
    _write(log, 8)
    assert _aborted(log, 0, log.log_end) == []
    last = _end(log, 7)
    for offset in range(log.log_end):
        assert _aborted(log, offset, offset + 1) == [(7, 0, last)]
    await log.truncate(last)
    assert _aborted(log, 0, log.log_end) == []
    assert log.transactions.first_unstable(0) == 0


async def test_segments_without_aborted_transactions_have_no_file_and_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = SimulatedFiles()
    log = _open(files)
    for _ in range(30):
        _write(log, -1)
    for _ in range(10):
        _write(log, 7)
        _end(log, 7, is_commit=True)
    await log.close()
    assert _files_of_aborted(files) == []
    log = _open(files)

    def fail(*arguments: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(type(log.snapshots), "_replaying_segment", fail)
    assert _aborted(log, 0, log.log_end) == []
    assert log.transactions.first_unstable(log.log_end) is None


def _log_with_aborted(files: SimulatedFiles) -> tuple[Log, list[tuple[int, int, int]]]:
    log = _open(files)
    expected = []
    for _ in range(12):
        first = _write(log, 7)
        _write(log, -1)
        expected.append((7, first, _end(log, 7)))
    return log, expected


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", ["none", "missing", "changed", "unreadable"])
async def test_a_missing_or_damaged_file_is_derived_from_the_segment(
    clean: bool, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SimulatedFiles()
    log, expected = _log_with_aborted(files)
    await log.close()
    names = _files_of_aborted(files)
    assert len(names) == len(log.segments()) > 2
    for base in names:
        path = f"{DIRECTORY}/{base:020}.aborted"
        if damage == "missing":
            files.remove(path)
        elif damage == "changed":
            files.open(path).write_at(20, b"\x55")
    if damage == "unreadable":

        def check_reading(path: str) -> None:
            if path.endswith(".aborted"):
                raise UnreadableError(path)

        monkeypatch.setattr(files, "check_reading", check_reading)
    log = _open(files, clean=clean)
    for each in expected:
        assert _aborted(log, each[1], each[2]) == [each]
    assert _aborted(log, 0, log.log_end) == expected
    monkeypatch.undo()
    await log.close()
    log = _open(files)
    assert set(names[:-1]) <= set(_files_of_aborted(files)), "files of sealed segments are written again"
    assert _aborted(log, 0, log.log_end) == expected


async def test_files_are_removed_with_their_segments() -> None:
    files = SimulatedFiles()
    log, expected = _log_with_aborted(files)
    await log.sync()
    third = log.segments()[2].base
    await log.advance_log_start(third)
    assert min(_files_of_aborted(files)) == third
    assert _aborted(log, third, log.log_end) == [each for each in expected if each[2] >= third]
    await log.truncate_fully(100)
    assert _files_of_aborted(files) == []
    assert _aborted(log, 100, 100) == []


async def test_a_full_disk_costs_the_file_and_not_the_transactions() -> None:
    files = SimulatedFiles()
    log, expected = _log_with_aborted(files)
    await log.sync()
    files.room_bytes = 0
    base = log.segments()[-1].base
    assert log.transactions.write_open() is not None
    files.room_bytes = None
    assert _aborted(log, 0, log.log_end) == expected
    assert base not in _files_of_aborted(files) or files.size(f"{DIRECTORY}/{base:020}.aborted") == 0


async def test_a_reopened_log_does_not_trust_markers_that_may_not_be_committed() -> None:
    files = SimulatedFiles()
    log = _open(files)
    _write(log, 7)
    _write(log, -1)
    marker = _end(log, 7, is_commit=True)
    await log.close()
    for clean in (True, False):
        again = _open(files, clean=clean)
        assert again.transactions.first_unstable(1) == 0
        assert again.transactions.first_unstable(marker) == 0
        assert again.transactions.first_unstable(marker + 1) is None


async def test_a_transaction_whose_marker_was_truncated_is_open_again() -> None:
    log = _open(SimulatedFiles())
    _write(log, 7)
    marker = _end(log, 7)
    assert log.transactions.first_unstable(marker + 1) is None
    await log.truncate(marker)
    assert log.producers.open_transaction(7) == 0
    assert log.transactions.first_unstable(marker) == 0
    assert _aborted(log, 0, marker) == []
    assert _end(log, 7, is_commit=True) == marker
    assert log.transactions.first_unstable(marker + 1) is None
    assert _aborted(log, 0, marker) == []


async def test_a_log_that_begins_within_a_transaction_inherits_it() -> None:
    leader, follower = _open(SimulatedFiles()), _open(SimulatedFiles())
    _write(leader, 7)
    _write(leader, 8)
    _write(leader, -1)
    start = leader.log_end
    await follower.truncate_fully(start, leader.producers.before(start))
    assert follower.transactions.first_unstable(start) == 0
    for log in (leader, follower):
        _write(log, 7)
        _write(log, -1)
        _end(log, 7)
        _end(log, 8, is_commit=True)
    assert _aborted(follower, start, start + 1) == _aborted(leader, start, start + 1) == [(7, 0, start + 2)]
    assert follower.transactions.first_unstable(follower.log_end) is None
    assert follower.producers.snapshot() == leader.producers.snapshot()


async def test_nothing_is_stable_while_the_producers_of_a_damaged_log_are_unknown() -> None:
    files = SimulatedFiles()
    log, _ = _log_with_aborted(files)
    await log.close()
    for name in files.list(DIRECTORY):
        if name.endswith(".producers"):
            files.remove(f"{DIRECTORY}/{name}")
    file = files.open(f"{DIRECTORY}/{0:020}.log")
    (right,) = file.read_at(16, 1)
    file.write_at(16, bytes([right ^ 0x40]))
    log = _open(files)
    assert not log.knows_producers
    assert log.transactions.first_unstable(log.log_end) == 0
    file.write_at(16, bytes([right]))
    log.load_producers()
    assert log.transactions.first_unstable(log.log_end) is None


async def test_verification_reports_a_file_that_does_not_match() -> None:
    files = SimulatedFiles()
    log, _ = _log_with_aborted(files)
    await log.close()
    assert not list(ReplicaVerification(files, DIRECTORY).findings())
    first, second = _files_of_aborted(files)[:2]
    files.remove(f"{DIRECTORY}/{first:020}.aborted")
    files.open(f"{DIRECTORY}/{second:020}.aborted").write_at(20, b"\x55")
    found = list(ReplicaVerification(files, DIRECTORY).findings())
    assert [(each.path[-28:], each.is_damage) for each in found] == [
        (f"{first:020}.aborted", False),
        (f"{second:020}.aborted", False),
    ]


async def test_the_manifest_of_a_recovered_segment_says_what_was_read_of_it() -> None:
    files = SimulatedFiles()
    log, expected = _log_with_aborted(files)
    count = len(log.segments())
    log = _open(files, clean=False)
    assert len(log.segments()) == count
    assert all(facts.aborted not in (None, UNKNOWN_ABORTED) for facts in log.segments()[:-1])
    await log.sync()
    log = _open(files, clean=False)
    assert _aborted(log, 0, log.log_end) == expected


async def test_an_older_file_of_the_same_segment_is_not_trusted() -> None:
    """A power failure may bring back the file of an earlier clean close."""
    files = SimulatedFiles()
    log = _open(files)
    _write(log, 7)
    _end(log, 7)
    await log.close()
    path = f"{DIRECTORY}/{0:020}.aborted"
    older = files.read(path)
    log = _open(files)
    _write(log, 7)
    _end(log, 7)
    await log.close()
    files.remove(path)
    files.open(path, create=True).append(older)
    assert _aborted(_open(files), 0, 4) == [(7, 0, 1), (7, 2, 3)]


async def test_a_log_whose_file_was_lost_is_closed_without_claiming_what_it_had() -> None:
    files = SimulatedFiles()
    log = _open(files)
    for _ in range(2):
        _write(log, 7)
        _end(log, 7)
        await log.close()
        files.remove(f"{DIRECTORY}/{0:020}.aborted")
        log = _open(files)
    _write(log, 7)
    _end(log, 7)
    await log.close()
    assert _aborted(_open(files), 0, 6) == [(7, 0, 1), (7, 2, 3), (7, 4, 5)]


@pytest.mark.parametrize("clean", [True, False])
async def test_what_is_read_after_a_start_comes_with_what_was_aborted_in_it(clean: bool) -> None:
    files = SimulatedFiles()
    log, expected = _log_with_aborted(files)
    await log.close()
    log = _open(files, clean=clean)
    for facts in (log.segments()[-1], log.segments()[0]):
        found = log.read(facts.base, 10**6, log.log_end, at_least_one=True)
        assert found is not None
        aborted = log.aborted_in(found, facts.base, log.log_end)
        told = [(each.producer_id, each.first_offset, each.last_offset) for each in aborted]
        assert told == [each for each in expected if facts.base <= each[2] and each[1] < facts.end] != []
