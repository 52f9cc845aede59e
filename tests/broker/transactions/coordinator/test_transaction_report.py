import pytest
from transaction_world import NAME, P0, P1, P2, TransactionWorld, error_of

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.describe_transactions import TopicData


def test_a_transaction_is_described_with_its_partitions() -> None:
    world = TransactionWorld()
    producer = world.begin()
    began_ms = world.now_ms
    world.add(producer, P2, P0)
    described = world.coordinator.describe(NAME)
    assert described.error_code == ErrorCode.NONE
    assert (described.transactional_id, described.transaction_state) == (NAME, "Ongoing")
    assert (described.producer_id, described.producer_epoch) == producer
    assert (described.transaction_timeout_ms, described.transaction_start_time_ms) == (60_000, began_ms)
    assert described.topics == [TopicData("t", [0, 2])]


def test_while_a_transaction_ends_the_partitions_without_marker_are_described() -> None:
    world = TransactionWorld()
    producer = world.begin()
    world.add(producer, P0, P1)
    world.end(producer)
    world.report(world.markers[0], [P0])
    described = world.coordinator.describe(NAME)
    assert (described.transaction_state, described.topics) == ("PrepareCommit", [TopicData("t", [1])])


@pytest.mark.parametrize(
    ("name", "code"), [("x", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), ("", ErrorCode.INVALID_REQUEST)]
)
def test_an_unknown_id_is_not_described(name: str, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        TransactionWorld().coordinator.describe(name)
    assert refused.value.code is code


def listing() -> TransactionWorld:
    world = TransactionWorld()
    for name in ("a-empty", "a-open", "b-open"):
        producer = world.begin(name=name)
        if name.endswith("open"):
            assert error_of(world.add(producer, P0, name=name)) is None
            world.let_pass(1.0)
    return world


def test_without_filters_all_ids_are_listed() -> None:
    world = listing()
    assert world.listed() == ["a-empty", "a-open", "b-open"]
    assert world.listed(transactional_id_pattern="") == ["a-empty", "a-open", "b-open"]


def test_an_id_is_listed_if_it_passes_all_filters() -> None:
    world = listing()
    assert world.listed(state_filters=["Ongoing"]) == ["a-open", "b-open"]
    assert world.listed(producer_id_filters=[1000, 1002]) == ["a-empty", "b-open"]
    assert world.listed(duration_filter=1500, state_filters=["Ongoing"]) == ["a-open"]
    assert world.listed(transactional_id_pattern="a-.*") == ["a-empty", "a-open"]
    assert world.listed(transactional_id_pattern="a-") == []
    assert world.listed(state_filters=["Ongoing"], transactional_id_pattern=".*n") == ["a-open", "b-open"]


def test_a_transaction_is_longer_than_the_filter_if_its_duration_is() -> None:
    world = listing()
    assert world.listed(duration_filter=1000, state_filters=["Ongoing"]) == ["a-open"]
    assert world.listed(duration_filter=999, state_filters=["Ongoing"]) == ["a-open", "b-open"]
    assert world.listed(duration_filter=0, state_filters=["Ongoing"]) == ["a-open", "b-open"]


def test_unknown_states_pass_nothing() -> None:
    assert listing().listed(state_filters=["Open"]) == []


def test_a_pattern_that_is_not_valid_is_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        listing().listed(transactional_id_pattern="a(")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
