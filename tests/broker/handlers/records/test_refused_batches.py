"""What was sent behind a refused batch is refused like it; every other gap is a gap."""

import pytest

from tailrace.broker.handlers.records.refused_batches import (
    BATCHES_MAX,
    BEHIND_SECONDS_MAX,
    REMEMBERED_MAX,
    RefusedBatches,
)
from tailrace.protocol.batches.record_batch import BatchHeader, read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.storage.producers.producer_state import ProducerStates

PRODUCER = 7
NOT_LEADER = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not yet")


def sent(sequence: int, *, epoch: int = 0, producer: int = PRODUCER) -> bytes:
    return bytes(
        build_batch([Record(0, 0, None, b"v")], producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    )


def known(*sequences: int, epoch: int = 0) -> ProducerStates:
    """What a log knows that holds these batches."""
    states = ProducerStates()
    for sequence in sequences:
        states.on_appended(read_header(sent(sequence, epoch=epoch)))
    return states


def after_refusing(*batches: bytes, error: KafkaError = NOT_LEADER) -> RefusedBatches:
    refused = RefusedBatches()
    for each in batches:
        refused.on_refused("t", 0, each, error, 0.0)
    return refused


def is_refused(
    refused: RefusedBatches,
    batch: bytes,
    states: ProducerStates,
    *,
    topic: str = "t",
    partition: int = 0,
    now: float = 1.0,
) -> bool:
    header: BatchHeader = read_header(batch)
    try:
        refused.check(topic, partition, header, states, now)
    except KafkaError as error:
        assert (error.code, error.message) == (NOT_LEADER.code, NOT_LEADER.message)
        return True
    return False


@pytest.mark.parametrize("states", [known(), known(4)], ids=["unknown", "known"])
def test_those_behind_it_are_refused_until_it_comes_again(states: ProducerStates) -> None:
    refused = after_refusing(sent(5))
    assert is_refused(refused, sent(6), states)
    assert is_refused(refused, sent(9), states)
    assert not is_refused(refused, sent(5), states)
    assert not refused
    assert not is_refused(refused, sent(6), states)


def test_the_first_of_several_is_the_one_that_is_missing() -> None:
    refused = after_refusing(sent(5), sent(6), sent(7))
    assert is_refused(refused, sent(6), known(4))
    assert not is_refused(after_refusing(sent(6), sent(5)), sent(5), known(4))


def test_one_that_was_refused_behind_another_is_missing_as_well() -> None:
    refused = after_refusing(sent(5), sent(6))
    assert not is_refused(refused, sent(5), known(4))
    assert is_refused(refused, sent(7), known(5))
    assert not is_refused(refused, sent(6), known(5))
    assert not refused


def test_what_comes_again_before_it_does_not_take_its_place() -> None:
    refused = after_refusing(sent(6))
    assert not is_refused(refused, sent(5), known(4))
    assert is_refused(refused, sent(7), known(5))


def test_a_gap_that_is_told_makes_nothing_else_forgotten() -> None:
    refused = after_refusing(sent(6))
    assert not is_refused(refused, sent(8), known(4))
    assert is_refused(refused, sent(8), known(5))


def test_no_more_of_one_producer_are_remembered_than_it_may_have_in_flight() -> None:
    last = 5 + BATCHES_MAX
    refused = after_refusing(*map(sent, (5, last, *range(6, last))))
    assert not is_refused(refused, sent(30), known(last - 1))
    assert is_refused(refused, sent(30), known(last - 2))
    assert is_refused(refused, sent(30), known(4))


def test_it_comes_again_and_is_refused_again() -> None:
    refused = after_refusing(sent(5), sent(5))
    assert is_refused(refused, sent(6), known(4))


def test_another_gap_is_told() -> None:
    assert not is_refused(after_refusing(sent(5)), sent(7), known(5))
    assert not is_refused(after_refusing(sent(5)), sent(7), known(2))


def test_what_is_before_it_may_be_a_repetition() -> None:
    assert not is_refused(after_refusing(sent(5)), sent(4), known(4))


def test_sequences_go_on_after_the_largest() -> None:
    last = 2**31 - 1
    assert is_refused(after_refusing(sent(last)), sent(0), known(last - 1))
    assert not is_refused(after_refusing(sent(0)), sent(last), known(last - 1))


def test_another_epoch_of_the_producer_has_nothing_to_do_with_it() -> None:
    assert not is_refused(after_refusing(sent(5)), sent(6, epoch=1), known(4))
    assert is_refused(after_refusing(sent(0, epoch=1)), sent(1, epoch=1), known(4))
    assert not is_refused(after_refusing(sent(5)), sent(6), known(0, epoch=1))


@pytest.mark.parametrize(("topic", "partition"), [("u", 0), ("t", 1)])
def test_other_partitions_take_what_they_are_sent(topic: str, partition: int) -> None:
    assert not is_refused(after_refusing(sent(5)), sent(6), known(), topic=topic, partition=partition)


def test_other_producers_are_not_concerned() -> None:
    assert not is_refused(after_refusing(sent(5)), sent(6, producer=8), known())


def test_after_a_while_the_gap_is_told() -> None:
    assert not is_refused(after_refusing(sent(5)), sent(6), known(4), now=BEHIND_SECONDS_MAX)


def test_a_refusal_that_is_over_does_not_hide_a_new_one() -> None:
    refused = after_refusing(sent(5))
    refused.on_refused("t", 0, sent(8), NOT_LEADER, BEHIND_SECONDS_MAX + 1)
    assert is_refused(refused, sent(9), known(7), now=BEHIND_SECONDS_MAX + 2)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (sent(5), ErrorCode.MESSAGE_TOO_LARGE),
        (sent(5)[:40], ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (bytes(100), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (None, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (bytes(build_batch([Record(0, 0, None, b"v")])), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=["for good", "cut short", "nonsense", "nothing", "not idempotent"],
)
def test_what_nobody_sends_again_is_not_remembered(records: bytes | None, code: ErrorCode) -> None:
    refused = RefusedBatches()
    refused.on_refused("t", 0, records, KafkaError(code, "no"), 0.0)
    assert not refused


def test_no_more_than_so_many_are_remembered() -> None:
    refused = after_refusing(*(sent(5, producer=each) for each in range(REMEMBERED_MAX + 1)))
    assert not is_refused(refused, sent(6, producer=0), known())
    assert is_refused(refused, sent(6, producer=1), known())


def test_nothing_is_remembered_of_a_topic_that_cannot_be_there_one_day() -> None:
    """Names may have as many characters as a request has room for, and the sentences repeat them."""
    refused = RefusedBatches()
    for name in ("t" * 250, "t" * 249):
        assert not refused
        refused.on_refused(name, 0, sent(5), KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name), 0.0)
    assert refused
