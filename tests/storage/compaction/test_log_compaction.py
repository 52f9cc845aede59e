"""What compaction does to a log, as its readers see it."""

import errno
import tracemalloc
from contextlib import suppress
from itertools import accumulate, count

import pytest
import trio
from compacted_logs import CONFIG, DIRECTORY, append, batches, contents, log_of, open_log, records, seal, sizes
from msgspec.structs import replace
from simulation.files import Node, SimulatedFile, SimulatedFiles

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch, open_body, read_records
from tailrace.protocol.batches.transaction_markers import is_marker, marker_batch
from tailrace.storage.compaction.compaction import Rules, Survey
from tailrace.storage.compaction.log_compaction import (
    PRODUCERS_KEPT_MS,
    REPEATED_MS,
    CannotCompactError,
    SegmentRewrite,
)
from tailrace.storage.directory.layout import CLEANED_SUFFIX
from tailrace.storage.log.log import Log
from tailrace.storage.segments.batch_walk import FAR_BYTES
from tailrace.storage.verification.replica_verification import ReplicaVerification

APART = replace(CONFIG, index_bytes_max=8)
"""A config with which neighbouring segments do not fit into one."""


async def test_of_each_key_the_last_record_stays_where_it_was() -> None:
    log = log_of([("a", "1"), ("b", "1"), ("a", "2")], [("c", "1"), ("b", "2")])
    outcome = await log.compact(0, log.log_end)
    assert contents(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2")]
    assert (log.log_start, log.log_end) == (0, 5)
    assert outcome is not None
    assert (outcome.start, outcome.end, outcome.removed_records) == (0, 5, 2)
    assert outcome.removed_bytes > 0
    assert log.size_bytes == sum(sizes(log))


async def test_compacted_records_are_judged_again_after_newer_records() -> None:
    log = log_of([("a", "1"), ("b", "1")])
    await log.compact(0, log.log_end)
    append(log, ("a", "2"))
    seal(log)
    outcome = await log.compact(0, log.log_end)
    assert outcome is not None
    assert (outcome.start, outcome.end) == (2, 3)
    assert contents(log) == [(1, "b", "1"), (2, "a", "2")]
    assert await log.compact(0, log.log_end) is None, "nothing is new"


async def test_the_open_segment_is_left_alone() -> None:
    log = log_of([("a", "1")])
    append(log, ("a", "2"))
    append(log, ("a", "3"))
    await log.compact(0, log.log_end)
    assert contents(log) == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]


async def test_uncommitted_records_are_left_alone() -> None:
    log = log_of([("a", "1"), ("a", "2")], [("a", "3")])
    await log.compact(0, 2)
    assert contents(log) == [(1, "a", "2"), (2, "a", "3")]


async def test_a_tombstone_stays_until_every_reader_could_have_seen_it() -> None:
    log = log_of([("a", "1"), ("b", "1")], [("a", None)], min_compaction_lag_ms=0)
    await log.compact(10_000, log.log_end)
    assert contents(log) == [(1, "b", "1"), (2, "a", None)]
    append(log, ("c", "1"))
    seal(log)
    await log.compact(10_999, log.log_end)
    assert contents(log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    append(log, ("d", "1"))
    seal(log)
    await log.compact(11_100, log.log_end)
    assert contents(log) == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1")]


async def test_the_age_of_a_tombstone_survives_a_restart() -> None:
    files = SimulatedFiles()
    log = log_of([("a", "1")], [("a", None)], files=files)
    await log.compact(10_000, log.log_end)
    await log.close()
    log = open_log(files, clean=True)
    append(log, ("b", "1"))
    seal(log)
    await log.compact(12_000, log.log_end)
    assert contents(log) == [(2, "b", "1")]


async def test_a_value_after_a_tombstone_stays() -> None:
    log = log_of([("a", "1")], [("a", None)], [("a", "2")], [("b", "1")])
    for now in (0, 5000, 10_000):
        append(log, ("z", str(now)))
        seal(log)
        await log.compact(now, log.log_end)
    assert (2, "a", "2") in contents(log)


async def test_a_batch_keeps_its_numbers_when_it_loses_records() -> None:
    log = open_log(SimulatedFiles())
    append(log, ("a", "1"), ("b", "1"), ("c", "1"), time=7, producer_id=5, producer_epoch=2, base_sequence=40)
    before, _ = batches(log)[0]
    append(log, ("a", "2"), ("c", "2"))
    seal(log)
    await log.compact(0, log.log_end)
    after, batch = batches(log)[0]
    assert [record.offset for record in read_records(batch)] == [1]
    for field in ("base_offset", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence", "leader_epoch"):
        assert getattr(after, field) == getattr(before, field)
    assert (after.base_timestamp, after.max_timestamp, after.last_sequence) == (7, 7, 42)


async def test_the_largest_timestamp_of_a_batch_is_that_of_its_records() -> None:
    log = open_log(SimulatedFiles())
    made = [Record(0, 5, b"a", b"1"), Record(1, 9, b"b", b"1"), Record(2, 7, b"c", b"1")]
    for append_time in (None, 100):
        at = [Record(log.log_end + index, each.timestamp, each.key, each.value) for index, each in enumerate(made)]
        batch = build_batch(at, base_offset=log.log_end, leader_epoch=0, append_time=append_time)
        log.append(memoryview(batch), read_header(batch))
        seal(log)
        append(log, ("b", "2"), time=1)
        seal(log)
        await log.compact(0, log.log_end)
        header, _ = next((h, b) for h, b in batches(log) if h.record_count == 2)
        assert header.max_timestamp == (append_time or 7)


@pytest.mark.parametrize("compression", list(Compression))
async def test_the_rest_of_a_compressed_batch_is_compressed_as_before(compression: Compression) -> None:
    log = open_log(SimulatedFiles())
    append(log, ("a", "1" * 50), ("b", "1" * 50), ("c", "1" * 50), compression=compression)
    append(log, ("b", "2"))
    seal(log)
    await log.compact(0, log.log_end)
    assert contents(log) == [(0, "a", "1" * 50), (2, "c", "1" * 50), (3, "b", "2")]
    assert batches(log)[0][0].compression is compression


async def test_the_last_batch_of_a_producer_stays_for_its_sequence() -> None:
    log = open_log(SimulatedFiles())
    for sequence in range(3):
        append(log, ("a", "1"), time=1000, producer_id=5, producer_epoch=0, base_sequence=sequence)
    append(log, ("a", "2"))
    seal(log)
    await log.compact(1001 + REPEATED_MS, log.log_end)
    left = [(h.base_offset, h.record_count, h.last_sequence) for h, _ in batches(log)]
    assert left == [(2, 0, 2), (3, 1, -1)]
    append(log, ("b", "1"))
    seal(log)
    await log.compact(1001 + PRODUCERS_KEPT_MS, log.log_end)
    assert [h.base_offset for h, _ in batches(log)] == [3, 4]


async def test_batches_that_a_producer_may_send_again_stay_for_their_sequences() -> None:
    files = SimulatedFiles()
    log = open_log(files)
    for sequence in range(7):
        append(log, ("a", "1"), time=1000, producer_id=5, producer_epoch=0, base_sequence=sequence)
    append(log, ("a", "2"))
    seal(log)
    await log.compact(1000 + REPEATED_MS, log.log_end)
    assert [h.base_offset for h, _ in batches(log)] == [2, 3, 4, 5, 6, 7]
    append(log, ("b", "1"), time=1001, producer_id=5, producer_epoch=0, base_sequence=7)
    append(log, ("b", "2"), time=1001)
    seal(log)
    await log.compact(1000 + REPEATED_MS, log.log_end)
    assert [h.last_sequence for h, _ in batches(log) if h.has_producer] == [2, 3, 4, 5, 6, 7]


async def test_a_segment_without_records_still_shows_where_it_ends() -> None:
    files = SimulatedFiles()
    big = "x" * 300
    log = log_of([("a", big)], [("a", big)], [("a", "last")], files=files)
    ends = [segment.end for segment in log.segments()]
    await log.compact(0, log.log_end)
    assert [segment.end for segment in log.segments()] == ends
    assert contents(log) == [(2, "a", "last")]
    # An opening without the manifest finds the same.
    await log.close()
    files.remove(f"{DIRECTORY}/manifest")
    again = open_log(files)
    assert [segment.end for segment in again.segments()][:3] == ends[:3]
    assert contents(again) == [(2, "a", "last")]


async def test_segments_without_records_are_skipped_if_others_follow() -> None:
    log = open_log(SimulatedFiles(), APART)
    for epoch in (0, 1, 2, 3):
        append(log, ("a", str(epoch)), time=1, epoch=epoch)
    append(log, ("a", None), time=1, epoch=4)
    seal(log)
    await log.compact(0, log.log_end)

    def first_of(up_to: int) -> int | None:
        found = log.read(0, 1000, up_to, at_least_one=True, passes_empty=True)
        return None if found is None else read_header(found.read()).base_offset

    assert [header.record_count for header, _ in batches(log)] == [0, 0, 0, 0, 1], (
        "without `passes_empty` nothing is skipped"
    )
    assert first_of(5) == 4
    assert first_of(4) == 3, "a reader gets to the end of what there is"
    assert first_of(0) is None
    append(log, ("b", "1"), time=1, epoch=4)
    seal(log)
    await log.compact(0, log.log_end)
    await log.compact(10_000, log.log_end)
    assert contents(log)[-1] == (5, "b", "1")
    assert first_of(6) == 4


@pytest.mark.parametrize("times", [(-5000, -5000), (-1, -1), (7, -1)])
async def test_records_without_a_timestamp_or_before_1970_are_not_skipped(times: tuple[int, int]) -> None:
    log = open_log(SimulatedFiles())
    producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    append(log, ("a", "1"), time=times[0], **producer)
    append(log, ("b", "1"), time=times[1])
    append(log, ("a", "2"), time=times[1], epoch=1)
    seal(log)
    for _ in range(2):
        found = log.read(0, 1000, log.log_end, at_least_one=True, passes_empty=True)
        assert found is not None
        assert read_header(found.read()).base_offset < 2
        assert contents(log)[-2:] == [(1, "b", "1"), (2, "a", "2")]
        await log.compact(times[0], log.log_end)


async def test_small_segments_are_merged() -> None:
    log = log_of([("a", "1")], [("b", "1")], [("c", "1")], [("a", "2")])
    before = len(log.segments())
    await log.compact(0, log.log_end)
    assert (before, len(log.segments())) == (5, 2)
    assert contents(log) == [(1, "b", "1"), (2, "c", "1"), (3, "a", "2")]


STARTS = [(0, 0), (1, 2), (2, 4), (3, 6), (4, 7)]
"""The starts of the leader epochs in the log of `elected`."""


async def elected(files: SimulatedFiles) -> Log:
    """Makes a log that five leaders have led. The second and the last had nothing to recover; the fourth left only a
    bridge."""
    files.make_directories("/data")
    await files.sync_directory("")
    log = open_log(files, replace(CONFIG, segment_bytes_max=2000))
    append(log, ("a", "0"))
    append(log, ("b", "0"))
    append(log, ("a", "1"), epoch=1)
    append(log, ("c", "1"), epoch=1)
    await log.restamp(3, 4, 2)
    append_bridge(log, 2)
    append(log, ("a", "2"), epoch=2)
    append_bridge(log, 3)
    append(log, ("a", "4"), epoch=4)
    append(log, ("b", "4"), epoch=4)
    seal(log)
    assert ends(log) == [2, 5, 6, 7, 9, 9]
    assert list(log.epochs) == STARTS
    return log


def append_bridge(log: Log, epoch: int) -> None:
    made = bridge(log.log_end, epoch)
    log.append(made, read_header(made))


def ends(log: Log) -> list[int]:
    return [segment.end for segment in log.segments()]


def left_of(log: Log) -> list[tuple[int, int, int]]:
    """Returns offset, leader epoch and number of records of each batch."""
    return [(header.base_offset, header.leader_epoch, header.record_count) for header, _ in batches(log)]


async def test_segments_of_all_leaders_are_merged() -> None:
    files = SimulatedFiles()
    log = await elected(files)
    await log.compact(0, log.log_end)
    assert ends(log) == [9, 9]
    assert list(log.epochs) == STARTS
    assert [log.epoch_end(epoch) for epoch in range(5)] == [(0, 2), (1, 4), (2, 6), (3, 7), (4, 9)]
    assert not list(ReplicaVerification(files, DIRECTORY).findings())
    left = left_of(log)
    assert left == [(1, 0, 0), (2, 1, 0), (3, 2, 1), (4, 2, 1), (5, 2, 0), (6, 3, 1), (7, 4, 1), (8, 4, 1)]
    reopened = [open_log(files.crash("synced")), open_log(files.after_kill())]
    await log.close()
    reopened += [open_log(files.crash("synced"), clean=clean) for clean in (True, False)]
    for each in reopened:
        assert (ends(each), list(each.epochs), left_of(each)) == ([9, 9], STARTS, left)
        append(each, ("d", "4"), epoch=4)
        append(each, ("d", "5"), epoch=5)
        assert list(each.epochs) == [*STARTS, (5, 10)]


async def test_an_epoch_outlives_its_records_even_without_the_manifest_and_in_copies() -> None:
    files = SimulatedFiles()
    log = await elected(files)
    for epoch in (5, 6):
        await log.compact(0, log.log_end)
        for key in "abc":
            append(log, (key, str(epoch)), epoch=epoch)
        seal(log)
    await log.compact(0, log.log_end)
    assert [count for _, _, count in left_of(log)] == [0, 0, 1, 0, 1, 0, 0, 1, 1, 1], "bridges, and what was last"
    copy = open_log(SimulatedFiles())
    for header, batch in batches(log):
        copy.append(batch, header)
    await log.close()
    files.remove(f"{DIRECTORY}/manifest")
    for each in (copy, open_log(files)):
        assert [start.epoch for start in each.epochs] == [0, 1, 2, 3, 4, 5, 6]
        assert list(each.epochs)[2:4] == [(2, 4), (3, 6)]
        assert [each.epoch_end(epoch)[1] for epoch in (2, 3, 4, 6)] == [6, 8, 11, 15]


@pytest.mark.parametrize("fact", ["sealed", "epoch", "stamped"])
async def test_a_damaged_line_of_the_manifest_loses_no_epoch(fact: str) -> None:
    files = SimulatedFiles()
    log = await elected(files)
    await log.compact(0, log.log_end)
    await log.close()
    manifest = files.open(f"{DIRECTORY}/manifest")
    manifest.write_at(files.read(manifest.path).index(b'"%s"' % fact.encode()), b"?")
    log = open_log(files)
    assert list(log.epochs) == STARTS
    await log.close()
    assert list(open_log(files, clean=True).epochs) == STARTS


async def test_an_epoch_begins_with_the_first_of_several_bridges() -> None:
    log = open_log(SimulatedFiles())
    append(log, ("a", "x" * 300))
    await log.sync()
    append_bridge(log, 2)
    append(log, ("b", "2"), epoch=2)
    seal(log)
    await log.compact(0, log.log_end)
    assert [(segment.end, segment.epoch_starts) for segment in log.segments()[:-1]] == [(1, None), (3, ((2, 1),))]


async def test_a_merged_segment_can_be_stamped_truncated_and_deleted() -> None:
    for how in ("stamped", "cut", "deleted"):
        files = SimulatedFiles()
        log = await elected(files)
        await log.compact(0, log.log_end)
        if how == "stamped":
            await log.restamp(6, 9, 7)
            append_bridge(log, 7)
            expected = [*STARTS, (7, 9)]
        elif how == "cut":
            await log.truncate(5)
            append(log, ("d", "7"), epoch=7)
            expected = [*STARTS[:3], (7, 5)]
        else:
            await log.advance_log_start(5)
            expected = [(2, 5), *STARTS[3:]]
        reopened = [log, open_log(files.after_kill())]
        await log.sync()
        reopened.append(open_log(files.crash("synced")))
        await log.close()
        reopened.append(open_log(files, clean=True))
        assert [list(each.epochs) for each in reopened] == [expected] * 4, how
        assert not [finding for finding in ReplicaVerification(files, DIRECTORY).findings() if finding.is_damage]


async def test_a_reader_inside_a_gap_goes_on_with_the_next_record() -> None:
    log = log_of([("a", "1"), ("b", "1"), ("a", "2"), ("a", "3"), ("c", "1")])
    await log.compact(0, log.log_end)
    for offset in range(5):
        assert [r.offset for r in records(log, offset)] == [each for each in (1, 3, 4) if each >= offset]


async def test_timestamps_are_found_among_the_remaining_records() -> None:
    log = open_log(SimulatedFiles())
    for time, key in ((10, "a"), (50, "b"), (20, "c")):
        append(log, (key, "1"), time=time, producer_id=1, producer_epoch=0, base_sequence=time)
    append(log, ("b", "2"), time=30, producer_id=1, producer_epoch=0, base_sequence=51)
    seal(log)
    append(log, ("b", "3"), time=5)
    seal(log)
    await log.compact(100, log.log_end)
    assert any(header.record_count == 0 and header.max_timestamp == 30 for header, _ in batches(log))
    assert log.max_timestamp(log.log_end) == (20, 2, 0)
    assert log.find_timestamp(15, log.log_end) == (20, 2, 0)
    assert log.find_timestamp(21, log.log_end) is None
    assert log.find_timestamp(0, log.log_end) == (10, 0, 0)


async def test_the_timestamp_of_an_empty_batch_is_that_of_no_record() -> None:
    log = open_log(SimulatedFiles())
    for time, key in ((10, "x"), (20, "a"), (90, "b")):
        append(log, (key, "1"), time=time, producer_id=time, producer_epoch=0, base_sequence=0)
    append(log, ("b", "2"), time=30)
    seal(log)
    await log.compact(100, log.log_end)
    await log.advance_log_start(1)
    assert [(header.max_timestamp, header.record_count) for header, _ in batches(log)] == [(20, 1), (90, 0), (30, 1)]
    assert log.max_timestamp(log.log_end) == (30, 3, 0)
    assert log.max_timestamp(3) == (20, 1, 0)


@pytest.mark.parametrize("clean", [True, False])
async def test_producers_are_known_after_a_restart(clean: bool) -> None:
    files = SimulatedFiles()
    log = open_log(files)
    for sequence in range(3):
        append(log, ("a", "1"), producer_id=5, producer_epoch=0, base_sequence=sequence)
        seal(log)
    append(log, ("a", "2"))
    seal(log)
    # So late that not even an empty batch of the producer is left.
    await log.compact(2 * PRODUCERS_KEPT_MS, log.log_end)
    assert not any(header.has_producer for header, _ in batches(log))
    await log.close()
    log = open_log(files, clean=clean)
    assert [(number, producer.batches[-1].last_sequence) for number, producer in log.producers] == [(5, 2)]


async def test_a_reader_of_the_old_file_is_not_disturbed() -> None:
    log = log_of([("a", "1"), ("b", "1"), ("a", "2")])
    found = log.read(0, 10_000, log.log_end, at_least_one=True)
    assert found is not None
    before = found.read()
    await log.compact(0, log.log_end)
    assert found.read() == before


async def test_records_come_and_go_while_a_log_is_compacted() -> None:
    log = log_of(*([(f"key{number % 7}", "x" * 30)] * 5 for number in range(200)), segment_bytes_max=1000)
    log.use_config(replace(log.config, deletes=True, retention_bytes=1))
    turns = 0
    is_over = False

    async def use() -> None:
        nonlocal turns
        while not is_over or turns < 4:
            append(log, ("new", str(turns)))
            assert contents(log)[-1] == (log.log_end - 1, "new", str(turns))
            await log.sync()
            if turns == 3:
                await log.advance_log_start(100)
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(use)
        await log.compact(0, log.log_end)
        is_over = True
    assert log.log_start == 100
    assert log.size_bytes == sum(sizes(log))
    await log.compact(0, log.log_end)
    keys = [key for _, key, _ in contents(log) if key != "new"]
    assert sorted(keys) == [f"key{number}" for number in range(7)]


class HeldFiles(SimulatedFiles):
    """Files whose next sync waits until the test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.holds_next = False
        self.begun = trio.Event()
        self.let_go = trio.Event()

    async def sync(self, node: Node) -> None:
        if self.holds_next:
            self.holds_next = False
            self.begun.set()
            await self.let_go.wait()
        await super().sync(node)


async def test_a_segment_removed_meanwhile_ends_the_compaction() -> None:
    files = HeldFiles()
    log = log_of([("a", "1"), ("b", "1")], [("a", "2"), ("c", "1"), ("c", "2")], files=files)
    await log.sync()
    files.holds_next = True
    outcomes = []

    async def compact() -> None:
        outcomes.append(await log.compact(0, log.log_end))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(compact)
        await files.begun.wait()
        await log.advance_log_start(2)
        files.let_go.set()
    assert outcomes == [None]
    assert not log.compactions, "what is left of the group was not compacted"
    assert contents(log) == [(2, "a", "2"), (3, "c", "1"), (4, "c", "2")]
    assert not any(name.endswith(".cleaned") for name in files.list(DIRECTORY))
    await log.compact(0, log.log_end)
    assert contents(log) == [(2, "a", "2"), (4, "c", "2")]


async def test_a_record_stays_if_its_successor_is_truncated_meanwhile() -> None:
    files = HeldFiles()
    log = log_of([("a", "1"), ("b", "1"), ("b", "2")], files=files)
    append(log, ("a", "2"), epoch=1)
    seal(log)
    await log.sync()
    files.holds_next = True
    outcomes = []

    async def compact() -> None:
        outcomes.append(await log.compact(0, log.log_end))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(compact)
        await files.begun.wait()
        await log.truncate(3)
        append(log, ("c", "1"), epoch=2)
        files.let_go.set()
    assert outcomes == [None]
    assert contents(log) == [(0, "a", "1"), (1, "b", "1"), (2, "b", "2"), (3, "c", "1")]
    assert not any(name.endswith(".cleaned") for name in files.list(DIRECTORY))


async def test_replication_hears_of_each_segment_that_is_replaced() -> None:
    """It hears at once, since the next segment may take long."""
    log = log_of([("a", "1"), ("a", "2")], [("b", "1")], [("a", "3"), ("a", "4")], segment_bytes_max=150)
    heard = []
    log.on_compacted = lambda: heard.append(contents(log)[0])
    await log.compact(0, log.log_end)
    assert heard == [(2, "b", "1"), (2, "b", "1")]
    await log.compact(0, log.log_end)
    assert len(heard) == 2, "nothing was new"


async def test_a_compaction_that_is_cancelled_leaves_the_log_as_it_was() -> None:
    files = HeldFiles()
    log = log_of([("a", "1"), ("b", "1"), ("a", "2")], files=files)
    await log.sync()
    before = contents(log)
    files.holds_next = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.compact, 0, log.log_end)
        await files.begun.wait()
        assert any(name.endswith(".cleaned") for name in files.list(DIRECTORY))
        nursery.cancel_scope.cancel()
    assert contents(log) == before
    assert not any(name.endswith(".cleaned") for name in files.list(DIRECTORY))
    await log.compact(0, log.log_end)
    assert contents(log) == before[1:]


async def test_more_keys_than_fit_into_memory_take_several_passes() -> None:
    log = log_of([(f"k{number}", "1") for number in range(10)] + [(f"k{number}", "2") for number in range(10)])
    log.use_config(replace(log.config, segment_bytes_max=10_000))
    ends = []
    while (outcome := await log.compact(0, log.log_end, keys_max=4)) is not None:
        ends.append(outcome.end)
    assert ends == [4, 8, 12, 16, 20]
    assert contents(log) == [(10 + number, f"k{number}", "2") for number in range(10)]


async def test_unwritten_batches_keep_no_read_buffers_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few small batches stay, far from each other."""
    log = open_log(SimulatedFiles(), replace(CONFIG, segment_bytes_max=2**30))
    for number in range(20):
        append(log, (f"k{number}", "stays"))
        append(log, ("large", f"{number}" * 100_000))
    seal(log)
    held: list[int] = []
    write = SegmentRewrite._write

    def measure(rewrite: SegmentRewrite) -> None:
        pinned = {id(each.obj): len(each.obj) for each in rewrite._unwritten if isinstance(each, memoryview)}
        held.append(sum(pinned.values()))
        write(rewrite)

    monkeypatch.setattr(SegmentRewrite, "_write", measure)
    assert await log.compact(0, log.log_end) is not None
    assert len(contents(log)) == 21
    assert max(held) < 2 * FAR_BYTES


async def test_only_the_bytes_of_remaining_records_are_held() -> None:
    count = 3000
    batch = build_batch([Record(offset, 0, b"key", b"") for offset in range(count)])
    header, body = read_header(batch), open_body(batch, read_header(batch))
    rules = Rules(Survey(0), tombstones_end=0, producers_since_ms=0, repeated_since_ms=0)
    group = log_of([("a", "1")]).segment_list.sealed
    rewrite = SegmentRewrite(SimulatedFiles(), "/rewritten", group, rules, 4096)
    tracemalloc.start()
    kept = await rewrite._kept_records(header, body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept.count == count
    assert peak < 100 * count
    assert kept.batch() == batch


async def test_a_full_disk_ends_a_compaction_and_not_the_log() -> None:
    files = SimulatedFiles()
    log = log_of([("a", "x" * 100), ("b", "x" * 100), ("a", "1")], files=files)
    await log.sync()
    before = contents(log)
    files.room_bytes = 50
    with pytest.raises(CannotCompactError):
        await log.compact(0, log.log_end)
    assert contents(log) == before
    files.room_bytes = None
    assert not any(name.endswith(".cleaned") for name in files.list(DIRECTORY))
    assert await log.compact(0, log.log_end) is not None


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("room", range(0, 2000, 100))
async def test_a_full_disk_ends_a_compaction_at_any_step(room: int, *, is_open: bool) -> None:
    files = SimulatedFiles()
    log = open_log(files, replace(CONFIG, segment_age_ms_max=1000))
    for number in range(30):
        pair = f"k{number % 3}", "v" * 40
        append(log, pair, producer_id=1, producer_epoch=0, base_sequence=number, epoch=number // 20)
    if not is_open:
        seal(log)
    last = {key: value for _, key, value in contents(log)}
    files.room_bytes = room
    with suppress(CannotCompactError):
        await log.compact(2000, log.log_end)
    assert not log.has_failed
    assert {key: value for _, key, value in contents(log)} == last
    files.room_bytes = None
    await log.compact(2000, log.log_end)
    assert [offset for offset, _, _ in contents(log)] == [27, 28, 29]
    assert not [finding for finding in ReplicaVerification(files, DIRECTORY).findings() if finding.is_damage]
    await log.close()
    assert [offset for offset, _, _ in contents(open_log(files, clean=True))] == [27, 28, 29]


@pytest.mark.parametrize("syncs", range(3))
async def test_a_replacement_that_a_full_disk_could_not_sync_may_be_lost(
    monkeypatch: pytest.MonkeyPatch, syncs: int
) -> None:
    """The syncs are those of the directory, of the manifest, and of the directory again."""
    files = SimulatedFiles()
    log = log_of([("a", "1"), ("b", "1"), ("a", "2")], files=files)
    await log.sync()
    file_sync, directory_sync = SimulatedFile.sync, files.sync_directory
    done: list[str] = []

    def count_or_fail(path: str) -> None:
        if len(done) == syncs:
            raise OSError(errno.ENOSPC, "it fails")
        done.append(path)

    async def sync(file: SimulatedFile) -> None:
        if not file.path.endswith(CLEANED_SUFFIX):
            count_or_fail(file.path)
        await file_sync(file)

    async def sync_directory(directory: str) -> None:
        count_or_fail(directory)
        await directory_sync(directory)

    monkeypatch.setattr(SimulatedFile, "sync", sync)
    monkeypatch.setattr(files, "sync_directory", sync_directory)
    with pytest.raises(OSError, match="it fails"):
        await log.compact(0, log.log_end)
    assert log.may_have_lost
    assert done == [DIRECTORY, f"{DIRECTORY}/manifest"][:syncs]


async def test_damage_is_not_hidden_under_a_new_checksum() -> None:
    files = SimulatedFiles()
    log = log_of([("a", "1"), ("b", "1"), ("a", "2")], files=files)
    await log.sync()
    file = files.open(f"{DIRECTORY}/{0:020}.log")
    file.write_at(65, bytes([file.read_at(65, 1)[0] ^ 1]))
    with pytest.raises(CannotCompactError, match="checksum"):
        await log.compact(0, log.log_end)


@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize(
    ("position", "bit"), [(0, 0x80), (0, 0x40), (3, 1), (7, 1), (7, 2), (12, 0x80), (15, 1)], ids=str
)
async def test_a_damaged_offset_or_epoch_is_not_hidden(batch: int, position: int, bit: int) -> None:
    """Checksums of batches do not cover offsets and epochs."""
    files = SimulatedFiles()
    log = log_of([("a", "1"), ("b", "1"), ("a", "2")], files=files, index_interval_bytes=1)
    await log.sync()
    file = files.open(f"{DIRECTORY}/{0:020}.log")
    at = [0, *accumulate(header.size for header, _ in batches(log))][batch] + position
    file.write_at(at, bytes([file.read_at(at, 1)[0] ^ bit]))
    before = file.read_at(0, file.size())
    with pytest.raises(CannotCompactError):
        await log.compact(0, log.log_end)
    assert file.read_at(0, file.size()) == before
    assert not any(name.endswith(".cleaned") for name in files.list(DIRECTORY))


async def test_an_old_open_segment_is_compacted_too() -> None:
    log = open_log(SimulatedFiles(), replace(CONFIG, max_compaction_lag_ms=500))
    append(log, ("a", "1"), time=1000)
    append(log, ("a", "2"), time=1100)
    assert await log.compact(1400, log.log_end) is None
    assert await log.compact(1501, log.log_end) is not None
    assert contents(log) == [(1, "a", "2")]


@pytest.mark.parametrize("time", [-5000, -1, 1000])
async def test_old_timestamps_do_not_roll_a_segment_each_time(time: int) -> None:
    config = replace(CONFIG, segment_bytes_max=10_000, segment_age_ms_max=100_000, min_cleanable_dirty_ratio=1.0)
    log = open_log(SimulatedFiles(), config)
    for number in range(21):
        append(log, ("a", str(number)), time=time)
        await log.compact(1_000_000 + number * 10_000, log.log_end)
    ends = [segment.end for segment in log.segments()]
    assert ends == ([12, 21] if time == -1 else [1, 13, 21])


async def test_compact_and_delete_together() -> None:
    log = open_log(SimulatedFiles(), replace(APART, deletes=True, retention_ms=100))
    append(log, ("a", "1"), ("b", "1"), time=0)
    append(log, ("a", "2"), time=50, epoch=1)
    seal(log)
    await log.compact(60, log.log_end)
    assert contents(log) == [(1, "b", "1"), (2, "a", "2")]
    await log.apply_retention(120, log.log_end)
    assert (log.log_start, contents(log)) == (2, [(2, "a", "2")])


async def test_segments_without_a_record_do_not_stop_retention() -> None:
    log = open_log(SimulatedFiles(), replace(APART, deletes=True, retention_ms=100))
    for epoch in range(3):
        append(log, ("a", str(epoch)), time=epoch * 10, epoch=epoch)
    seal(log)
    await log.compact(30, log.log_end)
    assert [segment.size for segment in log.segments()][:2] == [61, 61]
    await log.apply_retention(50, log.log_end)
    assert log.log_start == 0
    await log.apply_retention(115, log.log_end)
    assert log.log_start == 2


@pytest.mark.parametrize("is_synced", [True, False])
async def test_holes_and_bridges_stay_where_they_are(*, is_synced: bool) -> None:
    files = SimulatedFiles()
    log = log_of([("a", "1"), ("b", "1")], files=files)
    if is_synced:
        await log.sync()
    await log.restamp(1, 2, 3)
    append_bridge(log, 3)
    append(log, ("b", "2"), epoch=3)
    append(log, ("a", "2"), epoch=3)
    seal(log)
    await log.compact(0, log.log_end)
    assert contents(log)[-2:] == [(3, "b", "2"), (4, "a", "2")]
    await log.close()
    for each in (log, open_log(files, clean=True)):
        assert list(each.epochs) == [(0, 0), (3, 2)]
        assert ends(each) == [5, 5]


@pytest.mark.parametrize("is_syncing", [True, False])
async def test_a_segment_missing_from_the_manifest_is_not_skipped(
    monkeypatch: pytest.MonkeyPatch, *, is_syncing: bool
) -> None:
    files = SimulatedFiles()
    log = log_of([("a", "1"), ("b", "1")], [("c", "1"), ("d", "1")], [("b", "2"), ("e", "1")], files=files)
    await log.close()
    damaged = files.open(f"{DIRECTORY}/manifest")
    damaged.write_at(files.read(damaged.path).index(b'"base":2'), b"?")
    log = open_log(files)
    if not is_syncing:

        async def forget(_: Log) -> None:
            await trio.lowlevel.checkpoint()

        monkeypatch.setattr(Log, "sync", forget)
    await log.compact(0, log.log_end)
    left = [(0, "a", "1"), (2, "c", "1"), (3, "d", "1"), (4, "b", "2"), (5, "e", "1")]
    found = contents(log)
    assert found == (left if is_syncing else [(0, "a", "1"), (1, "b", "1"), *left[1:]])
    await log.close()
    assert contents(open_log(files, clean=True)) == found


@pytest.mark.parametrize("moments", range(8))
async def test_a_segment_is_not_sealed_while_it_is_stamped(moments: int) -> None:
    files = SimulatedFiles()
    log = log_of([("a", "1")], files=files, segment_age_ms_max=10, index_bytes_max=APART.index_bytes_max)
    append(log, ("b", "1"), time=1, epoch=254)
    append(log, ("c", "1"), time=1, epoch=254)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.restamp, 1, 3, 257)
        for _ in range(moments):
            await trio.lowlevel.checkpoint()
        await log.compact(1000, log.log_end)
    assert [segment.end for segment in log.segments()] == [1, 3, 3]
    await log.close()
    assert not [finding for finding in ReplicaVerification(files, DIRECTORY).findings() if finding.is_damage]


async def test_without_open_files_it_waits_or_is_postponed(autojump_clock: object) -> None:
    segments = [("a", "1"), ("b", "1"), ("a", "2")], [("c", "1"), ("b", "2")], [("a", "3"), ("d", "1")]
    for opens in count():
        files = SimulatedFiles()
        log = log_of(*segments, files=files)
        files.opens_left = opens
        is_put_off = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(files.close_others_after, 3)
            try:
                await log.compact(0, log.log_end)
            except CannotCompactError:
                is_put_off = True
            left = files.opens_left
        assert not log.has_failed, opens
        assert not any(name.endswith(CLEANED_SUFFIX) for name in files.list(DIRECTORY))
        if is_put_off:
            await log.compact(0, log.log_end)
        assert contents(log) == [(3, "c", "1"), (4, "b", "2"), (5, "a", "3"), (6, "d", "1")], opens
        await log.close()
        for clean in (True, False):
            assert contents(open_log(files.crash("all"), clean=clean)) == contents(log_of(*segments))[3:], opens
        if left:
            return


# transactions

A_DAY_MS = PRODUCERS_KEPT_MS + 1


def append_in_transaction(log: Log, *pairs: tuple[str, str | None], producer: int = 7, sequence: int = 0) -> None:
    append(log, *pairs, is_transactional=True, producer_id=producer, producer_epoch=0, base_sequence=sequence)


def end_transaction(log: Log, *, is_commit: bool, producer: int = 7, time: int = 0) -> None:
    batch = marker_batch(log.log_end, 0, producer, 0, is_commit=is_commit, coordinator_epoch=1, now_ms=time)
    log.append(batch, read_header(batch))


def marker_offsets(log: Log) -> list[int]:
    return [header.base_offset for header, _ in batches(log) if is_marker(header)]


def values_of(log: Log) -> list[tuple[int, str, str | None]]:
    """Returns offset, key and value of all records that are no markers."""
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for header, batch in batches(log)
        if not header.is_control
        for record in read_records(batch)
    ]


async def test_aborted_records_are_dropped_and_committed_ones_count() -> None:
    log = open_log(SimulatedFiles())
    append(log, ("a", "1"), ("b", "1"))
    append_in_transaction(log, ("a", "aborted"), ("c", "aborted"))
    end_transaction(log, is_commit=False)
    append_in_transaction(log, ("b", "2"), sequence=2)
    end_transaction(log, is_commit=True)
    seal(log)
    outcome = await log.compact(0, log.log_end)
    assert outcome is not None
    assert outcome.removed_records == 3
    assert values_of(log) == [(0, "a", "1"), (5, "b", "2")]
    assert marker_offsets(log) == [4, 6]


async def test_nothing_is_compacted_from_the_first_open_transaction_on() -> None:
    log = open_log(SimulatedFiles())
    append(log, ("a", "1"), ("a", "2"))
    seal(log)
    append_in_transaction(log, ("a", "3"))
    append(log, ("b", "1"), ("b", "2"))
    seal(log)
    await log.compact(0, log.log_end)
    assert values_of(log) == [(1, "a", "2"), (2, "a", "3"), (3, "b", "1"), (4, "b", "2")]
    end_transaction(log, is_commit=True)
    await log.compact(0, log.log_end - 1)
    assert len(values_of(log)) == 4, "the marker is not committed"
    await log.compact(0, log.log_end)
    assert values_of(log) == [(2, "a", "3"), (4, "b", "2")]


async def test_markers_and_what_is_known_of_aborted_transactions_go_at_last() -> None:
    """If only the marker went, clients would skip what the producer writes later."""
    log = open_log(SimulatedFiles())
    append_in_transaction(log, ("a", "aborted"))
    end_transaction(log, is_commit=False)
    append_in_transaction(log, ("a", "1"), sequence=1)
    end_transaction(log, is_commit=True)
    append(log, ("b", "1"))
    seal(log)
    await log.compact(0, log.log_end)
    assert marker_offsets(log) == [1, 3], "readers may have seen the transactions"
    assert len(log.transactions.aborted(0, log.log_end)) == 1
    append(log, ("c", "1"))
    seal(log)
    await log.compact(A_DAY_MS, log.log_end)
    assert marker_offsets(log) == [3], "a record of this one is left"
    assert log.transactions.aborted(0, log.log_end) == []
    assert values_of(log) == [(2, "a", "1"), (4, "b", "1"), (5, "c", "1")]
    append(log, ("a", "2"))
    seal(log)
    await log.compact(3 * A_DAY_MS, log.log_end)
    assert marker_offsets(log) == []
    assert not log.producers.open_transactions


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_log_that_is_opened_after_compaction_has_no_open_transaction(is_commit: bool) -> None:
    """The snapshot of the first segment has the transaction open, whose only record is compacted."""
    files = SimulatedFiles()
    log = open_log(files, APART)
    append_in_transaction(log, ("a", "1"))
    append(log, ("b", "1"))
    seal(log)
    end_transaction(log, is_commit=is_commit)
    append(log, ("a", "2"))
    seal(log)
    for day in range(3):
        append(log, ("c", str(day)))
        seal(log)
        await log.compact(day * 2 * A_DAY_MS, log.log_end)
    assert (0, "a", "1") not in values_of(log)
    await log.sync()
    for path in [path for path in files.list(DIRECTORY) if path.endswith(".producers")][1:]:
        files.remove(f"{DIRECTORY}/{path}")
    log = open_log(files.crash("all"), APART)
    assert not log.producers.open_transactions
    assert log.transactions.first_unstable(log.log_end) is None


async def test_offsets_of_groups_leave_no_empty_batches() -> None:
    """Their batches have no sequence numbers that a later batch must follow."""
    log = open_log(SimulatedFiles())
    for number in range(3):
        append(log, ("g", str(number)), is_transactional=True, producer_id=7, producer_epoch=0)
        end_transaction(log, is_commit=True)
    append(log, ("h", "1"))
    seal(log)
    await log.compact(0, log.log_end)
    assert [header.base_offset for header, _ in batches(log) if not header.is_control] == [4, 6]
