"""Compaction with transactions: committed readers see the same table before and after, whatever else happens."""

from random import Random

import trio
from batch_samples import header_of
from compacted_logs import CONFIG, DIRECTORY
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from logs import log_at
from msgspec.structs import replace
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.protocol.batches.transaction_markers import is_marker, marker_batch, marker_of

PRODUCERS, KEYS = 3, 4
SIZES = replace(CONFIG, segment_bytes_max=900, index_interval_bytes=150)
DAY_MS = 24 * 3600 * 1000

Row = tuple[int, bytes, bytes | None]
"""The offset, the key and the value of a record."""


class CompactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.log = log_at(self.files, DIRECTORY, SIZES, clean=False)
        self.now_ms = 10 * DAY_MS
        self.rows: list[tuple[Row, int | None]] = []
        """All records, each with the first offset of its transaction or None."""
        self.open: dict[int, int] = {}
        """The first offsets of open transactions by producer."""
        self.aborted: set[int] = set()
        """The first offsets of aborted transactions."""
        self.next: dict[int, tuple[int, int]] = {}
        """Epoch and next sequence of each producer."""
        self.count = 0
        self.chance = Random(0)
        trio.run(self.log.sync)

    # the model

    @property
    def stable_end(self) -> int:
        return min(self.open.values(), default=self.log.log_end)

    def committed(self, start: int) -> list[Row]:
        """Returns the records from an offset on that committed readers may see before any compaction."""
        return [row for row, first in self.rows if start <= row[0] < self.stable_end and first not in self.aborted]

    # what happens

    @rule(producer=st.integers(0, PRODUCERS), chance=st.randoms(use_true_random=False), group=st.booleans())
    def write(self, producer: int, chance: Random, group: bool) -> None:
        """Appends a batch. Producer 0 writes outside of transactions. A group's offsets have no sequences."""
        base = self.log.log_end
        rows: list[Row] = []
        for offset in range(base, base + chance.randint(1, 3)):
            self.count += 1
            value = None if chance.random() < 0.2 else b"%d" % self.count
            rows.append((offset, b"key-%d" % chance.randrange(KEYS), value))
        records = [Record(offset, self.now_ms, key, value) for offset, key, value in rows]
        first = None
        if producer:
            epoch, sequence = self.next.get(producer, (0, 0))
            if not group:
                self.next[producer] = epoch, sequence + len(rows)
            first = self.open.setdefault(producer, base)
            data = build_batch(
                records,
                base_offset=base,
                leader_epoch=0,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=-1 if group else sequence,
                is_transactional=True,
            )
        else:
            data = build_batch(records, base_offset=base, leader_epoch=0)
        self.rows += [(row, first) for row in rows]
        self.log.append(bytes(data), header_of(bytes(data)))

    @rule(producer=st.integers(1, PRODUCERS), is_commit=st.booleans(), bumps=st.booleans())
    def end(self, producer: int, is_commit: bool, bumps: bool) -> None:
        """Appends a marker, perhaps one without a transaction."""
        epoch, sequence = self.next.get(producer, (0, 0))
        self.next[producer] = (epoch + 1, 0) if bumps else (epoch, sequence)
        data = marker_batch(
            self.log.log_end,
            0,
            producer,
            epoch + bumps,
            is_commit=is_commit,
            coordinator_epoch=1,
            now_ms=self.now_ms,
        )
        first = self.open.pop(producer, None)
        if first is not None and not is_commit:
            self.aborted.add(first)
        self.log.append(bytes(data), header_of(bytes(data)))

    @rule()
    def seal(self) -> None:
        if self.log.segments()[-1].size:
            self.log.roll()

    @rule(waits_ms=st.sampled_from([0, 500, 2000, 2 * DAY_MS]), keys_max=st.sampled_from([2, 3, 1000]))
    def compact(self, waits_ms: int, keys_max: int) -> None:
        self.now_ms += waits_ms
        config = replace(SIZES, segment_bytes_max=self.chance.choice([300, 900, 2000]))
        self.log.use_config(config)
        trio.run(self._compact, keys_max)

    async def _compact(self, keys_max: int) -> None:
        await self.log.compact(self.now_ms, self.log.log_end, keys_max=keys_max)

    @rule(producer=st.integers(1, PRODUCERS), chance=st.randoms(use_true_random=False), is_commit=st.booleans())
    def transact(self, producer: int, chance: Random, is_commit: bool) -> None:
        """Runs a whole transaction, perhaps over two segments."""
        self.write(producer, chance, group=chance.random() < 0.5)
        if chance.random() < 0.5:
            self.seal()
        self.end(producer, is_commit, bumps=chance.random() < 0.5)

    @rule(chance=st.randoms(use_true_random=False))
    def age(self, chance: Random) -> None:
        """Compacts twice, with days between, so that everything goes that may go."""
        for _ in range(2):
            self.now_ms += 2 * DAY_MS
            self.write(0, chance, group=False)
            self.seal()
            trio.run(self._compact, 1000)

    @rule(clean=st.booleans(), loses=st.sampled_from(["", ".aborted", ".producers"]))
    def reopen(self, clean: bool, loses: str) -> None:
        trio.run(self.log.sync)
        if clean:
            trio.run(self.log.close)
        else:
            self.files = self.files.crash("all")
        for name in self.files.list(DIRECTORY) if loses else ():
            if name.endswith(loses):
                self.files.remove(f"{DIRECTORY}/{name}")
        self.log = log_at(self.files, DIRECTORY, SIZES, clean=clean)
        trio.run(self.log.sync)

    # what must hold

    def read(self, start: int, bytes_max: int) -> list[Row]:
        """Reads as a client does: each response says which transactions were aborted in it."""
        found: list[Row] = []
        position, end = start, self.stable_end
        while position < end:
            response = self.log.read(position, bytes_max, end, at_least_one=True, passes_empty=True)
            if response is None:
                break
            data = response.read()
            headers = list(iterate(data))
            after = headers[-1][1].next_offset
            pending = list(self.log.transactions.aborted(position, after))
            skipped = set()
            for at, header in headers:
                batch = data[at : at + header.size]
                while pending and pending[0].first_offset <= header.last_offset:
                    skipped.add(pending.pop(0).producer_id)
                if is_marker(header):
                    marker = marker_of(header, batch)
                    assert marker is not None
                    if not marker.is_commit:
                        skipped.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in skipped):
                    found += [
                        (record.offset, record.key or b"", record.value)
                        for record in read_records(batch)
                        if record.offset >= start
                    ]
            position = after
        return found

    @invariant()
    def committed_readers_see_the_same_table(self) -> None:
        starts = {self.log.log_start, self.chance.randint(self.log.log_start, self.log.log_end)}
        for start in starts:
            expected = self.committed(start)
            found = self.read(start, self.chance.choice([1, 300, 10_000]))
            assert set(found) <= set(expected), "nothing that was aborted is seen"
            last = {key: (offset, key, value) for offset, key, value in expected}
            wanted = {row for row in last.values() if row[2] is not None}
            assert wanted <= set(found), "the last value of each key is there"
            for key, (offset, _, value) in last.items():
                later = [row for row in found if row[1] == key and row[0] <= offset]
                assert value is not None or not later or later[-1][0] == offset or start > self.log.log_start, (
                    "a tombstone goes after what it deletes"
                )

    @invariant()
    def the_same_transactions_are_open(self) -> None:
        assert set(self.log.producers.open_transactions) == set(self.open)
        first_unstable = self.log.transactions.first_unstable(self.log.log_end)
        assert first_unstable == min(self.open.values(), default=None)


TestTransactionCompaction = CompactionMachine.TestCase
TestTransactionCompaction.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
