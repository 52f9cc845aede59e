"""Bugs in transactions that somebody might write, planted in otherwise real servers: some seed must detect each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace
from simulation.planted_group_bugs import responds_before_it_is_committed

from tailrace.broker.coordination.pending_records import PendingRecords
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.offsets.offset_fetching import FetchableOffsets
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.transactions.common.transaction_status import State
from tailrace.broker.transactions.coordinator import transaction_coordinator, transaction_state
from tailrace.broker.transactions.coordinator.transaction_state import EPOCH_KEPT, EndStep
from tailrace.broker.transactions.coordinator.transaction_table import TransactionalId, TransactionTable
from tailrace.broker.transactions.hosting.transaction_coordination import TransactionCoordination
from tailrace.broker.transactions.markers.marker_writing import _PendingMarkers
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode
from tailrace.storage.compaction.compaction import AbortedRanges, Rules
from tailrace.storage.log import compaction_steps
from tailrace.storage.producers.producer_state import ProducerStates
from tailrace.storage.transactions.log_transactions import LogTransactions

from .transaction_scenario import TransactionScenario, transaction_scenario_of

Patch = pytest.MonkeyPatch


# coordinators


def sends_no_markers_again_after_a_load(patch: Patch) -> None:
    def on_loaded(self: TransactionTable, moment: Any) -> None:
        for entry in self.ids.values():
            self._set_deadline(entry, moment)
            if entry.transaction.state.is_ending:
                self._complete(entry, moment)

    patch.setattr(TransactionTable, "on_loaded", on_loaded)


def keeps_added_partitions_only_in_memory(patch: Patch) -> None:
    def apply(self: TransactionTable, entry: TransactionalId, transaction: Any, moment: Any) -> None:
        goes_on = entry.transaction.state is transaction.state is State.ONGOING
        original(self, entry, transaction, moment)
        if goes_on:
            self.output.records.pop()

    original = TransactionTable.apply
    patch.setattr(TransactionTable, "apply", apply)


def forgets_the_timeout_after_a_load(patch: Patch) -> None:
    """Waits for a client that may be dead for ever, if the coordinator moves during a transaction."""

    def on_loaded(self: TransactionTable, moment: Any) -> None:
        for entry in self.ids.values():
            if entry.transaction.state.is_ending:
                self._write_markers(entry, moment)

    patch.setattr(TransactionTable, "on_loaded", on_loaded)


def does_not_fence_old_epochs(patch: Patch) -> None:
    patch.setattr(transaction_state, "check_producer", lambda transaction, producer: None)
    patch.setattr(ProducerStates, "_check_epoch", lambda self, producer, producer_id, epoch: None)


def tells_that_an_aborted_transaction_is_committed(patch: Patch) -> None:
    """Takes the commit of a transaction that has timed out for a retry."""

    def step(transaction: Any, producer: Any, *, is_commit: bool) -> EndStep:
        if transaction.state in (State.PREPARE_ABORT, State.COMPLETE_ABORT):
            return EndStep.DECIDED
        return original(transaction, producer, is_commit=is_commit)

    original = transaction_state.step_of_end_v1
    patch.setattr(transaction_state, "step_of_end_v1", step)
    patch.setattr(transaction_state, "_step_of_retry", lambda transaction, is_commit: EndStep.DECIDED)


def sends_markers_before_the_decision_is_committed(patch: Patch) -> None:
    def write(self: TransactionTable, entry: TransactionalId, moment: Any) -> None:
        entry.unwritten = set(entry.transaction.partitions)
        if entry.unwritten:
            self._send(entry.transactional_id, entry.transaction, moment)
        else:
            self._complete(entry, moment)

    patch.setattr(TransactionTable, "_write_markers", write)


def completes_before_all_markers_are_written(patch: Patch) -> None:
    def on_written(self: TransactionTable, entry: TransactionalId, partitions: Any, moment: Any) -> bool:
        self._complete(entry, moment)
        return True

    patch.setattr(TransactionTable, "on_written", on_written)


def ends_transactions_by_requests_of_older_connections(patch: Patch) -> None:
    patch.setattr(transaction_coordinator, "_check_connection", lambda entry, client: None)


def keeps_the_epoch_in_the_second_protocol(patch: Patch) -> None:
    def prepare(transaction: Any, version: int, next_id: Any, now_ms: int, *, is_commit: bool) -> Any:
        is_fenced = version != EPOCH_KEPT and transaction.version == EPOCH_KEPT
        return original(transaction, version if is_fenced else EPOCH_KEPT, next_id, now_ms, is_commit=is_commit)

    original = transaction_state.prepare
    patch.setattr(transaction_state, "prepare", prepare)


# leaders of partitions


def acknowledges_markers_before_they_are_committed(patch: Patch) -> None:
    def wait_for(self: _PendingMarkers, place: Any, replica: Replica, end: int) -> None:
        self.results[place] = ErrorCode.NONE

    patch.setattr(_PendingMarkers, "wait_for", wait_for)


def writes_markers_of_earlier_coordinators(patch: Patch) -> None:
    def check(
        self: ProducerStates, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> bool:
        producer = self._producers.get(producer_id)
        newest = coordinator_epoch if producer is None else max(coordinator_epoch, producer.coordinator_epoch)
        return original(self, producer_id, producer_epoch, newest, transaction_version)

    original = ProducerStates.check_marker
    patch.setattr(ProducerStates, "check_marker", check)


class _Agreed:
    """The answer of a coordinator that was not asked."""

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        self.added = dict.fromkeys(partitions, ErrorCode.NONE)

    async def wait(self) -> Mapping[TopicPartition, ErrorCode]:
        return self.added


def appends_batches_without_asking_the_coordinator(patch: Patch) -> None:
    """Believes older producers that they have added the partition."""

    def ask(self: TransactionCoordination, *arguments: Any, verify_only: bool) -> Any:
        return _Agreed(arguments[-1]) if verify_only else original(self, *arguments, verify_only=verify_only)

    original = TransactionCoordination.ask_to_add
    patch.setattr(TransactionCoordination, "ask_to_add", ask)


def adds_no_partitions_for_the_second_protocol(patch: Patch) -> None:
    def ask(self: TransactionCoordination, *arguments: Any, verify_only: bool) -> Any:
        return original(self, *arguments, verify_only=verify_only) if verify_only else _Agreed(arguments[-1])

    original = TransactionCoordination.ask_to_add
    patch.setattr(TransactionCoordination, "ask_to_add", ask)


def loses_open_transactions_at_a_start(patch: Patch) -> None:
    def restore(cls: Any, snapshot: bytes) -> ProducerStates | None:
        states = original(snapshot)
        if states is not None:
            states._open = {}
        return states

    original = ProducerStates.restore
    patch.setattr(ProducerStates, "restore", classmethod(restore))


# readers


def shows_open_transactions_to_committed_readers(patch: Patch) -> None:
    patch.setattr(LogTransactions, "first_unstable", lambda self, high_watermark: None)


def shows_open_transactions_on_followers(patch: Patch) -> None:
    original = Replica.last_stable_offset.fget
    assert original is not None

    def stable(self: Replica) -> int:
        return original(self) if self.is_leader else self.high_watermark

    patch.setattr(Replica, "last_stable_offset", property(stable))


def lists_no_aborted_transactions_of_the_open_segment(patch: Patch) -> None:
    patch.setattr(LogTransactions, "_of_open", lambda self: [])
    patch.setattr(LogTransactions, "may_have_aborted", lambda self, start: True)


def looks_for_aborted_transactions_up_to_a_relative_end(patch: Patch) -> None:
    def aborted(self: LogTransactions, start: int, end: int) -> Sequence[Any]:
        return original(self, start, end - start)

    original = LogTransactions.aborted
    patch.setattr(LogTransactions, "aborted", aborted)


# offsets of groups


def applies_offsets_of_aborted_transactions(patch: Patch) -> None:
    def end(self: PendingRecords[Any, Any], producer_id: int, *, is_commit: bool) -> Any:
        return original(self, producer_id, is_commit=True)

    original = PendingRecords.end
    patch.setattr(PendingRecords, "end", end)


def loses_pending_offsets_at_a_load(patch: Patch) -> None:
    patch.setattr(PendingRecords, "__iter__", lambda self: iter(()))


def reports_offsets_although_others_are_pending(patch: Patch) -> None:
    patch.setattr(FetchableOffsets, "is_unstable", lambda self, *place: False)


def accepts_offsets_of_earlier_generations(patch: Patch) -> None:
    def check(self: ClassicGroup, *identity: Any, transactional: bool = False, **more: Any) -> None:
        if not transactional:
            original(self, *identity, transactional=transactional, **more)

    original = ClassicGroup.check_commit
    patch.setattr(ClassicGroup, "check_commit", check)


def accepts_offsets_of_earlier_member_epochs(patch: Patch) -> None:
    """Forgets that a member of a KIP-848 group may have lost its partitions since then."""

    def check(self: ConsumerGroup, *identity: Any, transactional: bool = False, **more: Any) -> None:
        if not transactional:
            original(self, *identity, transactional=transactional, **more)

    original = ConsumerGroup.check_commit
    patch.setattr(ConsumerGroup, "check_commit", check)


# compaction and deletion


def compacts_records_of_aborted_transactions_like_others(patch: Patch) -> None:
    patch.setattr(AbortedRanges, "has", lambda self, header: False)


def compacts_open_transactions(patch: Patch) -> None:
    """Lets records of open transactions supersede others, although the transactions may be aborted."""

    def end(facts: Any, config: Any, *, now_ms: int, stable_end: int) -> int:
        return original(facts, config, now_ms=now_ms, stable_end=1 << 60)

    original = compaction_steps.compactable_end
    patch.setattr(compaction_steps, "compactable_end", end)


def drops_markers_whose_records_stay(patch: Patch) -> None:
    def keeps_marker(self: Rules, header: Any) -> bool:
        self._left.discard(header.producer_id)
        return original(self, header)

    original = Rules.keeps_marker
    patch.setattr(Rules, "keeps_marker", keeps_marker)


def forgets_aborted_transactions_that_were_deleted_in_part(patch: Patch) -> None:
    """Shows the rest of an aborted transaction whose first records were deleted."""

    def aborted(self: LogTransactions, start: int, end: int) -> Any:
        first = min((segment.base for segment in self._segments.sealed), default=self._segments.open.base)
        return [each for each in original(self, start, end) if each.first_offset >= first]

    original = LogTransactions.aborted
    patch.setattr(LogTransactions, "aborted", aborted)


MOVING = (
    "kill_transaction_coordinator",
    "restart_transaction_coordinator",
    "lose_power_transaction_coordinator",
    "cut_off_transaction_coordinator",
)
MOVING_WRITERS = ("kill_writer", "restart_writer", "lose_power_writer", "cut_off_writer", "cut_from_spus_writer")
MOVING_KEEPERS = ("kill_offset_keeper", "restart_offset_keeper", "kill_in_a_write_offset_keeper")


class PlantedTransactionBug(Struct, frozen=True):
    plant: Callable[[Patch], None]
    faults: tuple[str, ...] | None = None
    """The kinds of faults in the seeds of the search, or None for all kinds."""
    replicas: int = 3
    is_synced: bool = False
    """Whether everything is synced before it is acknowledged, by slow disks."""
    has_processors: bool | None = None
    has_members: bool = False
    second_protocol: float | None = None
    """The share of TV2, or None for the seed's choice."""
    has_new_members: bool = False
    age: str | None = None
    """How records are removed, as in a scenario; None if they are not."""
    strays: float | None = None
    timeout_seconds: tuple[float, ...] | None = None
    first_seed: int = 0
    """The first seed of the search, near the seed that last detected a rare bug."""

    def scenarios(self) -> Iterator[TransactionScenario]:
        """Yields the scenarios in which the bug may be detected."""
        for seed in count(self.first_seed):
            more: dict[str, Any] = {} if self.faults is None else {"faults": self.faults}
            scenario = transaction_scenario_of(seed, replicas=self.replicas, age=self.age, **more)
            if self.is_synced:
                topic = {**scenario.topic, "flush.messages": "1"}
                broker = {**scenario.broker, "log.flush.interval.messages": "1"}
                scenario = replace(scenario, topic=topic, broker=broker, sync_seconds=0.1)
            chosen = {
                "has_processors": self.has_processors,
                "has_members": self.has_members,
                "has_new_members": self.has_new_members,
                "second_protocol": self.second_protocol,
                "strays": self.strays,
                "timeout_seconds": self.timeout_seconds,
            }
            yield replace(scenario, **{name: value for name, value in chosen.items() if value is not None})

    @property
    def name(self) -> str:
        return self.plant.__name__


LOSING = ("lose_power_transaction_coordinator", "lose_power_writer")

TRANSACTION_BUGS = (
    PlantedTransactionBug(responds_before_it_is_committed, MOVING, first_seed=5),
    PlantedTransactionBug(sends_no_markers_again_after_a_load, MOVING),
    PlantedTransactionBug(keeps_added_partitions_only_in_memory, MOVING),
    PlantedTransactionBug(forgets_the_timeout_after_a_load, MOVING, timeout_seconds=(1.0, 3.0)),
    PlantedTransactionBug(does_not_fence_old_epochs),
    PlantedTransactionBug(
        sends_markers_before_the_decision_is_committed,
        ("stall_copies_transaction_coordinator",),
        has_processors=True,
        second_protocol=0.0,
        timeout_seconds=(0.3, 0.4),
        first_seed=30,
    ),
    PlantedTransactionBug(completes_before_all_markers_are_written, ("stall_markers",)),
    PlantedTransactionBug(writes_markers_of_earlier_coordinators, ("stall_markers",), second_protocol=0.0),
    PlantedTransactionBug(tells_that_an_aborted_transaction_is_committed, timeout_seconds=(0.4, 1.0)),
    PlantedTransactionBug(ends_transactions_by_requests_of_older_connections, (), strays=0.5, second_protocol=0.0),
    PlantedTransactionBug(keeps_the_epoch_in_the_second_protocol, (), strays=0.5, second_protocol=1.0),
    PlantedTransactionBug(
        acknowledges_markers_before_they_are_committed, LOSING, replicas=1, is_synced=True, first_seed=33
    ),
    PlantedTransactionBug(appends_batches_without_asking_the_coordinator, (), second_protocol=0.0, strays=0.3),
    PlantedTransactionBug(adds_no_partitions_for_the_second_protocol, (), second_protocol=1.0),
    PlantedTransactionBug(loses_open_transactions_at_a_start, MOVING_WRITERS, first_seed=3),
    PlantedTransactionBug(shows_open_transactions_to_committed_readers, ()),
    PlantedTransactionBug(shows_open_transactions_on_followers, ()),
    PlantedTransactionBug(lists_no_aborted_transactions_of_the_open_segment, ()),
    PlantedTransactionBug(looks_for_aborted_transactions_up_to_a_relative_end, ()),
    PlantedTransactionBug(applies_offsets_of_aborted_transactions, (), has_processors=True),
    PlantedTransactionBug(loses_pending_offsets_at_a_load, MOVING_KEEPERS, has_processors=True),
    PlantedTransactionBug(
        reports_offsets_although_others_are_pending, (), has_processors=True, has_members=True, first_seed=2
    ),
    PlantedTransactionBug(accepts_offsets_of_earlier_generations, (), has_processors=True, has_members=True),
    PlantedTransactionBug(
        accepts_offsets_of_earlier_member_epochs, (), has_processors=True, has_members=True, has_new_members=True
    ),
    PlantedTransactionBug(compacts_records_of_aborted_transactions_like_others, (), age="compaction"),
    PlantedTransactionBug(compacts_open_transactions, (), age="compaction"),
    PlantedTransactionBug(drops_markers_whose_records_stay, (), age="compaction"),
    PlantedTransactionBug(forgets_aborted_transactions_that_were_deleted_in_part, (), age="erasers"),
)
