"""Wherever a compaction stops, the log opens with the last value of every key, and no deleted key returns."""

from collections.abc import Sequence
from random import Random

import pytest
import trio
from compacted_logs import CONFIG, DIRECTORY, append, open_log, records, seal, table
from msgspec import Struct
from msgspec.structs import replace
from seeds import seeds
from simulation.files import Keep, SimulatedFiles

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, read_records
from tailrace.storage.log.log import Log
from tailrace.storage.manifest.compaction_history import compacted_up_to

RETENTION_MS = 50


class CrashState(Struct, frozen=True):
    files: SimulatedFiles
    now: int
    synced_end: int
    compactions: Sequence[tuple[int, int]]
    """End and time of those that were over."""
    was_killed: bool = False
    """Only the process stopped: what it wrote is there, and may still be lost."""
    opened_before: bool = False

    @property
    def is_swapping(self) -> bool:
        return any(name.endswith(".cleaned") for name in self.files.list(DIRECTORY))


class Workload:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.config = replace(
            CONFIG, delete_retention_ms=RETENTION_MS, segment_bytes_max=self.chance.choice([300, 600, 2000])
        )
        self.files = SimulatedFiles()
        self.now = 0
        self.epoch = 0
        self.synced_end = 0
        self.appended: dict[int, Record] = {}
        self.epoch_starts: dict[int, int] = {}
        self.compactions: list[tuple[int, int]] = []
        self.states: list[CrashState] = []
        self.removed_records = 0

    def crash(self) -> None:
        keep: Keep = self.chance.choice(["all", "synced", Random(self.chance.random()), Random(self.chance.random())])
        state = CrashState(self.files.crash(keep), self.now, self.synced_end, tuple(self.compactions))
        self.states += [state, replace(state, files=self.files.after_kill(), was_killed=True)]

    async def run(self, steps: int) -> None:
        self.files.make_directories("/data/topics")
        await self.files.sync_directory("/data")
        await self.files.sync_directory("")
        log = open_log(self.files, self.config)
        for _ in range(steps):
            for _ in range(self.chance.randint(1, 12)):
                self.append(log)
            if self.chance.random() < 0.2:
                self.epoch += 1
                if self.chance.random() < 0.5:
                    await self.recover(log)
            if self.chance.random() < 0.5:
                seal(log)
            if self.chance.random() < 0.3:
                await log.sync()
                self.synced_end = log.log_end
            self.now += self.chance.randint(1, 40)
            self.files.on_operation = self.crash
            keys_max = self.chance.choice([2, 1000])
            high_watermark = self.chance.randint(log.log_start, log.log_end)
            outcome = await log.compact(self.now, high_watermark, keys_max=keys_max)
            self.synced_end = log.synced_end
            self.files.on_operation = lambda: None
            if outcome is not None:
                self.removed_records += outcome.removed_records
                self.compactions.append((outcome.end, self.now))
                assert log.size_bytes == sum(segment.size for segment in log.segments())
                self.check_table(log)
            if self.chance.random() < 0.2:
                await log.close()
                log = open_log(self.files, self.config, clean=self.chance.random() < 0.5)
                self.synced_end = log.log_end

    async def recover(self, log: Log) -> None:
        """Recovers as the leader of the next epoch does, which knows that everything compacted is committed."""
        await log.restamp(self.chance.randint(compacted_up_to(log.compactions), log.log_end), log.log_end, self.epoch)
        self.epoch_starts[self.epoch] = log.log_end
        made = bridge(log.log_end, self.epoch)
        log.append(made, read_header(made))
        self.appended |= {record.offset: record for record in read_records(made)}

    def append(self, log: Log) -> None:
        pairs = [
            (self.chance.choice("abcdef"), self.chance.choice([None, "x" * self.chance.randint(0, 60)]))
            for _ in range(self.chance.randint(1, 3))
        ]
        compression = self.chance.choice([Compression.NONE, Compression.GZIP])
        producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": log.log_end}
        attributes = self.chance.choice([{}, producer])
        self.epoch_starts.setdefault(self.epoch, log.log_end)
        batch = append(log, *pairs, time=self.now, epoch=self.epoch, compression=compression, **attributes)
        self.appended |= {record.offset: record for record in read_records(batch)}

    def check(self, state: CrashState, *, crashes_again: bool) -> None:
        if crashes_again and not state.opened_before:
            state.files.on_operation = lambda: self.states.append(
                replace(state, files=state.files.crash(Random(self.chance.random())), opened_before=True)
            )
        log = open_log(state.files, self.config)
        state.files.on_operation = lambda: None
        assert log.log_end >= state.synced_end
        assert not state.is_swapping
        assert list(log.epochs) == [each for each in self.epoch_starts.items() if each[1] < log.log_end]
        self.check_tombstones(self.check_table(log), log.log_end, state)
        if crashes_again:
            trio.run(self.compact_again, log, state)

    async def compact_again(self, log: Log, state: CrashState) -> None:
        await log.compact(state.now, log.log_end)
        self.check_tombstones(self.check_table(log), log.log_end, state)

    def check_table(self, log: Log) -> list[Record]:
        found = records(log)
        assert all(record == self.appended[record.offset] for record in found)
        truth = [self.appended[offset] for offset in sorted(self.appended) if offset < log.log_end]
        assert table(found) == table(truth)
        return found

    def check_tombstones(self, found: Sequence[Record], log_end: int, state: CrashState) -> None:
        """Checks that a reader in the middle of the log still finds the tombstones that it needs."""
        last = {self.appended[offset].key: offset for offset in sorted(self.appended) if offset < log_end}
        missing = set(last.values()) - {record.offset for record in found}
        for offset in missing:
            assert self.appended[offset].value is None
            assert any(end > offset and at + RETENTION_MS <= state.now for end, at in state.compactions)


@pytest.mark.parametrize("seed", seeds(4, always=1))
def test_no_crash_during_a_compaction_changes_what_readers_learn(seed: int) -> None:
    workload = Workload(seed)
    trio.run(workload.run, 12)
    assert workload.removed_records > 10
    assert len(workload.states) > 100
    before = len(workload.states)
    for state in workload.chance.sample(workload.states, min(150, before)):
        workload.check(state, crashes_again=workload.chance.random() < 0.2)
    swapping = [state for state in workload.states[:before] if state.was_killed and state.is_swapping]
    for state in workload.chance.sample(swapping, min(60, len(swapping))):
        workload.check(state, crashes_again=True)
    crashed_again = workload.states[before:]
    assert len(crashed_again) > 10
    for state in workload.chance.sample(crashed_again, min(100, len(crashed_again))):
        workload.check(state, crashes_again=workload.chance.random() < 0.2)
