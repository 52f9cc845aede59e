"""A batch behind a refused one is refused with the same error; any other gap is reported as a gap."""

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
    """Returns the producer state of a log that has these batches."""
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
def test_batches_behind_a_refused_one_are_refused_until_it_is_sent_again(states: ProducerStates) -> None:
    refused = after_refusing(sent(5))
    assert is_refused(refused, sent(6), states)
    assert is_refused(refused, sent(9), states)
    assert not is_refused(refused, sent(5), states)
    assert not refused
    assert not is_refused(refused, sent(6), states)


def test_the_first_of_several_refused_batches_is_missing() -> None:
    refused = after_refusing(sent(5), sent(6), sent(7))
    assert is_refused(refused, sent(6), known(4))
    assert not is_refused(after_refusing(sent(6), sent(5)), sent(5), known(4))


def test_a_batch_that_was_refused_behind_another_is_missing_as_well() -> None:
    refused = after_refusing(sent(5), sent(6))
    assert not is_refused(refused, sent(5), known(4))
    assert is_refused(refused, sent(7), known(5))
    assert not is_refused(refused, sent(6), known(5))
    assert not refused


def test_a_repetition_of_an_earlier_batch_does_not_take_its_place() -> None:
    refused = after_refusing(sent(6))
    assert not is_refused(refused, sent(5), known(4))
    assert is_refused(refused, sent(7), known(5))


def test_a_reported_gap_does_not_forget_other_batches() -> None:
    refused = after_refusing(sent(6))
    assert not is_refused(refused, sent(8), known(4))
    assert is_refused(refused, sent(8), known(5))


def test_a_producers_remembered_batches_are_bounded_by_those_in_flight() -> None:
    last = 5 + BATCHES_MAX
    refused = after_refusing(*map(sent, (5, last, *range(6, last))))
    assert not is_refused(refused, sent(30), known(last - 1))
    assert is_refused(refused, sent(30), known(last - 2))
    assert is_refused(refused, sent(30), known(4))


def test_a_batch_that_is_sent_again_may_be_refused_again() -> None:
    refused = after_refusing(sent(5), sent(5))
    assert is_refused(refused, sent(6), known(4))


def test_another_gap_is_reported() -> None:
    assert not is_refused(after_refusing(sent(5)), sent(7), known(5))
    assert not is_refused(after_refusing(sent(5)), sent(7), known(2))


def test_a_batch_before_the_refused_one_may_be_a_repetition() -> None:
    assert not is_refused(after_refusing(sent(5)), sent(4), known(4))


def test_sequences_wrap_after_the_largest() -> None:
    last = 2**31 - 1
    assert is_refused(after_refusing(sent(last)), sent(0), known(last - 1))
    assert not is_refused(after_refusing(sent(0)), sent(last), known(last - 1))


def test_another_epoch_of_the_producer_is_independent() -> None:
    assert not is_refused(after_refusing(sent(5)), sent(6, epoch=1), known(4))
    assert is_refused(after_refusing(sent(0, epoch=1)), sent(1, epoch=1), known(4))
    assert not is_refused(after_refusing(sent(5)), sent(6), known(0, epoch=1))


@pytest.mark.parametrize(("topic", "partition"), [("u", 0), ("t", 1)])
def test_other_partitions_are_not_affected(topic: str, partition: int) -> None:
    assert not is_refused(after_refusing(sent(5)), sent(6), known(), topic=topic, partition=partition)


def test_other_producers_are_not_affected() -> None:
    assert not is_refused(after_refusing(sent(5)), sent(6, producer=8), known())


def test_after_a_while_the_gap_is_reported() -> None:
    assert not is_refused(after_refusing(sent(5)), sent(6), known(4), now=BEHIND_SECONDS_MAX)


def test_an_expired_refusal_does_not_hide_a_new_one() -> None:
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
    ids=["for good", "truncated", "nonsense", "nothing", "not idempotent"],
)
def test_batches_that_will_not_be_sent_again_are_not_remembered(records: bytes | None, code: ErrorCode) -> None:
    refused = RefusedBatches()
    refused.on_refused("t", 0, records, KafkaError(code, "no"), 0.0)
    assert not refused


def test_the_number_of_remembered_producers_is_bounded() -> None:
    refused = after_refusing(*(sent(5, producer=each) for each in range(REMEMBERED_MAX + 1)))
    assert not is_refused(refused, sent(6, producer=0), known())
    assert is_refused(refused, sent(6, producer=1), known())


def test_topics_with_impossible_names_are_not_remembered() -> None:
    """Names may be as long as a request, and error messages repeat them."""
    refused = RefusedBatches()
    for name in ("t" * 250, "t" * 249):
        assert not refused
        refused.on_refused(name, 0, sent(5), KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name), 0.0)
    assert refused
