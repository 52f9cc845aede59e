"""A compacted log holds what a dictionary would, however it was filled, truncated, compacted and reopened."""

from typing import Any

import trio
from compacted_logs import CONFIG, append, batches, open_log, records, seal, table
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.records import Record, read_records

RETENTION_MS = 160
MODEL_CONFIG = replace(CONFIG, delete_retention_ms=RETENTION_MS, segment_bytes_max=500)
ROUNDING_MS = RETENTION_MS // 16
KEYS = st.sampled_from([*"abcde", "a key that is longer than its digest", "another key longer than its digest"])


class CompactedLogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.log = open_log(self.files, MODEL_CONFIG)
        self.appended: dict[int, Record] = {}
        self.compactions: list[tuple[int, int]] = []
        """End and time."""
        self.now = 0
        self.epoch = 0
        self.epoch_starts: dict[int, int] = {}

    @rule(
        pairs=st.lists(st.tuples(KEYS, st.none() | st.text("xy", max_size=40)), min_size=1, max_size=4),
        compression=st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP, Compression.ZSTD]),
        producer=st.none() | st.integers(0, 2),
        new_epoch=st.sampled_from([False, False, False, True]),
        time=st.integers(0, 50),
    )
    def append(
        self, pairs: list[Any], compression: Compression, producer: int | None, new_epoch: bool, time: int
    ) -> None:
        self.epoch += new_epoch
        if self.epoch not in self.epoch_starts:
            self.epoch_starts[self.epoch] = self.log.log_end
        numbers = {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.log.log_end}
        batch = append(
            self.log,
            *pairs,
            time=time,
            epoch=self.epoch,
            compression=compression,
            **(numbers if producer is not None else {}),
        )
        self.appended |= {record.offset: record for record in read_records(batch)}

    @rule()
    def seal(self) -> None:
        seal(self.log)

    @rule(passed=st.integers(0, 100), data=st.data(), keys_max=st.sampled_from([1, 3, 1000]))
    def compact(self, passed: int, data: Any, keys_max: int) -> None:
        self.now += passed
        high_watermark = data.draw(st.integers(self.log.log_start, self.log.log_end))
        before = self.readable_offsets()

        async def compact() -> Any:
            return await self.log.compact(self.now, high_watermark, keys_max=keys_max)

        outcome = trio.run(compact)
        left = self.readable_offsets()
        if outcome is None:
            assert left == before
            return
        assert max(self.log.log_start, outcome.start) < outcome.end <= high_watermark
        below = [offset for offset in sorted(self.appended) if offset < outcome.end]
        last = {self.appended[offset].key: offset for offset in below}
        expected = {offset for offset in last.values() if offset >= self.log.log_start}
        assert left <= before
        assert {offset for offset in left if offset >= outcome.end} == {o for o in before if o >= outcome.end}
        assert {offset for offset in left if offset < outcome.end} <= expected
        for offset in expected - left:
            assert self.appended[offset].value is None
            assert offset not in before or self.was_compacted(offset, RETENTION_MS)
        for offset in left & expected:
            assert self.appended[offset].value is not None or not self.was_compacted(offset, RETENTION_MS + ROUNDING_MS)
        self.compactions.append((outcome.end, self.now))

    def readable(self) -> list[Record]:
        return [record for record in records(self.log) if record.offset >= self.log.log_start]

    def readable_offsets(self) -> set[int]:
        return {record.offset for record in self.readable()}

    def was_compacted(self, offset: int, ms_ago: int) -> bool:
        return any(end > offset and at + ms_ago <= self.now for end, at in self.compactions)

    @rule(data=st.data())
    def delete_records(self, data: Any) -> None:
        trio.run(self.log.advance_log_start, data.draw(st.integers(self.log.log_start, self.log.log_end)))

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        before = self.log.log_start, self.log.log_end, list(self.log.epochs), batches(self.log)
        trio.run(self.log.close)
        self.log = open_log(self.files, MODEL_CONFIG, clean=clean)
        assert (self.log.log_start, self.log.log_end, list(self.log.epochs), batches(self.log)) == before

    @rule(data=st.data())
    def read_from(self, data: Any) -> None:
        offset = data.draw(st.integers(self.log.log_start, self.log.log_end))
        assert records(self.log, offset) == [r for r in records(self.log) if r.offset >= offset]

    @rule(timestamp=st.integers(0, 50))
    def find_times(self, timestamp: int) -> None:
        left = self.readable()
        found = self.log.find_timestamp(timestamp, self.log.log_end)
        expected = next(((r.timestamp, r.offset) for r in left if r.timestamp >= timestamp), None)
        assert (found and found[:2]) == expected
        newest = self.log.max_timestamp(self.log.log_end)
        largest = max(left, key=lambda record: record.timestamp, default=None)
        assert (newest and newest[:2]) == (largest and (largest.timestamp, largest.offset))

    @invariant()
    def agrees(self) -> None:
        start, left = self.log.log_start, self.readable()
        assert all(record == self.appended[record.offset] for record in left)
        assert table(left) == table(self.appended[offset] for offset in sorted(self.appended) if offset >= start)
        assert self.log.size_bytes == sum(segment.size for segment in self.log.segments())
        assert self.log.log_end == max(self.appended, default=-1) + 1
        begun = {epoch: max(start, offset) for epoch, offset in self.epoch_starts.items()}
        assert list(self.log.epochs) == [(epoch, begun[epoch]) for epoch in begun if begun.get(epoch + 1) != start]


TestCompactedLogMachine = CompactedLogMachine.TestCase
TestCompactedLogMachine.settings = settings(
    max_examples=60,
    report_multiple_bugs=False,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
