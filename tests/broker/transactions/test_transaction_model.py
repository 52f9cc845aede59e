"""Random requests, markers, times and moves of a coordinator. Whatever happens, the rules of transactions hold.

The last epoch is 6 here, so that a short run reaches it.
"""

from collections.abc import Iterator

import pytest
from grouping import Asked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from transaction_world import P0, P1, P2, TransactionWorld, last_records

from tailrace.broker.transactions.common.transaction_records import decode_record
from tailrace.broker.transactions.common.transaction_status import State
from tailrace.broker.transactions.coordinator import transaction_coordinator, transaction_state
from tailrace.broker.transactions.coordinator.transaction_state import Transaction, from_value

EPOCH_MAX = 6
NAMES = ("a", "b")
SETS = ((P0,), (P1,), (P0, P1), (P2,))
SECONDS = (0.1, 6.0, 61.0, 3_700.0)
JUMPS_MS = (-7_200_000, 7_200_000, 8 * 24 * 3_600_000)

NEXT_STATES = {
    State.EMPTY: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
    State.ONGOING: {State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT},
    State.PREPARE_COMMIT: {State.COMPLETE_COMMIT},
    State.PREPARE_ABORT: {State.COMPLETE_ABORT},
    State.COMPLETE_COMMIT: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
    State.COMPLETE_ABORT: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
}

FREQUENT = ("init", "add", "add", "end", "end", "write")
STEPS = st.lists(
    st.tuples(
        st.sampled_from((*FREQUENT, *FREQUENT, "go on", "verify", "pass", "jump", "hold", "commit", "move")),
        st.integers(0, len(NAMES) - 1),
        st.integers(0, 11),
    ),
    max_size=60,
)


@pytest.fixture(autouse=True)
def _few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_state, "EPOCH_MAX", EPOCH_MAX)
    monkeypatch.setattr(transaction_state, "EPOCH_USED_MAX", EPOCH_MAX - 1)
    monkeypatch.setattr(transaction_coordinator, "EPOCH_USED_MAX", EPOCH_MAX - 1)


class Run:
    def __init__(self) -> None:
        self.world = TransactionWorld()
        self.given: dict[str, list[tuple[int, int]]] = {name: [(7, 0)] for name in NAMES}
        """The producers that clients have been told, the newest at the end, and one that never was."""
        self.new: list[tuple[int, int]] = []
        """What clients that have just started were told."""
        self.asked: list[tuple[str, str, Asked]] = []

    def step(self, what: str, name: str, number: int) -> None:
        world = self.world
        producers = self.given[name]
        producer = producers[-1 - number // 4 % len(producers)] if number % 4 == 0 else producers[-1]
        version = 5 if number % 2 else 3
        match what:
            case "init":
                self.asked.append(("init", name, world.init(name=name)))
            case "go on":
                self.asked.append(("go on", name, world.init(producer, name=name)))
            case "add" | "verify":
                partitions = SETS[number % len(SETS)]
                verify = what == "verify"
                added = world.add(producer, *partitions, name=name, version=version, verify_only=verify)
                self.asked.append((what, name, added))
            case "end":
                commit = number % 3 > 0
                ended = world.end(producer, commit=commit, name=name, version=version)
                self.asked.append(("end", name, ended))
                if ended.reply is not None:
                    decided = {State.PREPARE_COMMIT, State.COMPLETE_COMMIT}
                    assert (world.transaction(name).state in decided) is commit
            case "write" if world.markers:
                work = world.markers.pop(0)
                some = sorted(work.partitions)[: 1 + number % 2]
                left = work.partitions - set(some)
                committed, aborted = world.counts.committed, world.counts.aborted
                world.report(work, some)
                assert world.counts.committed == committed + (work.is_commit and not left)
                assert world.counts.aborted == aborted + (not work.is_commit and not left)
                if left:
                    world.markers.append(work._replace(partitions=left))
            case "pass":
                world.let_pass(SECONDS[number % len(SECONDS)])
            case "jump":
                world.now_ms += JUMPS_MS[number % len(JUMPS_MS)]
            case "hold":
                world.commits = False
            case "commit":
                world.commits = True
                world.commit()
            case "move":
                lost = number % (len(world.log) - world.committed + 1)
                self.asked = [each for each in self.asked if not each[2].is_waiting]
                world.commits = True
                world.move_coordinator(len(world.log) - lost)
        self._hear()

    def _hear(self) -> None:
        """Lets clients learn from their responses."""
        waiting = []
        for what, name, asked in self.asked:
            if asked.is_waiting:
                waiting.append((what, name, asked))
            elif asked.reply is not None and what in ("init", "go on", "end"):
                producer = asked.reply.producer_id, asked.reply.producer_epoch
                if producer != (-1, -1) and producer != self.given[name][-1]:
                    self.given[name].append(producer)
                if what == "init":
                    self.new.append(producer)
        self.asked = waiting

    def check(self) -> None:
        world = self.world
        loaded = {
            record.key.transactional_id: from_value(record.value)
            for record in last_records(world.log)
            if record.value is not None
        }
        assert loaded == {name: _as_loaded(entry.transaction) for name, entry in world.coordinator.ids.items()}
        open_partitions = sum(len(transaction.partitions) for transaction in loaded.values())
        assert world.coordinator._table.partition_count == open_partitions
        for name in NAMES:
            for before, after in self._steps(name):
                assert after.state in NEXT_STATES[before.state]
                if after.producer_id == before.producer_id:
                    assert after.epoch >= before.epoch
                else:
                    assert before.epoch >= EPOCH_MAX - 1
                    assert after.epoch == 0
        assert len(self.new) == len(set(self.new)), "two producers that began have the same epoch"
        assert all(epoch < EPOCH_MAX for known in self.given.values() for _, epoch in known)

    def _steps(self, name: str) -> Iterator[tuple[Transaction, Transaction]]:
        before = None
        for key, value in self.world.log:
            record = decode_record(key, value)
            assert record is not None
            if record.key.transactional_id == name:
                after = None if record.value is None else from_value(record.value)
                if before is not None and after is not None:
                    yield before, after
                before = after

    def finish(self) -> None:
        """Once the faults have ended, no request waits and no transaction is open."""
        world = self.world
        world.commits = True
        world.commit()
        for _ in range(20):
            world.write_markers()
            world.let_pass(61.0)
            self._hear()
        assert not self.asked
        assert all(entry.transaction.is_idle for entry in world.coordinator.ids.values())


def _as_loaded(transaction: Transaction) -> Transaction:
    """Returns the state without the last epoch if records do not tell it."""
    has_ended = transaction.version == 2 and transaction.state not in (State.EMPTY, State.ONGOING)
    return transaction if has_ended else replace(transaction, last_epoch=-1)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(STEPS)
def test_the_rules_of_transactions_hold_in_all_runs(steps: list[tuple[str, int, int]]) -> None:
    run = Run()
    for what, name, number in steps:
        run.step(what, NAMES[name], number)
        run.check()
    run.finish()
    run.check()
