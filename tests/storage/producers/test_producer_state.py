"""Repeated batches are recognised, gaps and old epochs refused, and a snapshot equals the log that it stands for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.batches.record_batch import TRANSACTIONAL, BatchHeader
from tailrace.protocol.batches.transaction_markers import MARKER_ATTRIBUTES, Marker
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.storage.producers.producer_state import (
    BATCHES_KEPT,
    INHERITED_PRODUCERS_MAX,
    NO_SEQUENCE,
    SNAPSHOT_MAGIC,
    TRANSACTIONS_MAGIC,
    CompletedTransaction,
    ProducerStates,
    is_snapshot,
    sequences_between,
)

LAST_SEQUENCE = 2**31 - 1


def header(
    sequence: int, count: int = 1, *, offset: int = 0, epoch: int = 0, producer: int = 7, time: int = 0
) -> BatchHeader:
    return BatchHeader(offset, 100, 0, 2, 0, 0, count - 1, time, time, producer, epoch, sequence, count)


def appended(*headers: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for each in headers:
        assert states.check(each) is None
        states.on_appended(each)
    return states


def refused(states: ProducerStates, each: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        states.check(each)
    return error.value.code


def test_a_repeated_batch_is_the_one_that_was_appended() -> None:
    states = appended(*(header(sequence, offset=100 + sequence) for sequence in range(20)))
    for sequence in range(20 - BATCHES_KEPT, 20):
        found = states.check(header(sequence))
        assert found is not None
        assert found.base_offset == 100 + sequence
    assert refused(states, header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_truncated_batch_may_be_sent_again() -> None:
    states = appended(*(header(sequence, offset=100 + sequence) for sequence in range(20)))
    assert states.truncate(115)
    found = states.check(header(14))
    assert found is not None
    assert found.base_offset == 114
    assert refused(states, header(16)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(15)) is None


def test_a_log_that_begins_at_an_offset_can_inherit_the_states_before_it() -> None:
    headers = [header(each // 3, producer=1 + each % 3, offset=each) for each in range(12)]
    whole, told = appended(*headers), appended(*headers).before(5)
    assert [(each, producer.batches[-1].base_offset) for each, producer in told] == [(3, 2), (1, 3), (2, 4)]
    assert len(appended(*headers).before(0)) == 0
    for each in headers[5:]:
        told.on_appended(each)
    assert told.snapshot() == whole.snapshot()


def test_only_recent_producers_are_inherited() -> None:
    headers = [header(0, producer=each, offset=each) for each in range(INHERITED_PRODUCERS_MAX + 5)]
    assert [each for each, _ in appended(*headers).before(INHERITED_PRODUCERS_MAX + 3)] == list(
        range(5, INHERITED_PRODUCERS_MAX + 3)
    )


def test_truncation_looks_only_at_producers_that_appended_there() -> None:
    states = appended(header(0, producer=1, offset=0), header(0, producer=2, offset=1), header(1, producer=1, offset=2))
    assert states.truncate(2)
    assert [(each, len(producer.batches)) for each, producer in states] == [(1, 1), (2, 1)]
    assert states.truncate(1)
    assert [each for each, _ in states] == [1]
    assert states.truncate(0)
    assert len(states) == 0


@pytest.mark.parametrize("batches", [[header(7, offset=5)], [header(0, offset=5, epoch=2)]])
def test_the_earlier_state_of_a_producer_must_come_from_the_log(batches: list[BatchHeader]) -> None:
    states = appended(*batches)
    assert states.truncate(6)
    assert not states.truncate(5)


def test_a_batch_with_the_same_start_and_another_end_is_no_repetition() -> None:
    states = appended(header(0, 3))
    assert refused(states, header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused() -> None:
    assert refused(appended(header(0, 3)), header(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_begin_again_after_the_last_one() -> None:
    states = appended(header(LAST_SEQUENCE - 1, 4))
    assert states.check(header(2)) is None
    assert refused(states, header(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerStates().check(header(1234, epoch=3)) is None


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() -> None:
    states = appended(header(0), header(1), header(0, epoch=2))
    assert refused(states, header(2, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(states, header(1, epoch=3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, epoch=3)) is None
    assert states.check(header(1, epoch=2)) is None


def test_the_next_sequence_is_known_by_producer_and_epoch() -> None:
    states = appended(header(LAST_SEQUENCE - 1, 2, epoch=3))
    assert states.expected(7, 3) == 0
    assert states.expected(7, 4) == 0
    assert states.expected(7, 2) == NO_SEQUENCE
    assert states.expected(8, 3) is None
    assert appended(header(0, 5)).expected(7, 0) == 5


def test_sequences_are_compared_across_the_wraparound() -> None:
    assert sequences_between(5, 8) == 3
    assert sequences_between(8, 5) == -3
    assert sequences_between(LAST_SEQUENCE, 1) == 2
    assert sequences_between(1, LAST_SEQUENCE) == -2
    assert sequences_between(4, 4) == 0


def test_silent_producers_expire() -> None:
    states = appended(header(0, producer=1, time=50), header(0, producer=2, time=10), header(0, producer=3, time=90))
    for _ in range(2):
        states.expire(50)
    assert [producer_id for producer_id, _ in states] == [1, 3]


def test_old_timestamps_do_not_make_a_producer_silent() -> None:
    states = appended(header(0, time=10))
    for sequence in (1, 10):
        states.expire(50)
        states.on_appended(header(sequence, time=10))
    states.expire(50)
    assert states.expected(7, 0) == 11
    states.expire(50)
    assert states.expected(7, 0) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 2**62), st.integers(0, LAST_SEQUENCE), st.integers(1, 1000), st.integers(0, 3)),
        max_size=30,
    )
)
def test_a_snapshot_restores_the_same_state(batches: list[tuple[int, int, int, int]]) -> None:
    states = ProducerStates()
    for offset, (producer, sequence, count, epoch) in enumerate(batches):
        states.on_appended(header(sequence, count, offset=offset, epoch=epoch, producer=producer, time=offset))
    restored = ProducerStates.restore(states.snapshot())
    assert restored is not None
    assert restored.snapshot() == states.snapshot()
    assert [(each, producer.epoch, producer.newest_ms, producer.batches) for each, producer in restored] == [
        (each, producer.epoch, producer.newest_ms, producer.batches) for each, producer in states
    ]


@given(st.data())
def test_a_damaged_snapshot_is_ignored(data: st.DataObject) -> None:
    snapshot = bytearray(appended(header(0), header(1, producer=8)).snapshot())
    bit = data.draw(st.integers(0, 8 * len(snapshot) - 1))
    snapshot[bit // 8] ^= 1 << bit % 8
    assert ProducerStates.restore(bytes(snapshot)) is None
    assert ProducerStates.restore(bytes(snapshot[: bit // 8])) is None


# transactions


def transactional(sequence: int, count: int = 1, *, offset: int, epoch: int = 0, producer: int = 7) -> BatchHeader:
    each = header(sequence, count, offset=offset, epoch=epoch, producer=producer, time=offset)
    each.attributes = TRANSACTIONAL
    return each


def marker(offset: int, *, epoch: int = 0, producer: int = 7) -> BatchHeader:
    each = header(-1, offset=offset, epoch=epoch, producer=producer, time=offset)
    each.attributes = MARKER_ATTRIBUTES
    return each


COMMIT, ABORT = Marker(is_commit=True, coordinator_epoch=3), Marker(is_commit=False, coordinator_epoch=3)


def marker_refused(states: ProducerStates, epoch: int, coordinator_epoch: int, version: int) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        states.check_marker(7, epoch, coordinator_epoch, version)
    return error.value.code


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    states = ProducerStates()
    assert states.on_transactional(transactional(0, offset=10))
    assert states.on_transactional(transactional(0, offset=11, producer=8))
    assert not states.on_transactional(transactional(1, offset=12))
    assert dict(states.open_transactions) == {7: 10, 8: 11}
    assert states.on_marker(marker(13, producer=8), ABORT) == CompletedTransaction(8, 11, 13, False, 10)
    assert states.open_transaction(8) is None
    assert states.on_marker(marker(14), COMMIT) == CompletedTransaction(7, 10, 14, True, 15)
    assert not states.open_transactions
    assert states.on_marker(marker(15), COMMIT) is None


def test_a_marker_with_a_new_epoch_lets_the_producer_begin_at_zero() -> None:
    states = ProducerStates()
    states.on_transactional(transactional(5, offset=10))
    states.on_marker(marker(11, epoch=1), COMMIT)
    assert states.newest(7) is None
    assert states.knows(7)
    assert states.expected(7, 1) == 0
    assert states.check(transactional(0, offset=12, epoch=1)) is None
    assert refused(states, transactional(6, offset=12, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(states, transactional(6, offset=12, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_of_the_same_epoch_lets_the_sequences_go_on() -> None:
    states = ProducerStates()
    states.on_transactional(transactional(5, offset=10))
    states.on_marker(marker(11), COMMIT)
    assert states.check(transactional(6, offset=12)) is None
    repeated = states.check(transactional(5, offset=12))
    assert repeated is not None
    assert repeated.base_offset == 10


def test_a_plain_batch_is_refused_while_the_transaction_of_its_producer_is_open() -> None:
    states = ProducerStates()
    states.on_transactional(transactional(0, offset=10))
    assert refused(states, header(1)) is ErrorCode.INVALID_TXN_STATE
    assert states.check(header(0)) is not None
    states.on_marker(marker(11), ABORT)
    assert states.check(header(1)) is None


def test_group_offsets_have_a_transaction_but_no_sequence() -> None:
    states = ProducerStates()
    assert states.on_transactional(transactional(-1, offset=4, epoch=2))
    assert states.check(transactional(-1, offset=5, epoch=2)) is None
    assert states.check(transactional(-1, offset=5, epoch=3)) is None
    assert refused(states, transactional(-1, offset=5, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    restored = ProducerStates.restore(states.snapshot())
    assert restored is not None
    assert restored.on_marker(marker(5, epoch=2), COMMIT) == CompletedTransaction(7, 4, 5, True, 6)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_markers_of_old_epochs_and_old_coordinators_are_fenced(version: int) -> None:
    states = ProducerStates()
    assert states.check_marker(7, 0, 0, version)
    states.on_transactional(transactional(0, offset=10, epoch=4))
    states.on_marker(marker(11, epoch=5), COMMIT)
    assert marker_refused(states, 4, 3, version) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert marker_refused(states, 5, 2, version) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert marker_refused(states, 6, 2, version) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert states.check_marker(7, 6, 3, version)


def test_apache_kafka_21176_a_repeated_marker_of_the_same_epoch_is_acknowledged_and_not_written_again() -> None:
    states = ProducerStates()
    states.on_transactional(transactional(0, offset=10, epoch=4))
    assert states.check_marker(7, 5, 3, 2)
    states.on_marker(marker(11, epoch=5), COMMIT)
    assert not states.check_marker(7, 5, 3, 2)
    assert not states.check_marker(7, 5, 4, 2)
    assert states.check_marker(7, 5, 3, 1), "the first version repeats markers, as Kafka does"


def test_a_late_marker_does_not_end_the_next_transaction() -> None:
    states = ProducerStates()
    states.on_transactional(transactional(0, offset=10, epoch=4))
    states.on_marker(marker(11, epoch=5), COMMIT)
    states.on_transactional(transactional(0, offset=12, epoch=5))
    assert marker_refused(states, 5, 3, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check_marker(7, 6, 3, 2)


def test_a_producer_with_an_open_transaction_neither_expires_nor_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.storage.producers.producer_state.PRODUCERS_MAX", 2)
    states = ProducerStates()
    states.on_transactional(transactional(0, offset=0, producer=1))
    for producer in range(2, 5):
        states.on_appended(header(0, offset=producer, producer=producer))
    assert [each for each, _ in states] == [1, 4]
    for _ in range(3):
        states.expire(50)
    assert [each for each, _ in states] == [1]
    states.on_marker(marker(9, producer=1), ABORT)
    for _ in range(2):
        states.expire(50)
    assert not len(states)


def test_a_truncated_transaction_must_come_from_the_log() -> None:
    states = ProducerStates()
    states.on_transactional(transactional(0, offset=10))
    states.on_marker(marker(11), COMMIT)
    assert states.truncate(12)
    assert not states.truncate(11)
    states = ProducerStates()
    states.on_transactional(transactional(0, offset=10))
    assert states.truncate(11)
    assert states.open_transaction(7) == 10
    assert not states.truncate(10)


def test_open_transactions_are_inherited_by_a_log_that_begins_within_them() -> None:
    states = ProducerStates()
    states.on_transactional(transactional(0, offset=10))
    states.on_transactional(transactional(0, offset=11, producer=8))
    states.on_transactional(transactional(1, offset=12))
    states.on_transactional(transactional(0, offset=13, producer=9))
    states.on_marker(marker(14, producer=8), COMMIT)
    told = states.before(12)
    assert dict(told.open_transactions) == {7: 10}
    assert [each for each, _ in told] == [7, 8]
    told.on_transactional(transactional(1, offset=12))
    told.on_transactional(transactional(0, offset=13, producer=9))
    told.on_marker(marker(14, producer=8), COMMIT)
    assert told.snapshot() == states.snapshot()


def test_open_transactions_are_inherited_however_many_other_producers_there_are() -> None:
    states = ProducerStates()
    states.on_transactional(transactional(0, offset=0, producer=1))
    for offset in range(1, INHERITED_PRODUCERS_MAX + 5):
        states.on_appended(header(0, producer=100 + offset, offset=offset))
    told = states.before(INHERITED_PRODUCERS_MAX + 5)
    assert dict(told.open_transactions) == {1: 0}
    assert len(told) == INHERITED_PRODUCERS_MAX + 1


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from("dgpca"), st.integers(0, 2)), max_size=40))
def test_a_snapshot_with_transactions_restores_the_same_state(steps: list[tuple[int, str, int]]) -> None:
    states, sequences = ProducerStates(), dict.fromkeys(range(1, 5), 0)
    restored: ProducerStates | None = ProducerStates()
    for offset, (producer, kind, epoch) in enumerate(steps):
        assert restored is not None
        for each in (states, restored):
            if kind in "ca":
                each.on_marker(marker(offset, epoch=epoch, producer=producer), COMMIT if kind == "c" else ABORT)
            elif kind == "p":
                each.on_appended(header(sequences[producer], offset=offset, epoch=epoch, producer=producer))
            else:
                sequence = sequences[producer] if kind == "d" else -1
                each.on_transactional(transactional(sequence, offset=offset, epoch=epoch, producer=producer))
        sequences[producer] += 1
        assert restored.snapshot() == states.snapshot()
        assert list(restored.open_transactions.items()) == list(states.open_transactions.items())
        assert list(states.open_transactions.values()) == sorted(states.open_transactions.values())
        restored = ProducerStates.restore(states.snapshot())


def test_a_log_without_transactions_writes_the_first_format() -> None:
    states = appended(header(0))
    assert states.snapshot().startswith(SNAPSHOT_MAGIC)
    states.on_transactional(transactional(1, offset=1))
    assert states.snapshot().startswith(TRANSACTIONS_MAGIC)
    assert is_snapshot(states.snapshot())
    assert not is_snapshot(b"TRPS\x00\x03")
