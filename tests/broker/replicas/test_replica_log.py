from contextlib import suppress
from typing import Any

import pytest
from logs import log_at
from simulation.files import SimulatedFiles
from spus import batch

from tailrace.broker.replicas import replica_log
from tailrace.broker.replicas.replica_log import NEWEST_ENTRIES_MAX, DamagedLogError, ReplicaLog, batch_of_recovery
from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.high_watermark import high_watermark_at_start
from tailrace.protocol.batches.control_batches import bridge, hole
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import Epoch
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig


def new_log() -> Log:
    return log_at(SimulatedFiles(), "/data/topics/t/id/0", LogConfig(), clean=True)


def append(log: Log, data: bytes | bytearray, epoch: int = 1) -> Entry:
    copy = bytearray(data)
    stamp(copy, 0, log.log_end, epoch)
    header = read_header(copy)
    log.append(copy, header)
    return Entry(header.base_offset, log.log_end, Epoch(epoch), header.crc, EntryKind.EVENT, len(copy))


def test_batches_are_entries_with_their_checksum_for_content() -> None:
    log = new_log()
    appended = [append(log, batch(b"%d" % number, b"x")) for number in range(4)]
    assert list(ReplicaLog(log).entries(0, 8)) == appended
    assert list(ReplicaLog(log).entries(3, 5)) == appended[1:3]
    assert list(ReplicaLog(log).entries(8, 8)) == []


def test_entries_appended_without_notice_are_found() -> None:
    log = new_log()
    entries = ReplicaLog(log)
    appended = []
    for number in range(3 * NEWEST_ENTRIES_MAX):
        appended.append(append(log, batch(b"%d" % number)))
        if number % 3 == 0:
            assert list(entries.entries(number, number + 1)) == appended[-1:]
    for start in (0, 5, len(appended) - NEWEST_ENTRIES_MAX // 3, len(appended) - 1):
        assert list(entries.entries(start, log.log_end)) == appended[start:]


def test_a_noted_batch_is_not_read_again() -> None:
    log = new_log()
    entries = ReplicaLog(log)
    first, second = (batch(b"%d" % number, b"x") for number in range(2))
    appended = []
    for data in (first, second):
        appended.append(append(log, data))
        header = read_header(log.read_batches(appended[-1].base, log.log_end)[0].read())
        header.crc += 1  # so that reading it fails
        entries.on_batches(data, [header])
    found = list(entries.entries(0, 4))
    assert [entry.content - 1 for entry in found] == [entry.content for entry in appended]
    assert [(entry.base, entry.end, entry.size) for entry in found] == [(e.base, e.end, e.size) for e in appended]


def test_a_batch_behind_others_that_were_not_noted_is_read_with_them() -> None:
    log = new_log()
    entries = ReplicaLog(log)
    appended = [append(log, batch(b"a")), append(log, batch(b"b"))]
    second = log.read_batches(1, 2)[0].read()
    entries.on_batches(second, [read_header(second)])
    assert list(entries.entries(0, 2)) == appended


async def test_truncated_entries_are_gone() -> None:
    log = new_log()
    entries = ReplicaLog(log)
    kept = append(log, batch(b"kept"))
    append(log, batch(b"cut"))
    assert len(list(entries.entries(0, 2))) == 2
    await log.truncate(1)
    entries.on_changed()
    other = append(log, batch(b"other"), epoch=2)
    assert list(entries.entries(0, 2)) == [kept, other]


async def test_deleted_entries_are_gone() -> None:
    log = new_log()
    entries = ReplicaLog(log)
    appended = [append(log, batch(b"a", b"b")) for _ in range(3)]
    assert list(entries.entries(0, 6)) == appended
    await log.advance_log_start(3)
    assert list(entries.entries(0, 6)) == appended[1:]
    await log.advance_log_start(6)
    assert list(entries.entries(0, 6)) == []


def test_an_entry_of_recovery_is_the_same_before_and_after_its_batch_is_made() -> None:
    log = new_log()
    append(log, batch(b"a"))
    made = [
        Entry(1, 5, Epoch(3), 0, EntryKind.HOLE),
        Entry(5, 6, Epoch(3), 3, EntryKind.BRIDGE),
    ]
    for entry in made:
        data = batch_of_recovery(entry)
        log.append(data, read_header(data))
    found = list(ReplicaLog(log).entries(1, 6))
    assert [entry.is_same_as(own) for entry, own in zip(made, found, strict=True)] == [True, True]
    assert [bytes(batch_of_recovery(entry)) for entry in made] == [bytes(hole(1, 5, 3)), bytes(bridge(5, 3))]


def test_epochs_are_those_of_the_log() -> None:
    log = new_log()
    append(log, batch(b"a"), epoch=1)
    append(log, batch(b"b"), epoch=4)
    assert list(ReplicaLog(log).epochs) == [(1, 0), (4, 1)]


def test_at_rest_nothing_is_kept_and_all_is_found() -> None:
    log = new_log()
    entries = ReplicaLog(log)
    first = append(log, batch(b"a"))
    assert list(entries.entries(0, 1)) == [first]
    entries.on_idle()
    assert not entries._newest
    second = append(log, batch(b"b"))
    entries.on_idle()
    assert list(entries.entries(0, 2)) == [first, second]
    assert list(entries.entries(1, 2)) == [second]


async def test_entries_scanned_in_turns_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 2)
    log = new_log()
    appended = [append(log, batch(b"%d" % number)) for number in range(9)]
    entries = ReplicaLog(log)
    assert entries.is_long_scan(6) and not entries.is_long_scan(7)
    await entries.scan_in_turns(3)
    assert entries.is_long_scan(0) and not entries.is_long_scan(3)
    with monkeypatch.context() as patch:
        patch.setattr(Log, "headers", None)
        assert list(entries.entries(3, 9)) == appended[3:]
        assert list(entries.entries(4, 6)) == appended[4:6]
    entries.on_changed()
    assert entries.is_long_scan(3)
    assert list(entries.entries(2, 9)) == appended[2:]


async def test_a_log_that_changes_during_a_scan_is_scanned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 2)
    log = new_log()
    for number in range(9):
        append(log, batch(b"%d" % number))
    entries = ReplicaLog(log)
    headers = Log.headers

    def changing(self: Log, start: int, end: int) -> Any:
        if start == 4:
            entries.on_changed()
        return headers(self, start, end)

    with monkeypatch.context() as patch:
        patch.setattr(Log, "headers", changing)
        assert await entries.scan_in_turns(0)
    assert entries.is_long_scan(0)
    await log.truncate_fully(100)
    await entries.scan_in_turns(0)
    assert not entries.is_long_scan(0), "there is nothing"


@pytest.mark.parametrize("wrong", [0, 2**40])
async def test_entries_behind_a_flipped_offset_are_not_taken_as_missing(
    monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 2)
    log = new_log()
    appended = [append(log, batch(b"%d" % number)) for number in range(9)]
    (third,) = log.read_batches(3, 4)
    third.file.write_at(third.position, wrong.to_bytes(8))
    entries = ReplicaLog(log)
    assert not await entries.scan_in_turns(0)
    assert list(entries.entries(4, 9)) == appended[4:]


async def test_the_high_watermark_is_found_in_turns_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 2)
    log = new_log()
    for base in (0, 2, 4, 7, 9, 11, 20):
        data = bytearray(batch(b"a", b"b"))
        stamp(data, 0, base, 1)
        log.append(data, read_header(data))
    await log.advance_log_start(1)
    for checkpoint in (0, 1, 2, 10, 14, 21, 30):
        expected = high_watermark_at_start(ReplicaLog(log), checkpoint)
        assert await ReplicaLog(log).high_watermark_at_start(checkpoint) == expected
    assert expected == 22


@pytest.mark.parametrize(
    ("field", "wrong", "turn", "found"),
    [
        (16, b"\x07", 2, 4),
        (16, b"\x07", 500, 4),
        (8, b"\x80\0\0\0", 2, 4),
        (8, b"\0\x10\0\0", 2, 4),
        (8, b"\0\0\0\x40", 500, 5),
    ],
    ids=["magic, in turns", "magic", "no length", "longer than the log", "a little longer"],
)
async def test_a_search_for_the_high_watermark_says_where_the_log_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, field: int, wrong: bytes, turn: int, found: int
) -> None:
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", turn)
    log = new_log()
    for number in range(9):
        append(log, batch(b"%d" % number))
    (fifth,) = log.read_batches(5, 6)
    fifth.file.write_at(fifth.position + field, wrong)
    for checkpoint in (0, 3, 4):
        with pytest.raises(DamagedLogError) as raised:
            await ReplicaLog(log).high_watermark_at_start(checkpoint)
        assert raised.value.offset == found
    with pytest.raises(DamagedLogError) as raised:
        await ReplicaLog(log).high_watermark_at_start(5)
    assert raised.value.offset == 5
    assert await ReplicaLog(log).high_watermark_at_start(9) == 9


@pytest.mark.parametrize(
    ("at", "wrong"), [(7, 2), (7, 90), (26, 90)], ids=["before the one before it", "far behind", "beyond the log's end"]
)
async def test_a_misplaced_entry_in_an_open_log_is_damage(at: int, wrong: int) -> None:
    """A comparison with another log would truncate such entries, or take them as missing."""
    log = new_log()
    appended = [append(log, batch(b"%d" % number)) for number in range(5)]
    (last,) = log.read_batches(4, 5)
    last.file.write_at(last.position + at, bytes([wrong]))
    entries = ReplicaLog(log).entries(2, 5)
    assert [next(entries), next(entries)] == appended[2:4]
    with pytest.raises(DamagedLogError, match="out of") as raised:
        next(entries)
    assert raised.value.offset == 3


COUNT, LAST_OFFSET_DELTA, BASE_OFFSET = 60, 26, 7
"""The position of the last byte of each field in a batch."""


@pytest.mark.parametrize(
    ("base", "at", "bit", "was_closed", "is_told"),
    [
        pytest.param(16, BASE_OFFSET, 5, False, False, id="the last batch lies far behind"),
        pytest.param(8, COUNT, 0, True, False, id="fewer records than offsets"),
        pytest.param(8, COUNT, 1, True, False, id="more records than offsets"),
        pytest.param(8, LAST_OFFSET_DELTA, 0, True, False, id="a batch ends early"),
        pytest.param(10, BASE_OFFSET, 1, True, True, id="a batch lies before where it was"),
        pytest.param(4, 0, 7, True, True, id="the first one lies before all"),
        pytest.param(4, BASE_OFFSET, 2, True, True, id="the first one lies before where it was"),
        pytest.param(6, BASE_OFFSET, 2, True, True, id="the first of a segment lies before it"),
        pytest.param(10, BASE_OFFSET, 2, True, True, id="the last of a segment lies behind where it was"),
        pytest.param(10, 0, 5, True, True, id="it lies behind all"),
        pytest.param(10, 0, 7, True, True, id="it lies before all"),
        pytest.param(16, BASE_OFFSET, 5, True, True, id="a closed log ends far behind"),
    ],
)
@pytest.mark.parametrize("turn", [2, 500])
async def test_a_bit_that_flips_beyond_the_high_watermark_commits_nothing(
    monkeypatch: pytest.MonkeyPatch, base: int, at: int, bit: int, was_closed: bool, is_told: bool, turn: int
) -> None:
    """It may look like compaction, but another replica may have other entries there. A misplaced entry is reported,
    because a comparison with other logs would take existing entries as missing."""
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", turn)
    files, directory = SimulatedFiles(), "/data/topics/t/id/0"
    data = batch(b"a", b"b")
    config = LogConfig(segment_bytes_max=3 * len(data))
    log = log_at(files, directory, config, clean=True)
    for _ in range(9):
        append(log, data)
    (found,) = log.read_batches(base, base + 2)
    await (log.close() if was_closed else log.sync())
    files.flip(found.file.path, found.position + at, bit, is_covered=False)
    log = log_at(files, directory, config, clean=was_closed)
    with suppress(KafkaError):
        assert high_watermark_at_start(ReplicaLog(log), 4) == 4
    if is_told:
        with pytest.raises(DamagedLogError, match="out of") as raised:
            await ReplicaLog(log).high_watermark_at_start(4)
        assert await log.damaged_segment(raised.value.offset) is not None, "from there on it is found"
    else:
        assert await ReplicaLog(log).high_watermark_at_start(4) == 4


@pytest.mark.parametrize("bit", range(64))
async def test_a_bridge_of_which_the_offset_has_flipped_is_damage(bit: int) -> None:
    """Its value is read at its offset, where there may be nothing, or parts of two segments."""
    files, directory = SimulatedFiles(), "/data/topics/t/id/0"
    data = batch(b"a", b"b")
    log = log_at(files, directory, LogConfig(segment_bytes_max=2 * len(data)), clean=True)
    for _ in range(4):
        append(log, data)
    made = bridge(log.log_end, Epoch(2))
    log.append(made, read_header(made))
    await log.sync()
    (found,) = log.read_batches(8, log.log_end)
    assert [entry.kind for entry in ReplicaLog(log).entries(8, log.log_end)] == [EntryKind.BRIDGE]
    files.flip(found.file.path, found.position + bit // 8, bit % 8, is_covered=False)
    with pytest.raises(DamagedLogError):
        list(ReplicaLog(log).entries(8, log.log_end))
    with pytest.raises(DamagedLogError):
        list(ReplicaLog(log).entries(0, log.log_end))


async def test_entries_before_the_high_watermark_do_not_move_it() -> None:
    """The offset of a batch there may have flipped, too."""
    files, directory = SimulatedFiles(), "/data/topics/t/id/0"
    log = log_at(files, directory, LogConfig(), clean=True)
    for _ in range(9):
        append(log, batch(b"a", b"b"))
    (found,) = log.read_batches(4, 6)
    await log.close()
    files.flip(found.file.path, found.position + BASE_OFFSET, 0, is_covered=False)
    log = log_at(files, directory, LogConfig(), clean=True)
    assert await ReplicaLog(log).high_watermark_at_start(6) == 6


async def test_compaction_up_to_the_end_of_a_log_that_was_closed_is_seen() -> None:
    files, directory = SimulatedFiles(), "/data/topics/t/id/0"
    log = log_at(files, directory, LogConfig(), clean=True)
    for base in (0, 2, 9):
        data = bytearray(batch(b"a", b"b"))
        stamp(data, 0, base, 1)
        log.append(data, read_header(data))
    await log.close()
    for clean, found in ((True, 9), (False, 0)):
        log = log_at(files, directory, LogConfig(), clean=clean)
        assert log.is_end_sure == clean
        assert await ReplicaLog(log).high_watermark_at_start(0) == found
    append(log, batch(b"c"))
    assert log.is_end_sure, "what is behind the gap is where others have it, too, by now"
