"""Mistakes that other implementations of the transaction coordinator made. Each test names the issue or the change."""

import pytest
from msgspec.structs import replace
from transaction_world import NAME, P0, P1, TIMEOUT_MS, TransactionWorld, error_of, producer_of

from tailrace.broker.transactions.common.transaction_status import State
from tailrace.broker.transactions.coordinator.transaction_state import EPOCH_MAX, EPOCH_USED_MAX
from tailrace.protocol.error_codes import ErrorCode


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("markers_written", [True, False])
def test_kafka_23204_a_commit_that_races_the_abort_at_the_timeout_is_fenced(
    version: int, markers_written: bool
) -> None:
    """INVALID_TXN_STATE, which is fatal for Kafka Streams, was the response."""
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, version=version)
    world.let_pass(TIMEOUT_MS / 1000)
    if markers_written:
        world.write_markers()
    assert error_of(world.end(producer, version=version)) is ErrorCode.PRODUCER_FENCED


def test_kafka_18467_an_empty_abort_does_not_fence_its_own_producer() -> None:
    """The abort of nothing came while the markers of the commit before were being written."""
    world = TransactionWorld()
    producer = world.begin()
    world.add_v2(producer, P0)
    after_commit = producer_of(world.end_v2(producer))
    empty_abort = world.end_v2(after_commit, commit=False)
    assert empty_abort.is_waiting
    world.write_markers()
    after_abort = producer_of(empty_abort)
    assert after_abort == (producer[0], 2)
    assert error_of(world.add_v2(after_abort, P0)) is None


def test_kafka_18758_the_epoch_overflows_into_a_new_producer_id_that_is_not_fenced() -> None:
    """The response had the old producer id, and the next transaction was refused until the markers were written."""
    world = TransactionWorld()
    world.begin()
    entry = world.coordinator.ids[NAME]
    entry.transaction = replace(entry.transaction, epoch=EPOCH_USED_MAX)
    old = entry.transaction.client_producer
    world.add_v2(old, P0)
    new = producer_of(world.end_v2(old))
    assert (new[0] != old.producer_id, new[1]) == (True, 0)
    next_transaction = world.add_v2(new, P1)
    world.write_markers()
    assert next_transaction.reply == {P1: ErrorCode.NONE}


@pytest.mark.parametrize("epoch", [0, EPOCH_USED_MAX - 1, EPOCH_USED_MAX])
def test_kafka_19910_a_fence_increases_the_epoch_once(epoch: int) -> None:
    """It was increased for the fence and for the abort, which overflowed at the last epoch but one."""
    world = TransactionWorld()
    world.begin()
    entry = world.coordinator.ids[NAME]
    entry.transaction = replace(entry.transaction, epoch=epoch)
    world.add_v2(entry.transaction.client_producer, P0)
    world.init()
    assert entry.transaction.state is State.PREPARE_ABORT
    assert entry.transaction.epoch == epoch + 1 <= EPOCH_MAX


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("commit", [True, False])
def test_ydb_51053_a_transaction_ends_even_if_nothing_was_produced(version: int, commit: bool) -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, version=version)
    assert error_of(world.end(producer, commit=commit, version=version)) is None
    world.write_markers()
    assert world.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


@pytest.mark.parametrize("version", [3, 5])
def test_ydb_52731_an_end_during_the_move_of_the_coordinator_can_be_retried(version: int) -> None:
    """The decision may be lost with the old coordinator, or not. The retry succeeds in both cases."""
    for is_lost in (True, False):
        world = TransactionWorld()
        producer = world.begin()
        world.add(producer, P0, version=version)
        world.commits = False
        ended = world.end(producer, version=version)
        assert ended.is_waiting, "the hosting refuses it with NOT_COORDINATOR"
        world.commits = True
        world.move_coordinator(len(world.log) - is_lost)
        assert error_of(world.end(producer, version=version)) is None
        world.write_markers()
        assert world.state is State.COMPLETE_COMMIT


def test_redpanda_6018_no_response_leaves_before_its_record_is_committed() -> None:
    """A state that was only in memory was lost with the coordinator, and records with it."""
    world = TransactionWorld(commits=False)
    asked = [world.init()]
    producer = world.transaction().client_producer
    asked += [world.add(producer, P0), world.end(producer), world.end(producer), world.verify((1, 0), P0)]
    assert all(each.is_waiting for each in asked), "even a refusal is due to what is not committed yet"
    world.commit()
    assert not any(each.is_waiting for each in asked)


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("commit", [True, False])
def test_redpanda_10588_and_30003_a_coordinator_that_loads_any_prefix_finishes_the_markers(
    version: int, commit: bool
) -> None:
    """The last stable offset was stuck after the coordinator had moved."""
    reference = TransactionWorld()
    producer = reference.begin()
    for _ in range(2):
        reference.add(producer, P0, version=version)
        reference.add(producer, P1, version=version)
        ended = reference.end(producer, commit=commit, version=version)
        producer = producer_of(ended) if version >= 5 else producer
        reference.write_markers()
    for records in range(1, len(reference.log) + 1):
        world = TransactionWorld(log=list(reference.log))
        world.move_coordinator(records)
        was_ending = world.state
        if was_ending.is_ending:
            (work,) = world.markers
            assert work.partitions == {P0, P1}
            assert work.is_commit is commit
            assert work.coordinator_epoch == world.epoch
        world.report(work, [P0]) if was_ending.is_ending else None
        world.move_coordinator()
        world.let_pass(2 * TIMEOUT_MS / 1000)
        world.write_markers()
        assert world.transaction().is_idle
        if was_ending.is_ending:
            assert world.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


def test_kafka_20090_an_abort_at_the_last_epoch_does_not_leave_the_transaction_open() -> None:
    """A delayed abort of the client was taken for a retry, and it went on with an epoch that could not be fenced."""
    world = TransactionWorld()
    world.begin()
    entry = world.coordinator.ids[NAME]
    entry.transaction = replace(entry.transaction, epoch=EPOCH_USED_MAX)
    old = entry.transaction.client_producer
    world.add_v2(old, P0)
    world.let_pass(TIMEOUT_MS / 1000)
    assert error_of(world.end_v2(old, commit=False)) is ErrorCode.PRODUCER_FENCED
    world.write_markers()
    assert error_of(world.end_v2(old, commit=False)) is ErrorCode.PRODUCER_FENCED
    assert error_of(world.add_v2((old.producer_id, EPOCH_MAX), P0)) is ErrorCode.PRODUCER_FENCED
    assert producer_of(world.init()) == (1001, 0)
