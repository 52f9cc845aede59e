from tailrace.broker.transactions.common.transaction_status import STATE_NAMES, STORED_STATES, State


def test_states_have_the_names_of_kafka() -> None:
    assert State.PREPARE_EPOCH_FENCE.kafka_name == "PrepareEpochFence"
    assert State.COMPLETE_COMMIT.kafka_name == "CompleteCommit"
    assert {"Empty", "Ongoing", "Dead"} <= STATE_NAMES
    assert len(STATE_NAMES) == 8


def test_a_transaction_is_ending_while_its_markers_are_written() -> None:
    assert [state for state in State if state.is_ending] == [State.PREPARE_COMMIT, State.PREPARE_ABORT]


def test_states_that_exist_only_in_kafkas_memory_are_not_stored() -> None:
    assert sorted(STORED_STATES) == [0, 1, 2, 3, 4, 5]
