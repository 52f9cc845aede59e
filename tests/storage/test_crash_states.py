"""Whatever a log was doing when the machine stopped, it opens with everything that had been synced."""

import math
from itertools import pairwise
from random import Random

import pytest
import trio
from batch_samples import header_of, make_batch
from logs import log_at
from msgspec import Struct, field
from seeds import seeds
from simulation.files import Keep, SimulatedFiles

from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.record_batch import iterate
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.verification.replica_verification import ReplicaVerification

DIRECTORY = "/data/topics/events/7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b/0"
CONFIG = LogConfig(segment_bytes_max=1500, index_interval_bytes=200, retention_ms=100, flush_bytes=1)


class Expectation(Struct):
    """What must be found. The workload announces what may happen before it lets it happen."""

    synced_end: int = 0
    start_min: int = 0
    start_max: int = 0
    appended: dict[int, list[bytes]] = field(default_factory=dict)
    """Every batch that was ever appended at a base offset; only the last of them is valid when it was synced."""
    truncate: float = math.inf
    """The offset from which on batches are about to be truncated."""
    births: dict[int, int] = field(default_factory=dict)
    """The leader epoch with which each batch was appended, which is the one that consumers see."""
    stamps: dict[int, list[int]] = field(default_factory=dict)
    """The leader epochs that a batch may carry; after a sync, the last of them."""

    def check(
        self, files: SimulatedFiles, *, clean: bool = False, verifies: bool = True, knows_epochs: bool = False
    ) -> Log:
        log = log_at(files, DIRECTORY, CONFIG, clean=clean)
        assert self.start_min <= log.log_start <= self.start_max
        assert log.log_end >= self.synced_end
        assert log.synced_end <= log.log_end
        assert log.log_start <= log.log_end
        position = log.log_start
        while position < log.log_end:
            found = log.read(position, 700, log.log_end, at_least_one=True)
            assert found is not None, f"nothing at offset {position}"
            data = found.read()
            for within, header in iterate(data):
                assert header.base_offset <= position < header.next_offset
                batch = data[within : within + header.size]
                versions = self.appended[header.base_offset]
                is_synced = header.next_offset <= self.synced_end
                assert without_epoch(batch) in (versions[-1:] if is_synced else versions)
                stamps = self.stamps[header.base_offset]
                assert header.leader_epoch in stamps or (len(stamps) > 1 and header.leader_epoch < max(stamps))
                position = header.next_offset
        assert position == log.log_end
        size = sum(segment.size for segment in log.segments())
        assert log.size_bytes == size
        for before, after in pairwise(log.segments()):
            assert before.end == after.base
        files.on_operation = lambda: None
        if knows_epochs:
            self.check_epochs(log)
        assert [start.epoch for start in log.epochs] == sorted({start.epoch for start in log.epochs})
        if verifies:
            for finding in ReplicaVerification(files, DIRECTORY).findings():
                # A line of the manifest that never reached the disk may have later lines behind it.
                assert not finding.is_damage or not finding.path.endswith(".log"), finding
        batch = make_batch(log.log_end, epoch=log.epochs.latest + 1)
        log.append(batch, header_of(batch))
        return log

    def check_epochs(self, log: Log) -> None:
        """Checks that no consumer is told that a batch it has read was truncated, except for those being truncated."""
        end = int(min(log.log_end, self.truncate))
        found = [header.base_offset for header, _ in log.headers(log.log_start, end)]
        for epoch in {self.births[base] for base in found}:
            later = (base for base in found if self.births[base] > epoch)
            assert log.epoch_end(epoch)[1] >= min(later, default=end)


def without_epoch(batch: bytes) -> bytes:
    return batch[:12] + bytes(4) + batch[16:]


class Workload:
    def __init__(self, seed: int, *, crashes_in_recovery: bool = False) -> None:
        self.chance = Random(seed)
        self.files = SimulatedFiles()
        self.expected = Expectation()
        self.epoch = 254
        """Soon it needs another byte."""
        self.ends: list[int] = []
        """Where the batches end that are in the log now."""
        self.crashes_in_recovery = crashes_in_recovery
        self.crashes = 0

    def crash(self) -> None:
        keeps: list[Keep] = ["all", "synced", Random(self.chance.random()), Random(self.chance.random())]
        for keep in keeps:
            after = self.files.crash(keep)
            if self.crashes_in_recovery and self.chance.random() < 0.2:
                after.on_operation = lambda after=after: self.crash_again(after)  # type: ignore[misc]
            self.expected.check(after, verifies=self.chance.random() < 0.1)
            self.crashes += 1
        is_deleting = self.expected.start_min < self.expected.start_max
        if self.crashes_in_recovery and (is_deleting or self.chance.random() < 0.2):
            self.kill()

    def kill(self) -> None:
        """Kills the process. The next one finds everything, even what is not on the disk, and the machine stops soon
        after."""
        after = self.files.after_kill()
        after.on_operation = lambda: self.crash_again(after)
        self.expected.check(after, verifies=False, knows_epochs=True)

    def crash_again(self, files: SimulatedFiles) -> None:
        recovering, files.on_operation = files.on_operation, lambda: None
        after = files.crash(Random(self.chance.random()))
        self.expected.check(after, verifies=self.chance.random() < 0.1)
        files.on_operation = recovering

    async def run(self, steps: int) -> None:
        self.files.make_directories("/data/topics")
        await self.files.sync_directory("/data")
        await self.files.sync_directory("")
        self.files.on_operation = self.crash
        log = log_at(self.files, DIRECTORY, CONFIG, clean=False)
        actions = [self.append] * 4 + [self.sync] * 2
        actions += [self.delete, self.retain, self.truncate, self.begin_epoch, self.recover]
        for _ in range(steps):
            if self.chance.random() < 0.1:
                log = await self.reopen(log)
                continue
            action = self.chance.choice(actions)
            await action(log)
        await log.close()

    async def append(self, log: Log) -> None:
        for _ in range(self.chance.randint(1, 4)):
            batch = make_batch(
                log.log_end,
                self.chance.randint(1, 5),
                size=self.chance.randint(61, 500),
                timestamp=self.chance.randint(0, 200),
                epoch=self.epoch,
            )
            self.put(log, batch)

    def put(self, log: Log, batch: bytearray) -> None:
        base = log.log_end
        self.expected.appended.setdefault(base, []).append(without_epoch(bytes(batch)))
        self.expected.stamps.setdefault(base, []).append(header_of(batch).leader_epoch)
        self.expected.births[base] = header_of(batch).leader_epoch
        log.append(batch, header_of(batch))
        self.ends.append(log.log_end)

    async def sync(self, log: Log) -> None:
        await log.sync()
        self.expected.synced_end = log.synced_end
        assert log.synced_end == log.log_end
        self.expected.stamps = {base: stamps[-1:] for base, stamps in self.expected.stamps.items()}

    async def begin_epoch(self, log: Log) -> None:
        self.epoch += 1

    async def recover(self, log: Log) -> None:
        """Stamps what a new leader would, and usually ends it with a bridge."""
        self.epoch += 1
        bases = [base for base in sorted(self.expected.appended) if log.log_start <= base < log.log_end]
        if not bases:
            return
        first = self.chance.choice(bases[-8:])
        last = self.chance.choice([log.log_end, self.chance.choice(bases)])
        for base in bases:
            if first <= base < last:
                self.expected.stamps[base].append(self.epoch)
        await log.restamp(first, last, self.epoch)
        if self.chance.random() < 0.7:
            self.put(log, bridge(log.log_end, self.epoch))

    async def delete(self, log: Log) -> None:
        if self.chance.random() < 0.5:
            return
        offset = self.chance.randint(log.log_start, log.log_end)
        self.expected.start_max = offset
        await log.advance_log_start(offset)
        self.expected.start_min = offset

    async def retain(self, log: Log) -> None:
        self.expected.start_max = log.log_end
        await log.apply_retention(250, log.synced_end)
        self.expected.start_min = self.expected.start_max = log.log_start

    async def truncate(self, log: Log) -> None:
        if self.chance.random() < 0.7:
            return
        offset = self.chance.randint(log.log_start, log.log_end)
        self.ends = [end for end in self.ends if end <= offset]
        self.expected.synced_end = min(self.expected.synced_end, self.ends[-1] if self.ends else 0)
        self.expected.start_min = min(self.expected.start_min, offset)
        self.expected.truncate = offset
        await log.truncate(offset)
        self.expected.truncate = math.inf
        assert log.log_start <= log.log_end <= offset
        self.expected.start_min = self.expected.start_max = log.log_start

    async def reopen(self, log: Log) -> Log:
        end = log.log_end
        await log.close()
        self.expected.synced_end = end
        self.expected.stamps = {base: stamps[-1:] for base, stamps in self.expected.stamps.items()}
        self.files.on_operation = lambda: None
        self.expected.check(self.files.crash("synced"), clean=True)
        self.files.on_operation = self.crash
        clean = self.chance.random() < 0.7
        nothing_there = not self.files.list(DIRECTORY)
        log = log_at(self.files, DIRECTORY, CONFIG, clean=clean)
        assert log.recovery.was_clean == (clean or nothing_there)
        assert log.log_end == end
        return log


@pytest.mark.parametrize("seed", seeds(4, always=1))
def test_everything_synced_is_there_after_a_crash_at_any_operation(seed: int) -> None:
    workload = Workload(seed)
    trio.run(workload.run, 60)
    assert workload.crashes > 300


@pytest.mark.parametrize("seed", seeds(4, always=1))
def test_a_crash_while_a_log_recovers_loses_nothing_either(seed: int) -> None:
    workload = Workload(100 + seed, crashes_in_recovery=True)
    trio.run(workload.run, 20)
