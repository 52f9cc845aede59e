"""Appends, reads and syncs of a log when the disk fails, when things overlap, and at limits. Otherwise:
test_log_model."""

import itertools
from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
from batch_samples import header_of, make_batch
from log_samples import CONFIG, DIRECTORY, append, bridge_of, offsets, open_log, produced, recovered
from logs import log_at
from msgspec.structs import replace
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.control_batches import ControlKind, bridge, hole
from tailrace.protocol.batches.record_batch import stamp
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.runtime.descriptors import is_out_of_files
from tailrace.storage.indexes.offset_index import RELATIVE_OFFSET_MAX
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log import log as log_module
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.leader_epochs import EpochStart

pytestmark = pytest.mark.trio


async def test_an_empty_log(files: SimulatedFiles) -> None:
    log = open_log(files)
    assert (log.log_start, log.log_end, log.synced_end, log.size_bytes, log.unsynced_bytes) == (0, 0, 0, 0, 0)
    assert log.read(0, 100, 0, at_least_one=True) is None
    assert log.find_timestamp(0, 0) is None
    assert log.max_timestamp(0) is None
    await log.sync()
    await log.close()
    assert files.list(DIRECTORY) == []
    assert log.recovery.was_clean


async def test_a_batch_that_does_not_fit_opens_a_segment_and_one_that_fits_nowhere_has_its_own(
    files: SimulatedFiles,
) -> None:
    log = open_log(files)
    append(log, 10)
    assert [segment.size for segment in log.segments()] == [1000]
    append(log)
    append(log, size=5000)
    append(log)
    assert [segment.size for segment in log.segments()] == [1000, 100, 5000, 100]


async def test_segments_end_by_age_epoch_and_index(files: SimulatedFiles) -> None:
    log = open_log(files, replace(CONFIG, segment_age_ms_max=10, index_bytes_max=24))
    append(log, timestamp=100)
    append(log, timestamp=110)
    append(log, timestamp=111)
    assert [segment.end for segment in log.segments()] == [2, 3]
    append(log, timestamp=111, epoch=1)
    assert [(segment.epoch, segment.end) for segment in log.segments()] == [(0, 2), (0, 3), (1, 4)]
    append(log, 9, timestamp=111, epoch=1)
    assert [segment.end - segment.base for segment in log.segments()] == [2, 1, 4, 4, 2]


async def test_a_segment_ends_before_its_offsets_need_more_than_32_bits(files: SimulatedFiles) -> None:
    log = open_log(files)
    for records in (1, 2**31 - 1, 2**31 - 1, 1, 1):
        batch = make_batch(log.log_end, records)
        log.append(batch, header_of(batch))
    first = log.segments()[0]
    assert first.end - first.base == RELATIVE_OFFSET_MAX + 1
    assert len(offsets(log)) == 5


async def test_a_full_disk_refuses_a_batch_and_leaves_no_part_of_it(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 3)
    for room in (0, 1, 99):
        files.room_bytes = room
        with pytest.raises(OSError, match="no space"):
            append(log)
        assert log.log_end == 3
        assert files.size(f"{DIRECTORY}/00000000000000000000.log") == 300
    files.room_bytes = None
    append(log)
    assert offsets(log) == [0, 1, 2, 3]
    assert offsets(open_log(files)) == [0, 1, 2, 3]


@pytest.mark.parametrize("room", range(0, 2500, 130))
async def test_a_log_recovers_from_a_full_disk_at_any_step(files: SimulatedFiles, room: int) -> None:
    log = open_log(files)
    files.room_bytes = room
    with pytest.raises(OSError, match="no space"):
        append(log, 40, size=70)
    count = log.log_end
    assert offsets(log) == list(range(count))
    files.room_bytes = None
    append(log, 40, size=70)
    await log.sync()
    assert offsets(log) == list(range(count + 40))
    assert offsets(open_log(files.crash("synced"))) == list(range(count + 40))


async def test_consecutive_batches_are_written_at_once_where_they_fit(files: SimulatedFiles) -> None:
    batches = [make_batch(offset, size=100, timestamp=offset, epoch=offset // 25) for offset in range(40)]
    one_by_one, at_once = open_log(files), log_at(files, "/data/other", CONFIG, clean=False)
    for batch in batches:
        one_by_one.append(batch, header_of(batch))
    writes: list[int] = []
    files.on_operation = lambda: writes.append(1)
    at_once.append_batches(b"".join(batches[:3]), [header_of(batch) for batch in batches[:3]])
    assert len(writes) == 2  # the first also creates the file
    at_once.append_batches(b"".join(batches[3:]), [header_of(batch) for batch in batches[3:]])
    assert at_once.segments() == one_by_one.segments()
    assert [segment.end for segment in at_once.segments()] == [10, 20, 25, 35, 40]
    assert list(at_once.epochs) == list(one_by_one.epochs)
    assert (at_once.log_end, at_once.size_bytes, at_once.unsynced_bytes) == (40, 4000, 4000)
    assert offsets(at_once) == list(range(40))


async def test_a_full_disk_takes_the_batches_before_a_roll_and_no_part_of_those_after(files: SimulatedFiles) -> None:
    log = open_log(files)
    batches = [make_batch(offset, size=100) for offset in range(15)]
    files.room_bytes = 1250
    with pytest.raises(OSError, match="no space"):
        log.append_batches(b"".join(batches), [header_of(batch) for batch in batches])
    assert (log.log_end, log.size_bytes) == (10, 1000)
    files.room_bytes = None
    log.append_batches(b"".join(batches[10:]), [header_of(batch) for batch in batches[10:]])
    assert offsets(log) == offsets(open_log(files)) == list(range(15))


@pytest.mark.parametrize(
    ("config", "offsets", "ends"),
    [
        (LogConfig(segment_age_ms_max=4), range(10), [5, 10]),
        (LogConfig(index_interval_bytes=200, index_bytes_max=16), range(10), [6, 10]),
        (LogConfig(), (0, RELATIVE_OFFSET_MAX, RELATIVE_OFFSET_MAX + 1), [2**32, 2**32 + 1]),
    ],
)
async def test_batches_written_together_roll_as_they_would_one_by_one(
    files: SimulatedFiles, config: LogConfig, offsets: Sequence[int], ends: list[int]
) -> None:
    batches = [make_batch(offset, size=100, timestamp=number) for number, offset in enumerate(offsets)]
    _append_in_portions(files, config, batches, ends)


async def test_batches_written_together_roll_at_bridges_and_epochs(files: SimulatedFiles) -> None:
    batches = [make_batch(offset, epoch=1) for offset in range(3)]
    batches += [make_batch(3, epoch=2), hole(4, 9, 2), bridge(9, 2), make_batch(10, epoch=2), make_batch(11, epoch=3)]
    _append_in_portions(files, LogConfig(), batches, [3, 10, 11, 12])


def _append_in_portions(
    files: SimulatedFiles, config: LogConfig, batches: Sequence[bytearray], ends: Sequence[int]
) -> None:
    one_by_one = open_log(files, config)
    for batch in batches:
        one_by_one.append(batch, header_of(batch))
    assert [segment.end for segment in one_by_one.segments()] == ends
    for count in range(1, len(batches) + 1):
        at_once = log_at(files, f"/data/by-{count}", config, clean=False)
        for start in range(0, len(batches), count):
            some = batches[start : start + count]
            at_once.append_batches(b"".join(some), [header_of(batch) for batch in some])
        assert at_once.segments() == one_by_one.segments(), f"in portions of {count}"


async def test_appending_together_writes_all_or_nothing(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 5)

    def together(*epochs: int) -> bool:
        end = log.log_end
        batches = [make_batch(end + number, size=100, epoch=epoch) for number, epoch in enumerate(epochs)]
        return log.append_together(b"".join(batches), [header_of(batch) for batch in batches])

    writes: list[int] = []
    files.on_operation = lambda: writes.append(1)
    assert not together(*[0] * 6), "the segment has room for five"
    assert not together(0, 0, 1), "another epoch needs another one"
    assert not writes
    assert together(0, 0, 0)
    assert len(writes) == 1
    files.room_bytes = 150
    with pytest.raises(OSError, match="no space"):
        together(0, 0)
    assert (log.log_end, log.size_bytes, log.unsynced_bytes) == (8, 800, 800)
    files.room_bytes = None
    assert together(0, 0)
    assert offsets(log) == offsets(open_log(files)) == list(range(10))


async def test_the_newest_header_is_known_without_reading(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 5)
    log.segment_list.open.reader.log = None  # type: ignore[assignment]
    ((header, kind),) = log.headers(4, 5)
    assert (header.base_offset, kind) == (4, None)
    assert list(log.headers(5, 9)) == []


async def test_holes_and_bridges_are_distinguished_from_records(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 2)
    for batch in (hole(2, 40, 0), bridge(40, 0)):
        log.append(batch, header_of(batch))
    append(log)
    kinds = [(header.base_offset, header.next_offset, kind) for header, kind in log.headers(1, 42)]
    assert kinds == [(1, 2, None), (2, 40, ControlKind.HOLE), (40, 41, ControlKind.BRIDGE), (41, 42, None)]
    assert [kind for _, kind in log.headers(40, 41)] == [ControlKind.BRIDGE]
    assert [header.base_offset for header, _ in log.headers(7, 8)] == [2]


async def test_batches_without_a_timestamp_do_not_age_a_segment(files: SimulatedFiles) -> None:
    log = open_log(files, replace(CONFIG, segment_age_ms_max=10))
    first = hole(0, 5, 0)
    log.append(first, header_of(first))
    append(log, 2, timestamp=1000)
    assert [segment.first_timestamp for segment in log.segments()] == [1000]
    append(log, timestamp=1011)
    assert [segment.end for segment in log.segments()] == [7, 8]


async def test_nothing_follows_a_bridge_in_its_segment(files: SimulatedFiles) -> None:
    log = open_log(files, replace(CONFIG, segment_bytes_max=10_000))
    append(log, 3, epoch=1)
    batches = [*(make_batch(offset, epoch=2) for offset in (3, 4)), bridge(5, 2), make_batch(6, epoch=2)]
    log.append_batches(b"".join(batches), [header_of(batch) for batch in batches])
    assert [segment.end for segment in log.segments()] == [3, 6, 7]
    await log.truncate(6)
    for again in (log, open_log(files.crash("all"))):
        assert again.log_end == 6
        append(again, epoch=2)
        assert [segment.end for segment in again.segments()] == [3, 6, 7]
    await log.truncate(6)
    await log.close()
    again = open_log(files.crash("synced"), clean=True)
    assert again.recovery.was_clean
    append(again, epoch=2)
    assert [segment.end for segment in again.segments()] == [3, 6, 7]


async def test_a_bridge_ends_its_segment_after_a_clean_close(files: SimulatedFiles) -> None:
    log = await recovered(files, sync_first=False)
    await log.truncate(25)
    bridge_of(log, 3)
    await log.close()
    log = open_log(files.crash("synced"), clean=True)
    assert log.recovery.was_clean
    append(log, epoch=3)
    assert [segment.end for segment in log.segments()] == [10, 20, 25, 26, 27]
    assert list(log.epochs) == [(1, 0), (3, 25)]


@pytest.mark.parametrize("clean", [True, False])
async def test_a_bridge_alone_in_its_segment_begins_its_epoch(files: SimulatedFiles, *, clean: bool) -> None:
    """Batches that a follower appends before it have the same epoch, and may be on the disk already."""
    log = open_log(files)
    append(log, 10, epoch=1)
    append(log, 20, epoch=2)
    await log.sync()
    bridge_of(log, 2)
    append(log, 3, epoch=2)
    await log.close()
    for each in (log, open_log(files.crash("synced"), clean=clean)):
        assert [segment.end for segment in each.segments()] == [10, 20, 30, 31, 34]
        assert list(each.epochs) == [(1, 0), (2, 30)]


async def test_a_failed_sync_is_remembered(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 3)
    files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await log.sync()
    files.syncs_fail = False
    assert log.synced_end == 0
    for attempt in (
        log.sync,
        lambda: log.truncate(1),
        lambda: log.advance_log_start(1),
        lambda: log.apply_retention(0, 3),
    ):
        with pytest.raises(OSError, match="sync failed"):
            await attempt()
    with pytest.raises(OSError, match="sync failed"):
        append(log)
    with pytest.raises(OSError, match="sync failed"):
        log.read(0, 100, 3, at_least_one=True)
    await log.close()  # not as clean: the next opening scans
    assert not open_log(files, clean=True).recovery.was_clean


async def test_batches_appended_during_a_sync_do_not_count_as_synced(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.sync)
        await trio.lowlevel.checkpoint()
        append(log, 30)
    assert log.synced_end in (2, 32)
    assert log.unsynced_bytes == 100 * (log.log_end - log.synced_end)
    after = open_log(files.crash("synced"))
    assert after.log_end >= log.synced_end


async def test_a_sealed_segment_wants_a_sync(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 10)
    assert not log.wants_sync()
    append(log)
    assert log.wants_sync()
    await log.sync()
    assert not log.wants_sync()


@pytest.mark.parametrize("policy", [{"flush_messages": 2}, {"flush_bytes": 200}])
async def test_a_log_wants_a_sync_when_the_flush_policy_says_so(files: SimulatedFiles, policy: dict[str, int]) -> None:
    log = open_log(files)
    append(log)
    append(log)
    assert not log.wants_sync()
    log.use_config(replace(log.config, **policy))
    assert log.wants_sync()
    await log.sync()
    append(log)
    assert not log.wants_sync()


async def test_a_closed_log_refuses_everything(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log)
    await log.close()
    await log.close()
    with pytest.raises(OSError, match="closed"):
        append(log)
    with pytest.raises(OSError, match="closed"):
        await log.sync()
    reads: list[Callable[[], object]] = [
        lambda: log.read(0, 100, 1, at_least_one=True),
        lambda: log.read_batches(0, 1),
        lambda: log.headers(0, 1),
        lambda: log.find_timestamp(0, 1),
        lambda: log.max_timestamp(1),
    ]
    for read in reads:
        with pytest.raises(OSError, match="closed"):
            read()


async def test_closing_a_log_that_did_not_change_writes_nothing(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 25)
    await log.close()
    operations = []
    files.on_operation = lambda: operations.append(1)
    log = open_log(files, clean=True)
    assert offsets(log) == list(range(25))
    await log.close()
    assert operations == []


async def test_a_file_range_outlives_the_segment(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 25)
    found = log.read(3, 1000, 25, at_least_one=False)
    assert found is not None
    await log.advance_log_start(22)
    assert header_of(found.read()).base_offset == 3
    assert offsets(log) == [22, 23, 24]


async def test_a_batch_larger_than_the_limit_is_read_only_when_it_must_be(files: SimulatedFiles) -> None:
    log = open_log(files)
    append(log, 3, size=300)
    for limit in (-5, 0, 299):
        assert log.read(1, limit, 3, at_least_one=False) is None
        found = log.read(1, limit, 3, at_least_one=True)
        assert found is not None
        assert (found.position, found.count) == (300, 300)


async def test_logs_share_their_open_files(files: SimulatedFiles) -> None:
    open_files = OpenFiles(files, 3)
    logs = [log_at(files, f"/data/{number}", CONFIG, clean=True, open_files=open_files) for number in range(10)]
    for log in logs * 2:
        append(log)
        assert 0 < len(open_files) <= 3
    assert all(offsets(log) == [0, 1] for log in logs)


class Committed:
    """Says when a segment may follow, as a replica does."""

    def __init__(self, log: Log) -> None:
        self.end = 0
        log.may_roll = lambda base: self.end >= base


async def test_a_third_segment_waits_until_the_first_is_committed(files: SimulatedFiles) -> None:
    log = open_log(files)
    committed = Committed(log)
    append(log, 30)
    assert [segment.size for segment in log.segments()] == [1000, 2000]
    committed.end = 10
    append(log)
    assert [segment.size for segment in log.segments()] == [1000, 2000, 100]
    assert not log.waits_to_roll


async def test_batches_appended_together_wait_as_well(files: SimulatedFiles) -> None:
    log = open_log(files)
    Committed(log)
    batches = [make_batch(offset, size=100) for offset in range(30)]
    log.append_batches(b"".join(batches), [header_of(batch) for batch in batches])
    assert [segment.size for segment in log.segments()] == [1000, 2000]
    assert offsets(log) == list(range(30))


async def test_a_new_epoch_or_a_bridge_rolls_without_waiting(files: SimulatedFiles) -> None:
    log = open_log(files)
    Committed(log)
    append(log, 12)
    append(log, 2, epoch=1)
    made = bridge(14, 1)
    log.append(made, header_of(made))
    append(log, 1, epoch=1)
    assert [segment.base for segment in log.segments()] == [0, 10, 12, 15]


async def test_an_overgrown_segment_is_reported_until_it_may_roll(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "OVERGROWTH_BYTES_MIN", 500)
    log = open_log(files)
    committed = Committed(log)
    append(log, 30)
    assert not log.waits_to_roll
    append(log)
    assert log.waits_to_roll
    committed.end = 10
    assert not log.waits_to_roll
    committed.end = 0
    await log.truncate(25)
    assert not log.waits_to_roll


async def test_compaction_opens_no_third_segment(files: SimulatedFiles) -> None:
    log = open_log(files, replace(CONFIG, compacts=True, segment_age_ms_max=10))
    committed = Committed(log)
    append(log, 12, timestamp=1)
    await log.compact(100, 0)
    assert [segment.base for segment in log.segments()] == [0, 10]
    committed.end = 10
    await log.compact(100, 0)
    assert [segment.base for segment in log.segments()] == [0, 10, 12]


async def _append_to(log: Log, end: int, epoch: int) -> None:
    while log.log_end < end:
        data = produced(log.log_end, epoch)
        log.append(data, header_of(data))


async def _append_at_once(log: Log) -> None:
    """Appends the rest of what came together."""
    batches = [produced(offset, epoch=1) for offset in range(log.log_end, 65)]
    log.append_batches(b"".join(batches), [header_of(each) for each in batches])


async def _expect_stamped(log: Log) -> None:
    await log.expect_stamped(60, 2, [EpochStart(2, 45)])
    await _append_to(log, 65, epoch=2)


WORK: dict[str, Callable[[Log], Awaitable[object]]] = {
    "append": lambda log: _append_to(log, 65, epoch=1),
    "append at once": _append_at_once,
    "sync": Log.sync,
    "delete": lambda log: log.advance_log_start(25),
    "delete all": lambda log: log.advance_log_start(log.log_end),
    "cut": lambda log: log.truncate(37),
    "cut within a segment that was sealed": lambda log: log.truncate(24),
    "begin anew": lambda log: log.truncate_fully(100),
    "stamp": lambda log: log.restamp(5, 40, 3),
    "expect what is stamped": _expect_stamped,
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
async def test_work_that_lacks_an_open_file_is_done_later(
    autojump_clock: object, work: Callable[[Log], Awaitable[object]]
) -> None:
    """The work waits, or fails and can be repeated, wherever it stopped. Nothing is half done, and the disk has not
    failed."""
    expected = None
    for opens in itertools.chain([None], itertools.count()):
        files = SimulatedFiles()
        files.make_directories("/data")
        await files.sync_directory("")
        log = log_at(files, DIRECTORY, CONFIG, clean=True, open_files=OpenFiles(files, 1))
        await _append_to(log, 21, epoch=0)
        await log.sync()
        await _append_to(log, 42, epoch=1)
        files.opens_left = opens
        async with trio.open_nursery() as nursery:
            nursery.start_soon(files.close_others_after, 3)
            try:
                await work(log)
            except OSError as error:
                assert is_out_of_files(error)
                files.opens_left = None
                await work(log)
            left = files.opens_left
        assert not log.has_failed
        expected = expected or _state(log)
        assert _state(log) == expected, opens
        await log.close()
        for clean in (True, False):
            assert _state(open_log(files.crash("synced"), clean=clean)) == expected
        if left:
            return


def _state(log: Log) -> tuple[object, ...]:
    producers = [log.producers.expected(producer, 0) for producer in range(3)]
    return log.log_start, log.log_end, offsets(log), list(log.epochs), log.size_bytes, producers


async def test_a_segment_can_be_ended_and_is_on_the_disk_then(files: SimulatedFiles) -> None:
    log = open_log(files)
    await log.end_segment()
    assert len(log.segments()) == 1
    append(log, 3)
    await log.end_segment()
    append(log)
    assert [(each.base, each.end) for each in log.segments()] == [(0, 3), (3, 4)]
    assert log.synced_end == 3
    assert open_log(files.crash("synced")).log_end == 3
    again = open_log(files.crash("all"))
    assert (again.log_end, again.recovery.scanned_bytes) == (4, 100)


async def test_a_timestamp_is_searched_from_an_offset_on(files: SimulatedFiles) -> None:
    log = open_log(files)
    for values in (b"a", b"b"):
        batch = bytearray(build_batch([Record(offset, 10 - offset, None, values) for offset in range(2)]))
        stamp(batch, 0, log.log_end, 0)
        log.append(batch, header_of(batch))
    assert (log.find_timestamp(10, 4), log.find_timestamp(10, 4, 1)) == ((10, 0, 0), (10, 2, 0))
    assert (log.max_timestamp(4), log.max_timestamp(4, 1)) == ((10, 0, 0), (10, 2, 0))
    assert log.max_timestamp(4, 4) is None
