import pytest
from grouping import GroupWorld
from msgspec.structs import replace
from transaction_world import NAME, P0, P1, P2, TIMEOUT_MS, TransactionWorld, client, error_of, producer_of

from tailrace.broker.transactions.common.producer_id_needed import ProducerIdNeededError
from tailrace.broker.transactions.common.transaction_settings import TransactionSettings
from tailrace.broker.transactions.common.transaction_status import State
from tailrace.broker.transactions.coordinator import transaction_coordinator
from tailrace.broker.transactions.coordinator.parked_requests import PARKED_PER_ID_MAX, PARKED_SECONDS_MAX
from tailrace.broker.transactions.coordinator.transaction_coordinator import ID_BYTES_MAX, PARTITIONS_MAX
from tailrace.broker.transactions.coordinator.transaction_state import EPOCH_MAX, EPOCH_USED_MAX
from tailrace.broker.transactions.coordinator.transaction_table import CHECK_SECONDS_MAX
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.coordinators import GROUPS_TOPIC, partition_of
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest

PF = ErrorCode.PRODUCER_FENCED


def world_at(epoch: int) -> TransactionWorld:
    """Returns a world whose producer has this epoch, and no transaction yet."""
    world = TransactionWorld()
    world.begin()
    entry = world.coordinator.ids[NAME]
    entry.transaction = replace(entry.transaction, epoch=epoch)
    return world


def ending(version: int = 3, *, commit: bool = True) -> tuple[TransactionWorld, tuple[int, int]]:
    """Returns a world whose transaction waits for its markers, and the producer with which the client goes on."""
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, version=version)
    ended = world.end(producer, commit=commit, version=version)
    assert world.state.is_ending
    return world, producer_of(ended) if version >= 5 else producer


# InitProducerId


def test_a_new_id_gets_a_producer_id_at_epoch_0_and_then_the_next_epochs() -> None:
    world = TransactionWorld()
    assert producer_of(world.init()) == (1000, 0)
    assert producer_of(world.init()) == (1000, 1)
    assert producer_of(world.init(name="payments")) == (1001, 0)


def test_a_producer_that_asks_with_an_expired_id_gets_a_new_one() -> None:
    world = TransactionWorld()
    assert producer_of(world.init((7, 3))) == (1000, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    world = TransactionWorld()
    assert error_of(world.init(timeout_ms=timeout_ms)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not world.coordinator.ids
    assert error_of(world.init(timeout_ms=900_000)) is None


@pytest.mark.parametrize("name", ["", "x" * (ID_BYTES_MAX + 1), "é" * (ID_BYTES_MAX // 2 + 1)])
def test_a_name_that_fits_into_no_record_is_refused(name: str) -> None:
    world = TransactionWorld()
    asked = [
        world.init(name=name),
        world.add((1, 0), P0, name=name),
        world.add((1, 0), P0, name=name, verify_only=True),
        world.end((1, 0), name=name),
    ]
    assert {error_of(each) for each in asked} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("expected", [(1000, -1), (-1, 0)])
def test_half_of_an_identity_is_refused(expected: tuple[int, int]) -> None:
    world = TransactionWorld()
    world.begin()
    assert error_of(world.init(expected)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [3, 5])
def test_a_new_producer_fences_the_open_transaction_of_the_old_one(version: int) -> None:
    world = TransactionWorld()
    old = world.begin()
    world.add(old, P0, version=version)
    waiting = world.init(connection=2)
    assert waiting.is_waiting
    assert world.state is State.PREPARE_ABORT
    assert not world.markers[0].is_commit
    assert world.markers[0].producer_epoch == 1
    world.write_markers()
    assert producer_of(waiting) == (1000, 2)
    assert error_of(world.add(old, P0)) is PF
    assert error_of(world.end(old)) is PF
    assert world.counts.fenced == 1


def test_a_new_producer_waits_for_the_markers_of_the_transaction_before() -> None:
    world, producer = ending()
    waiting = world.init()
    assert waiting.is_waiting
    world.write_markers()
    assert producer_of(waiting) == (producer[0], 1)
    assert world.counts.parked == 1


def test_a_producer_that_goes_on_after_an_error_aborts_its_transaction() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0)
    waiting = world.init(producer)
    world.write_markers()
    bumped = producer[0], producer[1] + 1
    assert producer_of(waiting) == bumped
    assert producer_of(world.init(producer)) == bumped
    assert error_of(world.add(bumped, P0)) is None


def test_an_old_producer_cannot_abort_the_transaction_of_the_new_one() -> None:
    world = TransactionWorld()
    old = world.begin()
    new = world.begin()
    world.add(new, P0)
    assert error_of(world.init(old)) is PF
    assert world.state is State.ONGOING


def test_old_clients_get_an_error_that_they_know() -> None:
    world = TransactionWorld()
    old = world.begin()
    world.begin()
    invalid = ErrorCode.INVALID_PRODUCER_EPOCH
    assert [error_of(world.init(old, version=version)) for version in (3, 4)] == [invalid, PF]
    assert [error_of(world.add(old, P0, version=version)) for version in (1, 2)] == [invalid, PF]
    assert [error_of(world.end(old, version=version)) for version in (1, 2)] == [invalid, PF]


def init_without_id(world: TransactionWorld) -> None:
    request = InitProducerIdRequest(NAME, TIMEOUT_MS)
    world.ask(
        lambda coordinator, asked, moment: coordinator.init_producer(request, 5, client(1), None, asked, moment),
    )


def test_without_a_new_producer_id_nothing_has_changed() -> None:
    world = TransactionWorld()
    with pytest.raises(ProducerIdNeededError):
        init_without_id(world)
    assert not world.coordinator.ids
    assert not world.coordinator.output


def test_a_producer_id_is_needed_before_a_fence_that_leads_to_the_last_epoch() -> None:
    world = world_at(EPOCH_USED_MAX - 1)
    world.add(world.transaction().client_producer, P0)
    with pytest.raises(ProducerIdNeededError):
        init_without_id(world)
    assert world.state is State.ONGOING
    assert not world.coordinator.output


def test_a_delayed_retry_does_not_abort_the_transaction_that_began_since() -> None:
    world = TransactionWorld()
    first = world.begin()
    second = producer_of(world.init(first))
    world.add(second, P0)
    assert error_of(world.init(first)) is PF
    assert world.state is State.ONGOING


def test_the_number_of_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_coordinator, "IDS_MAX", 1)
    world = TransactionWorld()
    world.begin()
    assert error_of(world.init(name="payments")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_of(world.init()) is None


# AddPartitionsToTxn and AddOffsetsToTxn


def test_partitions_are_added_once() -> None:
    world = TransactionWorld()
    producer = world.begin()
    assert world.add(producer, P0, P1).reply == {P0: ErrorCode.NONE, P1: ErrorCode.NONE}
    assert world.state is State.ONGOING
    records = len(world.log)
    assert world.add(producer, P1).reply == {P1: ErrorCode.NONE}
    assert len(world.log) == records
    world.add(producer, P2)
    assert world.transaction().partitions == {P0, P1, P2}


def test_an_unknown_id_or_producer_adds_nothing() -> None:
    world = TransactionWorld()
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert error_of(world.add((1000, 0), P0)) is mapping
    producer_id, epoch = world.begin()
    assert error_of(world.add((producer_id + 1, epoch), P0)) is mapping
    assert error_of(world.add((producer_id, epoch + 1), P0)) is PF
    assert world.state is State.EMPTY


@pytest.mark.parametrize("version", [3, 5])
def test_partitions_of_the_next_transaction_wait_for_the_markers_of_the_one_before(version: int) -> None:
    world, producer = ending(version)
    waiting = world.add(producer, P1, version=version)
    assert waiting.is_waiting
    world.write_markers()
    assert waiting.reply == {P1: ErrorCode.NONE}
    assert world.state is State.ONGOING
    assert world.transaction().partitions == {P1}


def test_a_late_batch_of_the_ending_transaction_is_not_added_to_the_next_one() -> None:
    world, _ = ending(5)
    assert error_of(world.add_v2((1000, 0), P1)) is PF


def test_the_number_of_partitions_is_bounded() -> None:
    world = TransactionWorld()
    producer = world.begin()
    many = [TopicPartition("t", number) for number in range(PARTITIONS_MAX)]
    assert error_of(world.add(producer, *many)) is None
    assert error_of(world.add(producer, TopicPartition("u", 0))) is ErrorCode.INVALID_REQUEST
    assert len(world.transaction().partitions) == PARTITIONS_MAX


def test_the_number_of_partitions_of_all_transactions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_coordinator, "OPEN_PARTITIONS_MAX", 3)
    world = TransactionWorld()
    first, second = world.begin(), world.begin(name="payments")
    assert error_of(world.add(first, P0, P1)) is None
    refused = world.add(second, P0, P1, name="payments")
    assert error_of(refused) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.move_coordinator()
    assert error_of(world.add(second, P0, P1, name="payments")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.end(first)
    world.write_markers()
    assert error_of(world.add(second, P0, P1, name="payments")) is None


def test_verification_tells_which_partitions_the_transaction_has() -> None:
    world = TransactionWorld()
    producer = world.begin()
    assert world.verify(producer, P0).reply == {P0: ErrorCode.TRANSACTION_ABORTABLE}
    world.add(producer, P0)
    assert world.verify(producer, P0, P1).reply == {P0: ErrorCode.NONE, P1: ErrorCode.TRANSACTION_ABORTABLE}
    assert world.transaction().partitions == {P0}
    assert error_of(world.verify((producer[0], 1), P0)) is PF
    assert error_of(world.verify((producer[0] + 1, 0), P0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_verification_waits_while_the_transaction_ends() -> None:
    world, producer = ending()
    waiting = world.verify(producer, P0)
    assert waiting.is_waiting
    world.write_markers()
    assert waiting.reply == {P0: ErrorCode.TRANSACTION_ABORTABLE}


def test_the_partition_of_the_offsets_of_a_group_is_added() -> None:
    groups = GroupWorld()
    groups.put_topic(GROUPS_TOPIC, 50)
    world = TransactionWorld(cluster=groups.cluster)
    producer = world.begin()
    assert world.add_offsets(producer, "a-group").reply.error_code == ErrorCode.NONE
    assert world.transaction().partitions == {TopicPartition(GROUPS_TOPIC, partition_of("a-group", 50))}
    assert error_of(world.add_offsets(producer, "")) is ErrorCode.INVALID_GROUP_ID
    assert error_of(world.add_offsets((producer[0], 9))) is PF


def test_offsets_are_not_added_before_their_topic_exists() -> None:
    world = TransactionWorld(cluster=Cluster())
    assert error_of(world.add_offsets(world.begin())) is ErrorCode.COORDINATOR_NOT_AVAILABLE


# EndTxn


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_a_client_that_keeps_its_epoch_ends(commit: bool) -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, P1)
    ended = world.end(producer, commit=commit)
    assert (ended.reply.producer_id, ended.reply.producer_epoch) == (-1, -1)
    (work,) = world.markers
    assert (work.is_commit, work.producer_epoch, work.transaction_version) == (commit, producer[1], 0)
    assert work.partitions == {P0, P1}
    assert world.end(producer, commit=commit).reply is not None
    world.write_markers()
    assert world.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert world.end(producer, commit=commit).reply is not None
    assert error_of(world.end(producer, commit=not commit)) is ErrorCode.INVALID_TXN_STATE
    assert (world.counts.committed, world.counts.aborted) == (commit, not commit)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_a_client_whose_epoch_is_increased_ends(commit: bool) -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add_v2(producer, P0)
    bumped = producer[0], producer[1] + 1
    assert producer_of(world.end_v2(producer, commit=commit)) == bumped
    (work,) = world.markers
    assert (work.is_commit, work.producer_epoch, work.transaction_version) == (commit, bumped[1], 2)
    assert producer_of(world.end_v2(producer, commit=commit)) == bumped
    world.write_markers()
    assert producer_of(world.end_v2(producer, commit=commit)) == bumped
    assert error_of(world.add_v2(bumped, P0)) is None


def test_a_producer_id_that_is_not_needed_is_not_used() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add_v2(producer, P0)
    request = EndTxnRequest(NAME, *producer, True)
    ended = world.ask(lambda coordinator, asked, moment: coordinator.end(request, 5, client(1), 99, asked, moment))
    assert producer_of(ended) == (producer[0], 1)


def test_an_unknown_id_or_producer_ends_nothing() -> None:
    world = TransactionWorld()
    for version in (3, 5):
        assert error_of(world.end((1000, 0), version=version)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer_id, _ = world.begin()
    for version in (3, 5):
        assert error_of(world.end((producer_id + 1, 0), version=version)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert error_of(world.end((producer_id, 1), version=version)) is PF
        assert error_of(world.end((producer_id, 0), version=version)) is ErrorCode.INVALID_TXN_STATE


def test_aborting_nothing_gives_the_next_epoch_at_once() -> None:
    world = TransactionWorld()
    producer = world.begin()
    assert producer_of(world.end_v2(producer, commit=False)) == (producer[0], 1)
    assert world.state is State.COMPLETE_ABORT
    assert producer_of(world.end_v2(producer, commit=False)) == (producer[0], 1)
    assert producer_of(world.end_v2((producer[0], 1), commit=False)) == (producer[0], 2)
    assert not world.markers


# The delayed EndTxn of a client that keeps its epoch


def test_a_delayed_end_on_an_older_connection_does_not_end_the_next_transaction() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, connection=1)
    world.end(producer, connection=2)
    world.write_markers()
    world.add(producer, P0, connection=2)
    for commit in (True, False):
        assert error_of(world.end(producer, commit=commit, connection=1)) is ErrorCode.INVALID_TXN_STATE
    assert world.state is State.ONGOING
    assert error_of(world.end(producer, connection=3)) is None


def test_delayed_partitions_on_an_older_connection_do_not_begin_a_transaction() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, connection=1)
    world.end(producer, connection=2)
    world.write_markers()
    assert error_of(world.add(producer, P0, connection=1)) is ErrorCode.INVALID_TXN_STATE
    assert world.state is State.COMPLETE_COMMIT


def test_an_older_connection_that_changes_nothing_does_not_become_the_newest() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, connection=2)
    assert error_of(world.add(producer, P0, connection=1)) is None
    assert error_of(world.end(producer, connection=1)) is ErrorCode.INVALID_TXN_STATE


def test_the_connection_of_a_client_whose_epoch_is_increased_does_not_matter() -> None:
    world = TransactionWorld()
    producer = producer_of(world.init(connection=5))
    world.add_v2(producer, P0)
    assert error_of(world.end(producer, version=5, connection=1)) is None


# waiting


def test_a_request_that_waits_too_long_is_refused() -> None:
    world, producer = ending()
    waiting = world.add(producer, P1)
    world.let_pass(PARKED_SECONDS_MAX - 0.01)
    assert waiting.is_waiting
    world.let_pass(0.02)
    assert error_of(waiting) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.state is State.COMPLETE_COMMIT
    assert world.counts.refused_as_concurrent == 1


def test_the_number_of_waiting_requests_is_bounded() -> None:
    world, producer = ending()
    waiting = [world.add(producer, P1) for _ in range(PARKED_PER_ID_MAX)]
    assert error_of(world.add(producer, P1)) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert all(each.reply == {P1: ErrorCode.NONE} for each in waiting)


def test_waiting_requests_are_given_back_when_the_coordinator_ends() -> None:
    world, producer = ending()
    waiting = world.add(producer, P1)
    assert world.coordinator.waiters() == [waiting]
    assert world.coordinator.waiters() == []


def test_waiting_requests_go_on_in_the_order_of_their_arrival() -> None:
    world, producer = ending()
    added = world.add(producer, P1)
    initialized = world.init()
    late = world.add(producer, P2)
    world.report(world.markers.pop(), [P0])
    assert added.reply is not None
    assert initialized.is_waiting
    assert error_of(late) is PF, "the transaction that the first one began is being aborted for the second one"
    world.write_markers()
    assert producer_of(initialized) == (producer[0], 2)


def test_a_request_that_waits_has_the_producer_id_that_it_will_need() -> None:
    world = world_at(EPOCH_USED_MAX - 1)
    producer = world.transaction().client_producer
    world.add_v2(producer, P0)
    last = producer_of(world.end_v2(producer))
    assert last == (producer.producer_id, EPOCH_USED_MAX)
    waiting = world.end_v2(last, commit=False)
    world.write_markers()
    assert producer_of(waiting) == (1001, 0)


# deadlines


@pytest.mark.parametrize("version", [3, 5])
def test_a_transaction_is_aborted_at_its_timeout(version: int) -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, version=version)
    world.let_pass(TIMEOUT_MS / 1000 - 1)
    world.add(producer, P1, version=version)
    assert world.state is State.ONGOING
    world.let_pass(1)
    assert world.state is State.PREPARE_ABORT
    assert world.markers[0].producer_epoch == producer[1] + 1
    world.write_markers()
    assert world.state is State.COMPLETE_ABORT
    assert error_of(world.add(producer, P0)) is PF
    assert error_of(world.end(producer)) is PF
    assert (world.counts.timed_out, world.counts.aborted) == (1, 1)


def test_a_client_that_aborts_after_the_timeout_goes_on_with_the_new_epoch() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add_v2(producer, P0)
    world.let_pass(TIMEOUT_MS / 1000)
    assert producer_of(world.end_v2(producer, commit=False)) == (producer[0], 1)
    world.write_markers()
    assert error_of(world.add_v2((producer[0], 1), P0)) is None


def test_the_wall_clock_does_not_change_a_timeout() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0)
    world.now_ms += 3_600_000
    world.add(producer, P1)
    world.let_pass(TIMEOUT_MS / 1000 - 1)
    assert world.state is State.ONGOING
    world.now_ms -= 7_200_000
    world.let_pass(1)
    assert world.state is State.PREPARE_ABORT


def test_a_new_coordinator_waits_only_for_the_rest_of_the_timeout() -> None:
    world = TransactionWorld()
    world.add(world.begin(), P0)
    world.let_pass(20)
    world.move_coordinator()
    world.let_pass(TIMEOUT_MS / 1000 - 21)
    assert world.state is State.ONGOING
    world.let_pass(1)
    assert world.state is State.PREPARE_ABORT


def test_a_wall_clock_that_was_ahead_before_does_not_extend_a_timeout() -> None:
    world = TransactionWorld()
    world.add(world.begin(), P0)
    world.now_ms -= 3_600_000
    world.move_coordinator()
    world.let_pass(TIMEOUT_MS / 1000)
    assert world.state is State.PREPARE_ABORT


def test_an_idle_id_expires() -> None:
    settings = TransactionSettings(id_expiration_ms=3_600_000)
    world = TransactionWorld(settings=settings)
    old = world.begin()
    open_one = world.begin(name="open")
    world.add(open_one, P0, name="open")
    world.let_pass(3_599)
    assert NAME in world.coordinator.ids
    world.let_pass(1)
    assert NAME not in world.coordinator.ids
    assert world.log[-1][1] is None
    assert error_of(world.add(old, P0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.counts.expired_ids == 1
    world.move_coordinator()
    assert NAME not in world.coordinator.ids


def test_an_idle_id_does_not_expire_at_the_first_check() -> None:
    world = TransactionWorld()
    world.begin()
    world.let_pass(3 * CHECK_SECONDS_MAX)
    assert NAME in world.coordinator.ids


def test_an_id_that_is_used_does_not_expire() -> None:
    world = TransactionWorld(settings=TransactionSettings(id_expiration_ms=3_600_000))
    producer = world.begin()
    for _ in range(4):
        world.let_pass(1_800)
        world.add(producer, P0)
        world.end(producer)
        world.write_markers()
    assert NAME in world.coordinator.ids


def test_a_shorter_expiration_applies_to_ids_that_are_idle_already() -> None:
    world = TransactionWorld()
    world.begin()
    world.settings = TransactionSettings(id_expiration_ms=60_000)
    world.let_pass(CHECK_SECONDS_MAX)
    assert NAME not in world.coordinator.ids


# markers


def test_markers_of_an_id_that_is_not_known_any_more_change_nothing() -> None:
    world = TransactionWorld()
    world.coordinator.on_markers_written("x", 1, 0, [P0], world.moment)
    assert not world.coordinator.output


# the last epochs


def test_a_client_goes_on_with_a_new_producer_id_after_the_last_epoch() -> None:
    world = world_at(EPOCH_USED_MAX)
    old = world.transaction().client_producer
    world.add_v2(old, P0)
    new = producer_of(world.end_v2(old))
    assert new == (1001, 0)
    assert world.markers[0][1:3] == (old.producer_id, EPOCH_MAX)
    waiting = world.add_v2(new, P1)
    assert waiting.is_waiting
    assert producer_of(world.end_v2(old)) == new
    world.write_markers()
    assert waiting.reply == {P1: ErrorCode.NONE}
    assert world.transaction().client_producer == new


def test_a_new_producer_gets_a_new_producer_id_after_the_last_epoch() -> None:
    world = world_at(EPOCH_USED_MAX)
    assert producer_of(world.init()) == (1001, 0)


def test_a_fence_and_a_new_producer_may_need_two_epochs() -> None:
    world = world_at(EPOCH_USED_MAX - 1)
    world.add(world.transaction().client_producer, P0)
    waiting = world.init()
    world.write_markers()
    assert producer_of(waiting) == (1001, 0)
