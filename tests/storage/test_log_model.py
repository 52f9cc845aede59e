"""A log does what a list of records would do, for any sequence of operations."""

from bisect import bisect_right
from itertools import pairwise
from random import Random
from typing import Any

import trio
from batch_samples import header_of
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from logs import log_at
from msgspec.structs import replace
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.control_batches import ControlKind, bridge
from tailrace.protocol.batches.record_batch import iterate, stamp
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig

DIRECTORY = "/data/topics/events/7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b/0"
CONFIG = LogConfig(
    segment_bytes_max=1200, index_interval_bytes=150, index_bytes_max=64, retention_ms=10, retention_bytes=2500
)
TIMES = st.integers(0, 40)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.log = self.open(clean=False)
        self.batches: list[bytes] = []
        self.records: list[Record] = []
        """Of all batches, also those below the log start."""
        self.epochs: list[int] = []
        """Of each batch, for clients: what recovery has stamped since does not count."""
        self.start = 0

    def open(self, *, clean: bool) -> Log:
        # At most two files are open at once, so nearly every use has to open its own again.
        return log_at(self.files, DIRECTORY, CONFIG, clean=clean, open_files=OpenFiles(self.files, 2))

    @property
    def end(self) -> int:
        return header_of(self.batches[-1]).next_offset if self.batches else self.start

    @property
    def newest_epoch(self) -> int:
        return max((header_of(batch).leader_epoch for batch in self.batches), default=0)

    @rule(
        times=st.lists(TIMES, min_size=1, max_size=4),
        value_size=st.integers(0, 400),
        compression=st.sampled_from([Compression.NONE, Compression.GZIP]),
        new_epoch=st.booleans(),
    )
    def append(self, times: list[int], value_size: int, compression: Compression, new_epoch: bool) -> None:
        batch = self.make_batch(times, value_size, compression, new_epoch)
        self.log.append(memoryview(batch), header_of(batch))

    def make_batch(self, times: list[int], value_size: int, compression: Compression, new_epoch: bool) -> bytearray:
        """Makes a batch and adds it to the list; the log does not have it yet."""
        epoch = self.newest_epoch + new_epoch * 2
        base = max(self.end, self.start)
        records = [
            Record(base + index, time, None, (b"%06d" % (base + index)) * (value_size // 6), [])
            for index, time in enumerate(times)
        ]
        batch = build_batch(records, base_offset=base, leader_epoch=epoch, compression=compression)
        self.batches.append(bytes(batch))
        self.records += records
        self.epochs.append(epoch)
        return batch

    @rule(chance=st.randoms(use_true_random=False), count=st.integers(5, 30), at_once=st.integers(1, 30))
    def append_many(self, chance: Random, count: int, at_once: int) -> None:
        batches = []
        for _ in range(count):
            times = [chance.randint(0, 40) for _ in range(chance.randint(1, 3))]
            batches.append(
                self.make_batch(times, chance.choice([0, 60, 200]), Compression.NONE, chance.random() < 0.05)
            )
        for first in range(0, count, at_once):
            some = batches[first : first + at_once]
            self.log.append_batches(b"".join(some), [header_of(batch) for batch in some])

    @precondition(lambda self: self.end > self.start)
    @rule(count=st.integers(0, 12))
    def recover(self, count: int) -> None:
        """Recovers as a new leader does: stamps the last batches, and appends its bridge."""
        epoch = self.newest_epoch + 1
        first = max(0, len(self.batches) - count)
        while first < len(self.batches) and header_of(self.batches[first]).base_offset < self.start:
            first += 1
        if first < len(self.batches):
            trio.run(self.log.restamp, header_of(self.batches[first]).base_offset, self.end, epoch)
        for index in range(first, len(self.batches)):
            batch = bytearray(self.batches[index])
            stamp(batch, 0, header_of(batch).base_offset, epoch)
            self.batches[index] = bytes(batch)
        self.put(bridge(self.end, epoch), epoch)

    def put(self, batch: bytearray, epoch: int) -> None:
        self.log.append(batch, header_of(batch))
        self.batches.append(bytes(batch))
        self.epochs.append(epoch)

    @rule(at_least_one=st.booleans(), bytes_max=st.integers(0, 1500), steps=st.integers(1, 3))
    def read_everywhere(self, at_least_one: bool, bytes_max: int, steps: int) -> None:
        """Reads up to several ends of batches, with limits that batches just fit and just do not fit."""
        ends = [header_of(batch).next_offset for batch in self.batches]
        visible = [index for index, end in enumerate(ends) if end > self.start]
        for last in visible[:: -steps * 3]:
            for first in visible[: visible.index(last) + 1 : steps]:
                fitting = sum(len(batch) for batch in self.batches[first : (first + last) // 2 + 1])
                for limit in (bytes_max, fitting, fitting - 1):
                    offset = max(self.start, ends[first] - 1)
                    self.read(offset, limit, ends[last], ends, at_least_one=at_least_one)

    def read(self, offset: int, bytes_max: int, up_to: int, ends: list[int], *, at_least_one: bool) -> None:
        found = self.log.read(offset, bytes_max, up_to, at_least_one=at_least_one)
        if found is None:
            first = self.batches[bisect_right(ends, offset)] if offset < self.end else b""
            assert offset >= up_to or (len(first) > bytes_max and not at_least_one)
            return
        content = found.read()
        index = bisect_right(ends, offset)
        count = sum(1 for _ in iterate(content))
        assert content == b"".join(self.batches[index : index + count])
        assert len(content) <= bytes_max or (at_least_one and count == 1)
        last = header_of(self.batches[index + count - 1])
        assert last.next_offset <= up_to
        # It stops only at the limit, or at the end of the segment.
        assert (
            last.next_offset == up_to
            or len(content) + len(self.batches[index + count]) > bytes_max
            or last.next_offset in [segment.end for segment in self.log.segments()]
        )

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def walk(self, data: Any) -> None:
        """Walks over the headers between any two offsets, and over the bytes of whole batches."""
        headers = [header_of(batch) for batch in self.batches]
        first = data.draw(st.integers(0, len(headers) - 1))
        last = data.draw(st.integers(first, len(headers) - 1))
        start = max(self.start, headers[first].last_offset)
        expected = [
            (each, ControlKind.BRIDGE if each.is_control else None)
            for each in headers[first : last + 1]
            if each.next_offset > start
        ]
        for end in (headers[last].base_offset + 1, headers[last].next_offset):
            assert list(self.log.headers(start, end)) == expected
        if headers[first].base_offset >= self.start:
            ranges = self.log.read_batches(headers[first].base_offset, headers[last].next_offset)
            assert b"".join(found.read() for found in ranges) == b"".join(self.batches[first : last + 1])

    @rule(steps=st.integers(1, 4))
    def find_timestamps(self, steps: int) -> None:
        ends = [header_of(batch).next_offset for batch in self.batches]
        for up_to in [end for end in ends if end > self.start][::-steps]:
            readable = [record for record in self.records if self.start <= record.offset < up_to]
            for timestamp in {record.timestamp for record in self.records} | {0, 41}:
                first = next((record for record in readable if record.timestamp >= timestamp), None)
                assert self.log.find_timestamp(timestamp, up_to) == (self.answer(first) if first else None)
            newest = max(readable, key=lambda record: record.timestamp, default=None)
            assert self.log.max_timestamp(up_to) == (self.answer(newest) if newest else None)

    def answer(self, record: Record) -> tuple[int, int, int]:
        ends = [header_of(batch).next_offset for batch in self.batches]
        batch = self.batches[bisect_right(ends, record.offset)]
        return record.timestamp, record.offset, header_of(batch).leader_epoch

    @rule(epoch=st.integers(0, 12))
    def epoch_end(self, epoch: int) -> None:
        if self.end <= self.start:
            return
        visible = [
            (its_epoch, max(header_of(batch).base_offset, self.start))
            for its_epoch, batch in zip(self.epochs, self.batches, strict=True)
            if header_of(batch).next_offset > self.start
        ]
        later = [start for its_epoch, start in visible if its_epoch > epoch]
        earlier = [its_epoch for its_epoch, _ in visible if its_epoch <= epoch]
        assert self.log.epoch_end(epoch) == (max(earlier, default=epoch), min(later, default=self.end))

    @rule(data=st.data())
    def truncate(self, data: Any) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        for epoch, batch in zip(self.epochs, self.batches, strict=True):
            header = header_of(batch)
            if header.next_offset <= offset and header.leader_epoch > epoch and offset < self.bridged_end(epoch):
                # With the bridge, but not what it stamped, an opening log knows less than this one.
                offset = max(self.start, header.base_offset)
                break
        trio.run(self.log.truncate, offset)
        while self.batches and header_of(self.batches[-1]).next_offset > offset:
            base = header_of(self.batches.pop()).base_offset
            self.epochs.pop()
            self.records = [record for record in self.records if record.offset < base]
        if offset <= self.start or self.end <= self.start:
            # Nothing is left of the batch with the first record, so the log goes on where it starts.
            self.start = self.log.log_start
            if self.log.log_end > self.end or not self.batches:
                self.batches, self.records, self.epochs = [], [], []
        assert self.log.log_end <= offset

    def bridged_end(self, epoch: int) -> int:
        """Returns the offset behind the bridge of the next epoch."""
        after = (batch for its_epoch, batch in zip(self.epochs, self.batches, strict=True) if its_epoch > epoch)
        return max((header_of(batch).next_offset for batch in after if header_of(batch).is_control), default=0)

    @rule(data=st.data())
    def delete_records(self, data: Any) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        trio.run(self.log.advance_log_start, self.start)

    @rule(now=TIMES, data=st.data())
    def retain(self, now: int, data: Any) -> None:
        committed = data.draw(st.integers(self.start, self.end))
        before = self.log.segments()
        trio.run(self.log.apply_retention, now, committed)
        removed = [segment for segment in before if segment.end <= self.log.log_start and segment.size]
        kept_bytes = sum(segment.size for segment in before)
        for segment in removed:
            assert (
                segment.end <= self.start
                or now - segment.max_timestamp > 10
                or kept_bytes - segment.size >= CONFIG.retention_bytes
            )
            kept_bytes -= segment.size
        self.start = max(self.start, max((segment.end for segment in removed), default=0))
        assert self.start <= max(committed, self.start)

    @rule()
    def sync(self) -> None:
        trio.run(self.log.sync)
        assert self.log.synced_end == self.log.log_end
        assert self.log.unsynced_bytes == 0

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        trio.run(self.log.close)
        nothing_there = not self.files.list(DIRECTORY)
        self.log = self.open(clean=clean)
        assert self.log.recovery.was_clean == (clean or nothing_there)
        assert self.log.recovery.truncated_bytes == 0

    @rule()
    def restart_after_kill(self) -> None:
        self.log = self.open(clean=False)
        assert self.log.recovery.truncated_bytes == 0

    @precondition(lambda self: len(self.batches) > 3)
    @rule(data=st.data(), shorten=st.booleans())
    def damage_an_index(self, data: Any, shorten: bool) -> None:
        trio.run(self.log.close)
        names = [name for name in self.files.list(DIRECTORY) if name.endswith("index")]
        if names:
            path = f"{DIRECTORY}/{data.draw(st.sampled_from(names))}"
            if shorten:
                self.files.remove(path)
            else:
                self.files.open(path).write_at(self.files.size(path) // 2, b"\x81")
        self.log = self.open(clean=True)

    @invariant()
    def agrees(self) -> None:
        assert (self.log.log_start, self.log.log_end) == (self.start, max(self.end, self.start))
        segments = self.log.segments()
        assert self.log.size_bytes == sum(segment.size for segment in segments)
        assert all(before.end == after.base for before, after in pairwise(segments))
        assert all(segment.size <= CONFIG.segment_bytes_max for segment in segments if segment.end - segment.base > 4)
        assert self.log.synced_end <= self.log.log_end

    def teardown(self) -> None:
        self.find_timestamps(2)
        self.read_everywhere(True, 300, 2)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=25,
    report_multiple_bugs=False,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_another_configuration_takes_effect_with_the_next_append() -> None:
    machine = LogMachine()
    for _ in range(5):
        machine.append([1], 300, Compression.NONE, False)
    before = len(machine.log.segments())
    machine.log.use_config(replace(CONFIG, segment_bytes_max=1))
    for _ in range(5):
        machine.append([1], 300, Compression.NONE, False)
    assert len(machine.log.segments()) == before + 5
