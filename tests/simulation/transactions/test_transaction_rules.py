"""Each rule accepts a history that is right, and detects what is wrong. The histories are written by hand."""

from math import inf

import pytest
from simulation.transactions.checker import TransactionError, anomalies, check
from simulation.transactions.small_histories import GROUP, INPUT, ONE, TWO, Copying, Small, begun, ended, sent
from simulation.transactions.transaction_history import (
    Fate,
    Marker,
    OffsetRead,
    Outcome,
    Poll,
    Position,
    Producer,
    Record,
    Source,
    Stored,
    TransactionHistory,
)


def _rules(history: TransactionHistory) -> set[str]:
    return {anomaly.rule for anomaly in anomalies(history)}


def test_histories_that_are_right_pass() -> None:
    check(Small().history)
    check(Copying().history)
    check(TransactionHistory())


def test_an_error_names_the_rules_that_are_broken() -> None:
    small = Small()
    small.log.stable_end = 3
    with pytest.raises(TransactionError, match="stuck stable offset: out-0 is stable up to 3, and ends at 6"):
        check(small.history)


@pytest.mark.parametrize(
    ("outcomes", "fate"),
    [
        ([], Fate.ABORTED),
        ([(True, Outcome.OK)], Fate.COMMITTED),
        ([(True, Outcome.UNKNOWN)], Fate.EITHER),
        ([(True, Outcome.FAILED)], Fate.ABORTED),
        ([(False, Outcome.UNKNOWN)], Fate.ABORTED),
        ([(True, Outcome.UNKNOWN), (False, Outcome.OK)], Fate.ABORTED),
        ([(True, Outcome.UNKNOWN), (False, Outcome.UNKNOWN)], Fate.EITHER),
        ([(False, Outcome.UNKNOWN), (True, Outcome.OK)], Fate.COMMITTED),
    ],
)
def test_a_fate_follows_from_how_clients_asked_to_end(outcomes: list[tuple[bool, Outcome]], fate: Fate) -> None:
    transaction = begun(Producer("p", "id"), 1.0)
    for commits, outcome in outcomes:
        ended(transaction, 2.0, commits=commits, outcome=outcome)
    assert transaction.fate is fate


# logs and writes


def test_an_offset_has_one_value() -> None:
    small = Small()
    small.plain.sends.append(sent(b"q", ONE, 1, 8.0))
    assert "inconsistent offsets" in _rules(small.history)


def test_a_value_is_at_one_offset() -> None:
    small = Small()
    small.reader.events.append(Poll(ONE, [Record(7, b"p")], 9.0, 9.1))
    assert "duplicate" in _rules(small.history)
    small.plain.is_idempotent = False
    assert "duplicate" not in _rules(small.history)


def test_committed_and_plain_records_are_not_lost() -> None:
    for value in (b"a", b"p"):
        small = Small()
        small.log.committed = [each for each in small.log.committed if each.value != value]
        assert "lost write" in _rules(small.history)
        small.log.log_start = 6
        assert "lost write" not in _rules(small.history)


def test_a_transaction_without_a_response_is_there_or_not() -> None:
    small = Small()
    small.committed.endings[0].outcome = Outcome.UNKNOWN
    assert not anomalies(small.history)
    gone = {b"a", b"b", b"x"}
    for log, offset in ((small.log, 3), (small.other_log, 2)):
        log.committed = [each for each in log.committed if each.value not in gone]
        log.markers = [Marker(offset, 1, False), *log.markers[1:]]
    small.reader.events = small.reader.events[:1]
    assert not anomalies(small.history)


def test_a_transaction_is_not_torn() -> None:
    small = Small()
    small.committed.endings[0].outcome = Outcome.UNKNOWN
    small.other_log.committed = []
    small.other_log.markers = [Marker(2, 1, False), Marker(3, 2, False)]
    assert _rules(small.history) == {"torn transaction"}


def test_records_are_in_the_order_in_which_they_were_sent() -> None:
    small = Small()
    later = begun(small.producer, 20.0, sent(b"late", ONE, 4, 20.0), sent(b"later", ONE, 3, 21.0))
    ended(later, 22.0, commits=True)
    assert "reordered sends" in _rules(small.history)


def test_a_fenced_producer_does_nothing_more() -> None:
    small = Small()
    small.history.producers.append(Producer("successor", "id", init_began=1.5, init_ended=1.9))
    assert "zombie" in _rules(small.history)
    small.producer.transactions.clear()
    assert "zombie" not in _rules(small.history)


def test_the_last_stable_offset_reaches_the_end() -> None:
    small = Small()
    small.log.stable_end = 2
    assert _rules(small.history) == {"stuck stable offset"}


def test_readers_get_what_markers_say() -> None:
    small = Small()
    small.log.markers = [Marker(3, 1, True)]
    small.log.committed = [*small.log.committed[:2], Record(2, b"c"), small.log.committed[2]]
    assert "disobeyed marker" in _rules(small.history)
    small = Small()
    small.log.markers = [Marker(3, 1, False), Marker(4, 2, False)]
    assert _rules(small.history) == {"disobeyed marker"}


# readers


def test_nothing_aborted_is_read() -> None:
    small = Small()
    small.reader.events.insert(3, Poll(ONE, [Record(2, b"c")], 7.0, 7.1))
    assert "aborted read" in _rules(small.history)
    small = Small()
    small.aborted.endings.clear()  # its producer was fenced
    small.log.committed = [*small.log.committed[:2], Record(2, b"c"), small.log.committed[2]]
    assert "aborted read" in _rules(small.history)


def test_only_what_was_sent_is_read() -> None:
    small = Small()
    small.dirty.events.append(Poll(TWO, [Record(9, b"?")], 9.0, 9.1))
    assert "phantom" in _rules(small.history)
    small = Small()
    small.aborted.sends[0].outcome = Outcome.FAILED
    assert "phantom" in _rules(small.history)


def test_nothing_is_read_before_its_commit() -> None:
    small = Small()
    small.reader.events[2] = Poll(ONE, [Record(0, b"a"), Record(1, b"b")], 4.5, 4.9)
    assert _rules(small.history) == {"precommitted read"}
    small.committed.endings[0].began = 4.8
    assert not anomalies(small.history)


def test_what_was_read_stays() -> None:
    small = Small()
    small.committed.endings[0].outcome = Outcome.UNKNOWN
    small.log.committed = small.log.committed[2:]
    small.other_log.committed = []
    small.log.markers = [Marker(3, 1, False), Marker(4, 2, False)]
    small.other_log.markers = [Marker(2, 1, False), Marker(3, 2, False)]
    assert _rules(small.history) == {"vanished read"}


def test_what_was_read_after_the_final_reading_began_need_not_be_in_it() -> None:
    small = Small()
    late = sent(b"late", ONE, None, 7.0)
    small.plain.sends.append(late)
    small.dirty.events.append(Poll(ONE, [Record(5, b"p"), Record(6, b"late")], 20.0, 20.1, high_watermark=7))
    small.log.began = 19.0
    check(small.history)
    small.log.began = 21.0
    assert _rules(small.history) == {"vanished read"}


def test_nothing_unstable_is_read() -> None:
    small = Small()
    small.reader.events[2] = Poll(ONE, [Record(0, b"a"), Record(1, b"b")], 6.0, 6.1, stable_end=1)
    assert _rules(small.history) == {"unstable read"}
    small = Small()
    small.dirty.events[0] = Poll(ONE, [Record(0, b"a"), Record(1, b"b")], 6.0, 6.1, high_watermark=1)
    assert _rules(small.history) == {"unstable read"}


@pytest.mark.parametrize(
    "poll",
    [
        Poll(ONE, [], 10.0, 10.1, 3, stable_end=5, high_watermark=6),
        Poll(ONE, [], 10.0, 10.1, 4, stable_end=7, high_watermark=6),
        Poll(ONE, [], 4.2, 4.4, 4, stable_end=1, high_watermark=6),
    ],
)
def test_the_last_stable_offset_is_right(poll: Poll) -> None:
    """It does not fall under one leader, is not beyond the high watermark, and does not pass an open transaction."""
    small = Small()
    small.reader.events.append(poll)
    assert _rules(small.history) == {"wrong stable offset"}


def test_a_transaction_that_others_may_have_ended_need_not_be_open() -> None:
    small = Small()
    small.reader.events.append(Poll(ONE, [], 4.2, 4.4, 4, stable_end=1, high_watermark=6))
    small.committed.expires = 4.3
    assert not anomalies(small.history)


@pytest.mark.parametrize("began", [0.2, 4.0])
def test_an_init_that_is_under_way_may_end_a_transaction(began: float) -> None:
    """Also if it began before the one of the transaction's own process. It cannot have ended what was committed."""
    small = Small()
    small.reader.events.append(Poll(ONE, [], 4.2, 4.4, 4, stable_end=3, high_watermark=6))
    ended(small.committed, 3.0, commits=True)
    assert _rules(small.history) == {"wrong stable offset"}
    other = Producer("p-0", "other", init_began=began)
    small.history.producers.append(other)
    assert not anomalies(small.history)
    other.init_began, other.init_is_over = 0.2, 0.4
    assert _rules(small.history) == {"wrong stable offset"}
    other.init_is_over = inf
    ended(small.aborted, 5.5, commits=True)
    assert "wrong stable offset" in _rules(small.history)


def test_a_repeated_init_may_end_a_transaction_of_its_own_process() -> None:
    small = Small()
    small.reader.events.append(Poll(ONE, [], 4.2, 4.4, 4, stable_end=3, high_watermark=6))
    ended(small.committed, 3.0, commits=True)
    small.aborting.init_is_over = inf
    assert not anomalies(small.history)


def test_a_reader_goes_forward() -> None:
    small = Small()
    again = Poll(ONE, [Record(1, b"b"), Record(5, b"p")], 10.0, 10.1)
    small.reader.events.append(again)
    assert _rules(small.history) == {"reordered polls"}
    small.reader.events[-1:] = [Position(ONE, 1), again]
    assert not anomalies(small.history)


def test_a_reader_skips_nothing() -> None:
    small = Small()
    small.reader.events[2] = Poll(ONE, [Record(1, b"b")], 6.0, 6.1)
    assert _rules(small.history) == {"skipped record"}
    small.reader.events[0] = Position(ONE, 1)
    assert not anomalies(small.history)
    small.dirty.events = [Poll(ONE, [Record(0, b"a"), Record(2, b"c")], 4.0, 4.1)]
    assert _rules(small.history) == {"skipped record"}


# consume-process-produce


def test_an_input_is_processed_once() -> None:
    copying = Copying()
    repeated = begun(copying.processor, 5.0, sent(b"again", ONE, 6, 5.0, Source(GROUP, INPUT, 1)))
    ended(repeated, 6.0, commits=True)
    copying.output.committed = [*copying.output.committed, Record(6, b"again")]
    copying.output.uncommitted = [*copying.output.uncommitted, Stored(6, b"again", 1, True)]
    copying.output.markers = [*copying.output.markers, Marker(7, 1, True)]
    copying.output.stable_end = copying.output.log_end = 8
    assert _rules(copying.history) == {"wrong output"}


def test_an_input_that_is_committed_is_processed() -> None:
    copying = Copying()
    copying.transactions[2].sends[0].source = Source(GROUP, INPUT, 0)
    copying.transactions[1].sends.clear()
    copying.output.uncommitted = [each for each in copying.output.uncommitted if each.offset != 2]
    assert _rules(copying.history) == {"wrong output", "skipped input"}


def test_an_input_that_a_leader_compacted_need_not_be_processed() -> None:
    """A process reads past an input that its leader compacted, and another replica still has the input."""
    copying = Copying()
    del copying.transactions[0].sends[0]
    copying.output.committed = copying.output.committed[1:]
    copying.output.uncommitted = copying.output.uncommitted[1:]
    assert _rules(copying.history) == {"skipped input"}
    copying.input.is_compacted = True
    for send in copying.feeder.sends:
        send.key = b"one key"
    check(copying.history)
    copying.feeder.sends[0].key = b"another key"
    assert _rules(copying.history) == {"skipped input"}


def test_an_input_whose_transaction_was_aborted_may_be_compacted_before_the_next_attempt() -> None:
    copying = Copying()
    inputs = [Record(1, b"in 1"), Record(2, b"in 2")]
    copying.input.committed, copying.input.uncommitted = inputs, [Stored(*each) for each in inputs]
    copying.input.stable_end = copying.input.log_end = 3
    copying.history.final_offsets[GROUP, INPUT] = 3
    copying.feeder.sends.append(sent(b"in 2", INPUT, 2, 0.2))
    copying.transactions[0].sends[0].source = Source(GROUP, INPUT, 2)
    copying.transactions[2].sends.clear()
    copying.output.committed = copying.output.committed[:1]
    copying.output.uncommitted = copying.output.uncommitted[:2]
    copying.transactions[2].offsets[0].offsets[INPUT] = 3
    copying.input.is_compacted = True
    for send in copying.feeder.sends:
        send.key = b"one key"
    check(copying.history)
    copying.feeder.sends[1].key = b"another key"
    assert _rules(copying.history) == {"wrong output"}


def test_committed_offsets_are_not_lost() -> None:
    copying = Copying()
    copying.history.final_offsets[GROUP, INPUT] = 1
    assert {"lost offset", "torn transaction", "wrong output"} == _rules(copying.history)


def test_offsets_are_committed_by_a_transaction() -> None:
    copying = Copying()
    copying.history.final_offsets[GROUP, INPUT] = 3
    assert _rules(copying.history) == {"wrong offset"}


def test_offsets_of_a_transaction_without_a_response_fit_its_output() -> None:
    copying = Copying()
    copying.transactions[2].endings[0].outcome = Outcome.UNKNOWN
    copying.transactions[1].offsets.clear()
    assert not anomalies(copying.history)
    copying.history.final_offsets[GROUP, INPUT] = 1
    assert "torn transaction" in _rules(copying.history)
    copying.history.final_offsets[GROUP, INPUT] = 2
    copying.output.committed = copying.output.committed[:1]
    copying.output.markers = [*copying.output.markers[:2], Marker(5, 1, False)]
    assert "torn transaction" in _rules(copying.history)


@pytest.mark.parametrize(("offset", "at", "is_right"), [(-1, 1.2, True), (0, 1.2, False), (1, 1.2, False)])
def test_offsets_are_not_read_before_a_commit(offset: int, at: float, is_right: bool) -> None:
    copying = Copying()
    copying.history.offset_reads.append(OffsetRead(GROUP, INPUT, offset, at, at + 0.1))
    assert (not anomalies(copying.history)) is is_right


@pytest.mark.parametrize(("offset", "is_right"), [(0, False), (1, True), (2, False)])
def test_offsets_of_an_aborted_transaction_are_not_read(offset: int, is_right: bool) -> None:
    copying = Copying()
    copying.history.offset_reads.append(OffsetRead(GROUP, INPUT, offset, 2.8, 2.9))
    assert (not anomalies(copying.history)) is is_right
