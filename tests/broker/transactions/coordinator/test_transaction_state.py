"""Each step of the state machine, without a coordinator: `COMPLETE_COMMIT` and so on are states at epoch 5."""

import pytest
from msgspec.structs import replace
from transaction_world import P0, P1

from tailrace.broker.transactions.common.producer_id_needed import ProducerIdNeededError
from tailrace.broker.transactions.common.transaction_status import State
from tailrace.broker.transactions.coordinator import transaction_state as states
from tailrace.broker.transactions.coordinator.transaction_state import (
    EPOCH_BUMPED,
    EPOCH_KEPT,
    EPOCH_MAX,
    EPOCH_USED_MAX,
    NONE,
    EndStep,
    Producer,
    Transaction,
)
from tailrace.protocol.error_codes import ErrorCode, KafkaError

ID, EPOCH, LATER = 7, 5, 2_000
CURRENT, RETRY = Producer(ID, EPOCH), Producer(ID, EPOCH - 1)

PF, ITS = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING


def at(state: State, version: int = EPOCH_BUMPED, epoch: int = EPOCH, **changes: object) -> Transaction:
    """Returns a state at the epoch. If it is one after the end of a transaction, that has increased the epoch."""
    has_ended = version == EPOCH_BUMPED and state not in (State.EMPTY, State.ONGOING)
    transaction = replace(
        states.first(ID, 60_000, 1_000),
        state=state,
        epoch=epoch,
        last_epoch=epoch - 1 if has_ended else NONE,
        version=version,
        started_ms=NONE if state is State.EMPTY else 1_000,
        partitions=frozenset((P0,)) if state is State.ONGOING or state.is_ending else frozenset(),
    )
    return replace(transaction, **changes)


def error_of(call: object, *arguments: object, **named: object) -> ErrorCode:
    assert callable(call)
    with pytest.raises(KafkaError) as refused:
        call(*arguments, **named)
    return refused.value.code


# InitProducerId


def test_a_new_id_is_empty_at_epoch_0() -> None:
    transaction = states.first(ID, 60_000, LATER)
    assert transaction == at(State.EMPTY, EPOCH_KEPT, 0, updated_ms=LATER)


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_a_new_producer_gets_the_next_epoch(state: State) -> None:
    transaction = states.init(at(state), None, 30_000, None, LATER)
    assert transaction == at(
        State.EMPTY, epoch=EPOCH + 1, timeout_ms=30_000, updated_ms=LATER, previous_producer_id=ID, last_epoch=NONE
    )


def test_a_producer_that_goes_on_after_an_error_gets_the_next_epoch_and_may_retry() -> None:
    bumped = states.init(at(State.COMPLETE_ABORT, EPOCH_KEPT), CURRENT, 60_000, None, LATER)
    assert (bumped.epoch, bumped.last_epoch) == (EPOCH + 1, EPOCH)
    states.check_may_init(bumped, CURRENT)
    retried = states.init(bumped, CURRENT, 60_000, None, LATER)
    assert retried == bumped


def test_a_producer_cannot_retry_after_another_one_has_begun() -> None:
    bumped = states.init(at(State.EMPTY), CURRENT, 60_000, None, LATER)
    taken = states.init(bumped, None, 60_000, None, LATER)
    assert error_of(states.check_may_init, taken, CURRENT) is PF
    assert error_of(states.check_may_init, taken, Producer(ID, EPOCH + 1)) is PF


@pytest.mark.parametrize("expected", [RETRY, Producer(ID, EPOCH + 1), Producer(ID + 1, EPOCH), Producer(ID, -1)])
@pytest.mark.parametrize("state", [State.EMPTY, State.ONGOING])
def test_a_producer_with_another_identity_is_fenced(state: State, expected: Producer) -> None:
    assert error_of(states.check_may_init, at(state), expected) is PF


def test_the_epoch_before_an_end_of_a_transaction_may_still_ask_for_the_next_one() -> None:
    for state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        states.check_may_init(at(state), RETRY)
        assert states.init(at(state), RETRY, 60_000, None, LATER).epoch == EPOCH
    assert error_of(states.check_may_init, at(State.COMPLETE_COMMIT, EPOCH_KEPT), RETRY) is PF


@pytest.mark.parametrize("expected", [None, Producer(ID, EPOCH_USED_MAX)])
def test_a_new_producer_id_is_chosen_when_the_epochs_are_exhausted(expected: Producer | None) -> None:
    exhausted = at(State.EMPTY, epoch=EPOCH_USED_MAX)
    with pytest.raises(ProducerIdNeededError):
        states.init(exhausted, expected, 60_000, None, LATER)
    rotated = states.init(exhausted, expected, 60_000, 8, LATER)
    assert (rotated.producer_id, rotated.previous_producer_id, rotated.epoch) == (8, ID, 0)
    if expected is not None:
        states.check_may_init(rotated, expected)
        assert states.init(rotated, expected, 60_000, None, LATER).client_producer == (8, 0)
    assert error_of(states.check_may_init, rotated, Producer(ID, EPOCH_USED_MAX - 1)) is PF


def test_the_last_epoch_but_one_may_be_used() -> None:
    transaction = states.init(at(State.EMPTY, epoch=EPOCH_USED_MAX - 1), None, 60_000, None, LATER)
    assert transaction.client_producer == (ID, EPOCH_USED_MAX)


# AddPartitionsToTxn


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_the_first_partition_begins_a_transaction(state: State) -> None:
    transaction = states.add_partitions(at(state, EPOCH_KEPT), frozenset((P1,)), EPOCH_BUMPED, LATER)
    assert transaction.state is State.ONGOING
    assert (transaction.started_ms, transaction.partitions, transaction.version) == (LATER, {P1}, EPOCH_BUMPED)
    assert transaction.client_producer == CURRENT


def test_more_partitions_do_not_change_when_the_transaction_began() -> None:
    transaction = states.add_partitions(at(State.ONGOING), frozenset((P1,)), EPOCH_BUMPED, LATER)
    assert (transaction.started_ms, transaction.updated_ms, transaction.partitions) == (1_000, LATER, {P0, P1})
    assert states.has_partitions(transaction, frozenset((P1, P0)))
    assert not states.has_partitions(at(State.ONGOING), frozenset((P1, P0)))
    assert not states.has_partitions(at(State.EMPTY), frozenset())


def test_only_the_current_producer_adds_partitions() -> None:
    states.check_producer(at(State.ONGOING), CURRENT)
    assert error_of(states.check_producer, at(State.ONGOING), RETRY) is PF
    assert error_of(states.check_producer, at(State.ONGOING), Producer(ID, EPOCH + 1)) is PF
    assert error_of(states.check_producer, at(State.ONGOING), Producer(8, EPOCH)) is MAPPING


def test_no_producer_has_the_last_epoch() -> None:
    fenced = at(State.COMPLETE_ABORT, epoch=EPOCH_MAX)
    assert error_of(states.check_producer, fenced, Producer(ID, EPOCH_MAX)) is PF


def test_a_new_producer_id_is_current_before_the_transaction_of_the_old_one_has_ended() -> None:
    ending = at(State.PREPARE_COMMIT, epoch=EPOCH_MAX, next_producer_id=8)
    states.check_producer(ending, Producer(8, 0))
    assert error_of(states.check_producer, ending, Producer(8, 1)) is MAPPING
    assert error_of(states.check_producer, ending, Producer(ID, EPOCH_USED_MAX)) is PF


# EndTxn

DECIDED, PREPARE, EMPTY, WAIT = EndStep.DECIDED, EndStep.PREPARE, EndStep.PREPARE_EMPTY, EndStep.WAIT


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (State.EMPTY, ITS, ITS),
        (State.ONGOING, PREPARE, PREPARE),
        (State.PREPARE_COMMIT, DECIDED, ITS),
        (State.PREPARE_ABORT, ITS, DECIDED),
        (State.COMPLETE_COMMIT, DECIDED, ITS),
        (State.COMPLETE_ABORT, ITS, DECIDED),
    ],
)
def test_the_end_by_a_client_that_keeps_its_epoch(
    state: State, commit: EndStep | ErrorCode, abort: EndStep | ErrorCode
) -> None:
    transaction = at(state, EPOCH_KEPT)
    for is_commit, wanted in ((True, commit), (False, abort)):
        if isinstance(wanted, ErrorCode):
            assert error_of(states.step_of_end_v1, transaction, CURRENT, is_commit=is_commit) is wanted
        else:
            assert states.step_of_end_v1(transaction, CURRENT, is_commit=is_commit) is wanted
        assert error_of(states.step_of_end_v1, transaction, RETRY, is_commit=is_commit) is PF
        assert error_of(states.step_of_end_v1, transaction, Producer(ID, EPOCH + 1), is_commit=is_commit) is PF
        assert error_of(states.step_of_end_v1, transaction, Producer(8, EPOCH), is_commit=is_commit) is MAPPING


@pytest.mark.parametrize(
    ("state", "retried_abort", "abort", "retried_commit", "commit"),
    [
        (State.EMPTY, PF, EMPTY, PF, ITS),
        (State.ONGOING, PF, PREPARE, PF, PREPARE),
        (State.PREPARE_COMMIT, ITS, WAIT, DECIDED, WAIT),
        (State.PREPARE_ABORT, DECIDED, WAIT, PF, WAIT),
        (State.COMPLETE_COMMIT, ITS, EMPTY, DECIDED, ITS),
        (State.COMPLETE_ABORT, DECIDED, EMPTY, PF, ITS),
    ],
)
def test_the_end_by_a_client_whose_epoch_each_end_increases(
    state: State,
    retried_abort: EndStep | ErrorCode,
    abort: EndStep | ErrorCode,
    retried_commit: EndStep | ErrorCode,
    commit: EndStep | ErrorCode,
) -> None:
    transaction = at(state)
    for producer, is_commit, wanted in (
        (RETRY, False, retried_abort),
        (CURRENT, False, abort),
        (RETRY, True, retried_commit),
        (CURRENT, True, commit),
        (Producer(ID, EPOCH - 2), True, PF),
        (Producer(ID, EPOCH + 1), False, PF),
        (Producer(8, EPOCH), True, MAPPING),
    ):
        if isinstance(wanted, ErrorCode):
            assert error_of(states.step_of_end_v2, transaction, producer, is_commit=is_commit) is wanted
        else:
            assert states.step_of_end_v2(transaction, producer, is_commit=is_commit) is wanted


@pytest.mark.parametrize("state", [State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_the_epoch_before_that_of_a_client_which_keeps_its_epoch_is_no_retry(state: State) -> None:
    """Apache Kafka would take it for one, and tell the fenced producer the epoch of the current one."""
    transaction = at(state, EPOCH_KEPT)
    for is_commit in (True, False):
        assert error_of(states.step_of_end_v2, transaction, RETRY, is_commit=is_commit) is PF


def test_the_retry_of_an_end_with_the_old_producer_id_gets_the_new_one() -> None:
    old = Producer(ID, EPOCH_USED_MAX)
    prepared = states.prepare(at(State.ONGOING, epoch=EPOCH_USED_MAX), EPOCH_BUMPED, 8, LATER, is_commit=True)
    assert (prepared.producer_id, prepared.epoch, prepared.client_producer) == (ID, EPOCH_MAX, (8, 0))
    assert states.step_of_end_v2(prepared, old, is_commit=True) is DECIDED
    assert states.step_of_end_v2(prepared, Producer(8, 0), is_commit=False) is WAIT
    complete = states.complete(prepared, LATER)
    assert (complete.producer_id, complete.epoch, complete.next_producer_id) == (8, 0, NONE)
    assert states.step_of_end_v2(complete, old, is_commit=True) is DECIDED
    assert error_of(states.step_of_end_v2, complete, old, is_commit=False) is ITS
    ongoing = states.add_partitions(complete, frozenset((P0,)), EPOCH_BUMPED, LATER)
    assert error_of(states.step_of_end_v2, ongoing, old, is_commit=True) is MAPPING


def test_the_end_of_a_transaction_increases_the_epoch_if_the_client_expects_it() -> None:
    bumped = states.prepare(at(State.ONGOING), EPOCH_BUMPED, None, LATER, is_commit=True)
    assert bumped == at(State.PREPARE_COMMIT, epoch=EPOCH + 1, updated_ms=LATER)
    kept = states.prepare(at(State.ONGOING, EPOCH_KEPT), EPOCH_KEPT, None, LATER, is_commit=False)
    assert kept == at(State.PREPARE_ABORT, EPOCH_KEPT, updated_ms=LATER)


def test_a_complete_transaction_has_no_partitions() -> None:
    complete = states.complete(at(State.PREPARE_COMMIT), LATER)
    assert complete == at(State.COMPLETE_COMMIT, updated_ms=LATER)
    assert states.complete(at(State.PREPARE_ABORT), LATER).state is State.COMPLETE_ABORT


@pytest.mark.parametrize("version", [EPOCH_KEPT, EPOCH_BUMPED])
def test_the_coordinator_aborts_with_an_epoch_of_its_own(version: int) -> None:
    fenced = states.fence(at(State.ONGOING, version), LATER)
    assert fenced == at(State.PREPARE_ABORT, epoch=EPOCH + 1, updated_ms=LATER)


def test_an_abort_at_the_last_epoch_but_one_leaves_the_last_epoch_to_no_client() -> None:
    fenced = states.fence(at(State.ONGOING, epoch=EPOCH_USED_MAX), LATER)
    assert fenced.epoch == EPOCH_MAX
    old = Producer(ID, EPOCH_USED_MAX)
    for transaction in (fenced, states.complete(fenced, LATER)):
        for is_commit in (True, False):
            assert error_of(states.step_of_end_v2, transaction, old, is_commit=is_commit) is PF
    complete = states.complete(fenced, LATER)
    for expected in (None, old):
        states.check_may_init(complete, expected)
        assert states.init(complete, expected, 60_000, 8, LATER).client_producer == (8, 0)


# records


@pytest.mark.parametrize("state", [State.EMPTY, State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_ABORT])
@pytest.mark.parametrize("version", [EPOCH_KEPT, EPOCH_BUMPED])
def test_a_stored_state_is_read_as_it_was_written(state: State, version: int) -> None:
    transaction = at(state, version)
    record = states.to_record("orders", transaction)
    assert record.value is not None
    assert states.from_value(record.value) == transaction


def test_the_state_after_a_new_producer_id_is_read_as_it_was_written() -> None:
    prepared = states.prepare(at(State.ONGOING, epoch=EPOCH_USED_MAX), EPOCH_BUMPED, 8, LATER, is_commit=True)
    for transaction in (prepared, states.complete(prepared, LATER)):
        record = states.to_record("orders", transaction)
        assert record.value is not None
        assert states.from_value(record.value) == transaction


def test_an_empty_state_has_no_partitions_in_its_record_as_in_kafka() -> None:
    for state, partitions in ((State.EMPTY, None), (State.COMPLETE_COMMIT, [])):
        record = states.to_record("orders", at(state))
        assert record.value is not None
        assert record.value.transaction_partitions == partitions
