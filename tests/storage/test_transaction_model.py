"""A log knows its open and aborted transactions, whatever happens to it: they are those of a simple list of batches."""

from random import Random

import pytest
import trio
from batch_samples import header_of
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from logs import log_at
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.producers import producer_snapshots

DIRECTORY = "/data/topics/events/7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b/0"
CONFIG = LogConfig(segment_bytes_max=700, index_interval_bytes=150)
PRODUCERS = 4
DATA, OFFSETS, PLAIN, IDEMPOTENT, COMMIT, ABORT = range(6)

Aborted = tuple[int, int, int]


class _Batch:
    """A batch of the model."""

    def __init__(self, kind: int, producer: int, epoch: int, sequence: int, data: bytes) -> None:
        header = header_of(data)
        self.kind, self.producer, self.epoch, self.sequence, self.data = kind, producer, epoch, sequence, data
        self.base, self.end = header.base_offset, header.next_offset


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(producer_snapshots, "KEEP_BYTES", 200)
        self.patch.setattr(producer_snapshots, "BATCHES_PER_STEP", 2)
        self.files = SimulatedFiles()
        self.log = self.open(clean=False)
        self.batches: list[_Batch] = []
        self.leader_epoch = 0
        self.high_watermark = 0
        trio.run(self.log.sync)

    def open(self, *, clean: bool) -> Log:
        return log_at(self.files, DIRECTORY, CONFIG, clean=clean)

    # the model

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def transactions(self) -> tuple[dict[int, int], list[Aborted], list[tuple[int, int]]]:
        """Returns the first offsets of open transactions, the aborted ones, and where each one began and ended."""
        opened: dict[int, int] = {}
        aborted, ended = [], []
        for batch in self.batches:
            if batch.kind in (DATA, OFFSETS):
                opened.setdefault(batch.producer, batch.base)
            elif batch.kind in (COMMIT, ABORT) and (first := opened.pop(batch.producer, None)) is not None:
                ended.append((first, batch.base))
                if batch.kind == ABORT:
                    aborted.append((batch.producer, first, batch.base))
        return opened, aborted, ended

    def sequence_of(self, producer: int) -> tuple[int, int]:
        """Returns the epoch of a producer and its next sequence."""
        epoch = sequence = 0
        for batch in self.batches:
            if batch.producer == producer:
                if batch.epoch != epoch:
                    epoch, sequence = batch.epoch, 0
                if batch.kind in (DATA, IDEMPOTENT):
                    sequence = batch.sequence + batch.end - batch.base
        return epoch, sequence

    def made(self, kind: int, producer: int, count: int, bump: bool) -> _Batch:
        """Makes a batch and adds it to the model."""
        base = self.end
        epoch, sequence = self.sequence_of(producer)
        if kind == IDEMPOTENT and producer in self.transactions()[0]:
            kind = DATA
        if kind in (COMMIT, ABORT):
            epoch += bump
            data = marker_batch(
                base,
                self.leader_epoch,
                producer,
                epoch,
                is_commit=kind == COMMIT,
                coordinator_epoch=3,
                now_ms=base,
            )
        else:
            records = [Record(base + each, base + each, None, b"value") for each in range(count)]
            has_sequence, has_producer = kind in (DATA, IDEMPOTENT), kind != PLAIN
            data = build_batch(
                records,
                base_offset=base,
                leader_epoch=self.leader_epoch,
                producer_id=producer if has_producer else -1,
                producer_epoch=epoch if has_producer else -1,
                base_sequence=sequence if has_sequence else -1,
                is_transactional=kind in (DATA, OFFSETS),
            )
        self.batches.append(_Batch(kind, producer if kind != PLAIN else -1, epoch, sequence, bytes(data)))
        return self.batches[-1]

    # what happens

    @rule(
        kind=st.sampled_from([DATA, DATA, OFFSETS, PLAIN, IDEMPOTENT, COMMIT, ABORT]),
        producer=st.integers(1, PRODUCERS),
        count=st.integers(1, 3),
        bump=st.booleans(),
    )
    def append(self, kind: int, producer: int, count: int, bump: bool) -> None:
        data = self.made(kind, producer, count, bump).data
        self.log.append(data, header_of(data))

    @rule(chance=st.randoms(use_true_random=False), count=st.integers(2, 20))
    def append_many(self, chance: Random, count: int) -> None:
        some = [
            self.made(chance.randrange(6), chance.randint(1, PRODUCERS), chance.randint(1, 3), chance.random() < 0.5)
            for _ in range(count)
        ]
        self.log.append_batches(b"".join(each.data for each in some), [header_of(each.data) for each in some])

    @rule()
    def append_bridge(self) -> None:
        self.leader_epoch += 1
        data = bridge(self.end, self.leader_epoch)
        self.batches.append(_Batch(PLAIN, -1, -1, -1, bytes(data)))
        self.log.append(data, header_of(data))

    @rule(chance=st.randoms(use_true_random=False))
    def commit(self, chance: Random) -> None:
        later = [batch.end for batch in self.batches if batch.end > self.high_watermark]
        if later:
            self.high_watermark = chance.choice(later)
        if chance.random() < 0.5:
            self.log.transactions.first_unstable(self.high_watermark)

    @rule()
    def sync(self) -> None:
        trio.run(self.log.sync)

    @rule(chance=st.randoms(use_true_random=False))
    def truncate(self, chance: Random) -> None:
        kept = [0, *(batch.end for batch in self.batches)]
        to_offset = chance.choice([each for each in kept if each >= self.log.log_start])
        if to_offset <= self.log.log_start and to_offset:
            return  # then nothing tells any more what the log had been
        trio.run(self.log.truncate, to_offset)
        self.batches = [batch for batch in self.batches if batch.end <= to_offset]
        self.high_watermark = min(self.high_watermark, to_offset)

    @rule(chance=st.randoms(use_true_random=False))
    def delete(self, chance: Random) -> None:
        offsets = [b.end for b in self.batches if self.log.log_start < b.end <= min(self.high_watermark, self.end - 1)]
        if offsets:
            trio.run(self.log.advance_log_start, chance.choice(offsets))

    @rule(
        clean=st.booleans(),
        damage=st.sampled_from(["", "", "remove", "change"]),
        forgets=st.integers(0, 10),
        keep=st.sampled_from(["all", "all", "synced"]),
    )
    def reopen(self, clean: bool, damage: str, forgets: int, keep: str) -> None:
        """Opens the log again, with files of aborted transactions that are lost, and with an older high watermark."""
        if clean:
            trio.run(self.log.close)
        else:
            self.files = self.files.crash(keep)
        for name in self.files.list(DIRECTORY) if damage else ():
            path = f"{DIRECTORY}/{name}"
            if name.endswith(".aborted") and damage == "remove":
                self.files.remove(path)
            elif name.endswith(".aborted"):
                self.files.open(path).write_at(12, b"\x55")
        self.log = self.open(clean=clean)
        self.batches = [batch for batch in self.batches if batch.end <= self.log.log_end]
        assert self.end == self.log.log_end or not self.batches
        saved = [batch.end for batch in self.batches if self.log.log_start <= batch.end <= self.high_watermark]
        self.high_watermark = saved[max(0, len(saved) - 1 - forgets)] if saved else self.log.log_start
        if not clean:
            trio.run(self.log.sync)

    # what must hold

    @invariant()
    def open_transactions_are_known(self) -> None:
        opened, _, _ = self.transactions()
        assert dict(self.log.producers.open_transactions) == opened
        assert list(self.log.producers.open_transactions.values()) == sorted(opened.values())

    @invariant()
    def the_next_sequences_are_known(self) -> None:
        for producer in range(1, PRODUCERS + 1):
            if self.log.producers.knows(producer):
                epoch, sequence = self.sequence_of(producer)
                assert self.log.producers.expected(producer, epoch) == sequence

    @invariant()
    def the_first_unstable_offset_is_known(self) -> None:
        opened, _, ended = self.transactions()
        unstable = [first for first, marker in ended if marker >= self.high_watermark]
        expected = min([*opened.values(), *unstable], default=None)
        assert self.log.transactions.first_unstable(self.high_watermark) == expected

    @rule()
    def aborted_transactions_are_known(self) -> None:
        """Is no invariant, so that files and segments are read only now and then."""
        _, aborted, _ = self.transactions()
        bounds = sorted({self.log.log_start, self.end, *(batch.base for batch in self.batches[-12:])})
        bounds = [bound for bound in bounds if bound >= self.log.log_start]
        for start in bounds[:-1]:
            for end in (bounds[bounds.index(start) + 1], bounds[-1]):
                found = self.log.transactions.aborted(start, end)
                assert [(each.producer_id, each.first_offset, each.last_offset) for each in found] == sorted(
                    (each for each in aborted if each[1] < end and each[2] >= start), key=lambda each: each[1]
                )

    def teardown(self) -> None:
        self.patch.undo()
        self.aborted_transactions_are_known()


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
