"""Expectations of a shard's line: what it hands out, what it does about failures, and where the mark stands."""

import pytest
from shard_workers import (
    SHARD,
    WALL_MS,
    acknowledge,
    batch_of,
    config_with,
    failed,
    finish,
    handle_all,
    handle_all_but,
    handled,
    line_with,
    next_chunk,
    offsets_of,
    take,
)

from tailrace.protocol.batches.records import Record, build_batch
from tailrace.trigger.config.trigger_config import Acknowledgement, OnExhausted, Order, Retry, RetryMode
from tailrace.trigger.shards.line_effects import (
    AttemptFailed,
    DeadLetter,
    GivenUp,
    Handled,
    LogTruncated,
    RecordsDeleted,
    ShardStopped,
)
from tailrace.trigger.shards.shard_line import UNSENT_RECORDS_MAX, ShardLine
from tailrace.trigger.work import FailureKind, Output, Settled

OUTPUT = Output("invoices", b"k", b"v")


def test_every_record_is_handed_out_and_then_marked() -> None:
    line = line_with(batch_of(range(3)), batch_of(range(3, 5)))
    assert (line.mark, line.lag) == (0, 5)
    assert handle_all(line) == [[0, 1, 2, 3, 4]]
    assert (line.mark, line.lag) == (5, 0)


def test_a_shard_has_one_chunk_in_hand_so_that_its_records_are_handled_one_after_the_other() -> None:
    line = line_with(batch_of(range(3)))
    chunk = next_chunk(line)
    take(line, batch_of(range(3, 5)))
    assert line.next_chunk(0.0) is None
    finish(line, chunk)
    assert offsets_of(next_chunk(line)) == [3, 4]


def test_a_line_begins_in_the_middle_of_a_batch() -> None:
    line = line_with(batch_of(range(5)), offset=3)
    assert handle_all(line) == [[3, 4]]


def test_a_chunk_whose_time_is_up_goes_on_where_its_worker_ended() -> None:
    line = line_with(batch_of(range(5)))
    chunk = next_chunk(line)
    assert chunk.seconds_max < 1
    finish(line, chunk, handled(chunk, until=2))
    assert line.mark == 2
    assert handle_all(line) == [[2, 3, 4]]


def test_gaps_and_control_batches_count_as_handled() -> None:
    line = line_with(batch_of([2, 5], 9, base=1), batch_of([9], is_control=True))
    assert line.mark == 2
    assert handle_all(line) == [[2, 5]]
    assert line.mark == 10


@pytest.mark.parametrize("order", [Order.SHARD, Order.KEY])
def test_the_mark_passes_a_gap_at_the_end_of_an_input_after_the_records_before_it(order: Order) -> None:
    line = line_with(batch_of([0, 1]), order=order, max_workers=1)
    line.end_input(7)
    assert (line.mark, line.is_drained) == (0, False)
    assert [offset for chunk in handle_all(line) for offset in chunk] == [0, 1]
    assert (line.mark, line.is_drained) == (7, True)


def test_a_batch_that_is_fetched_twice_is_handled_once() -> None:
    line = line_with(batch_of(range(3)))
    take(line, batch_of(range(3)), batch_of(range(3, 4)))
    assert handle_all(line) == [[0, 1, 2, 3]]


# Outputs


def test_the_mark_waits_until_the_outputs_are_acknowledged() -> None:
    line = line_with(batch_of(range(3)))
    chunk = next_chunk(line)
    effects = line.on_outcome(chunk, handled(chunk, OUTPUT), 0.0, WALL_MS, 0.0)
    assert effects.sending is not None
    assert effects.sending.outputs == (OUTPUT,)
    assert line.mark == 0
    take(line, batch_of(range(3, 5)))
    finish(line, next_chunk(line))
    assert line.mark == 0
    line.on_sent(effects.sending.ticket)
    assert line.mark == 5


def test_a_line_hands_out_nothing_while_too_many_outputs_wait() -> None:
    line = line_with(batch_of(range(3)), batch_of(range(3, 5)))
    chunk = next_chunk(line)
    effects = line.on_outcome(chunk, handled(chunk, *[OUTPUT] * UNSENT_RECORDS_MAX, until=1), 0.0, WALL_MS, 0.0)
    assert line.next_chunk(0.0) is None
    assert effects.sending is not None
    line.on_sent(effects.sending.ticket)
    assert handle_all(line) == [[1, 2, 3, 4]]


def test_outputs_that_the_brokers_refuse_stop_the_shard_before_their_records() -> None:
    line = line_with(batch_of(range(3)))
    chunk = next_chunk(line)
    effects = line.on_outcome(chunk, handled(chunk, OUTPUT, until=2), 0.0, WALL_MS, 0.0)
    assert effects.sending is not None
    assert line.on_send_refused(effects.sending.ticket, "too large").facts == (ShardStopped(0, "too large"),)
    assert line.next_chunk(0.0) is None
    assert line.mark == 0
    line.drain()
    assert line.is_drained


# Retries


def test_a_failed_event_is_retried_in_order_after_growing_pauses() -> None:
    line = line_with(batch_of(range(3)), retry=Retry(attempts=4, backoff=(1.0, 3.0)))
    now, pauses = 0.0, []
    for attempt in (1, 2, 3):
        chunk = next_chunk(line, now)
        assert chunk.attempt == (1 if attempt == 1 else attempt)
        assert offsets_of(chunk) == ([0, 1, 2] if attempt == 1 else [1, 2])
        effects = line.on_outcome(chunk, failed(1), now, WALL_MS, 0.0)
        (fact,) = effects.facts
        assert isinstance(fact, AttemptFailed)
        assert fact.attempt == attempt
        assert line.next_chunk(now) is None
        assert line.mark == 1
        pauses.append(line.next_time - now)
        now = line.next_time
    assert pauses == [1.0, 2.0, 3.0]
    assert handle_all(line, now=now) == [[1, 2]]
    assert line.mark == 3


def test_an_event_that_is_given_up_becomes_a_dead_letter_and_the_mark_waits_for_it() -> None:
    line = line_with(batch_of(range(3)), retry=Retry(attempts=1))
    effects = line.on_outcome(next_chunk(line), failed(1), 0.0, WALL_MS, 0.0)
    assert effects.sending is not None
    (letter,) = effects.sending.dead_letters
    assert (letter.shard, letter.offset, letter.attempts) == (SHARD, 1, 1)
    assert letter.record is not None
    assert (letter.record.value, letter.record.headers) == (b"value 1", [("h", b"1")])
    assert handle_all(line) == [[2]]
    assert line.mark == 0
    line.on_sent(effects.sending.ticket)
    assert line.mark == 3


def test_an_exhausted_event_is_skipped_if_the_trigger_says_so() -> None:
    line = line_with(batch_of(range(3)), retry=Retry(attempts=1), on_exhausted=OnExhausted.SKIP)
    effects = line.on_outcome(next_chunk(line), failed(1), 0.0, WALL_MS, 0.0)
    assert effects.sending is None
    assert [(fact.offset, fact.is_dead_letter) for fact in effects.facts if isinstance(fact, GivenUp)] == [(1, False)]
    assert handle_all(line) == [[2]]
    assert line.mark == 3


def test_an_exhausted_event_stops_its_shard_if_the_trigger_says_so() -> None:
    line = line_with(batch_of(range(3)), retry=Retry(attempts=1), on_exhausted=OnExhausted.STOP)
    effects = line.on_outcome(next_chunk(line), failed(1), 0.0, WALL_MS, 0.0)
    assert effects.facts == [line.stopped]
    assert line.stopped is not None
    assert (line.stopped.offset, line.stopped.reason) == (1, "ValueError: no")
    assert line.next_chunk(1e9) is None
    assert (line.mark, line.wants_bytes) == (1, 0)


def test_a_record_that_cannot_be_decoded_is_given_up_at_once_with_its_batch() -> None:
    broken = bytearray(batch_of(range(3)))
    broken[70:] = b"\xff" * len(broken[70:])
    line = line_with(bytes(broken))
    outcome = failed(0, 3, kind=FailureKind.UNREADABLE)
    effects = line.on_outcome(next_chunk(line), outcome, 0.0, WALL_MS, 0.0)
    assert effects.sending is not None and outcome.failure is not None
    assert effects.sending.dead_letters == (DeadLetter(SHARD, 0, None, bytes(broken), outcome.failure, 1),)
    line.on_sent(effects.sending.ticket)
    assert line.mark == 3


def test_a_failed_record_that_is_too_old_is_given_up_before_its_attempts_are_used() -> None:
    line = line_with(batch_of(range(3)), retry=Retry(attempts=9, max_age=60))
    effects = line.on_outcome(next_chunk(line), failed(0), 0.0, WALL_MS + 59_000, 0.0)
    assert effects.sending is None
    chunk = next_chunk(line, line.next_time)
    effects = line.on_outcome(chunk, failed(0), 1.0, WALL_MS + 60_000, 0.0)
    assert effects.sending is not None
    assert [letter.offset for letter in effects.sending.dead_letters] == [0]


def test_a_record_without_a_timestamp_has_no_age() -> None:
    records = bytes(build_batch([Record(0, -1, None, b"v")], base_offset=0))
    line = line_with(records, retry=Retry(attempts=2, max_age=60))
    assert line.oldest_timestamp_ms is None
    effects = line.on_outcome(next_chunk(line), failed(0), 0.0, WALL_MS, 0.0)
    assert effects.sending is None, "it is retried"


def test_records_whose_worker_ended_are_handed_out_again_before_the_event_that_ended_it() -> None:
    line = line_with(batch_of(range(6)))
    finish(line, next_chunk(line), failed(4, safe_until=2, kind=FailureKind.WORKER_ENDED))
    assert line.mark == 2
    chunk = next_chunk(line)
    assert (offsets_of(chunk), chunk.attempt) == ([2, 3], 1)
    finish(line, chunk)
    assert line.next_chunk(0.0) is None
    chunk = next_chunk(line, line.next_time)
    assert (offsets_of(chunk), chunk.attempt) == ([4, 5], 2)


def test_a_broken_worker_can_blame_only_records_of_its_chunk() -> None:
    for offset in (-5, 99):
        line = line_with(batch_of(range(3)), retry=Retry(attempts=1))
        finish(line, next_chunk(line), failed(offset, safe_until=-7))
        handle_all(line)
        assert line.mark == 3


def test_a_failed_event_goes_aside_and_its_shard_goes_on() -> None:
    line = line_with(batch_of(range(3)), retry=Retry(mode=RetryMode.ASIDE, backoff=(2.0, 9.0)))
    effects = line.on_outcome(next_chunk(line), failed(1), 0.0, WALL_MS, 0.0)
    assert effects.sending is not None
    (aside,) = effects.sending.asides
    assert (aside.shard, aside.offset, aside.attempt, aside.due_ms) == (SHARD, 1, 2, WALL_MS + 2000)
    assert handle_all(line) == [[2]]
    assert line.mark == 0
    line.on_sent(effects.sending.ticket)
    assert line.mark == 3


# Batches of events


def test_a_batch_waits_until_it_is_full() -> None:
    line = line_with(batch_of(range(3)), batch_size=4, batch_seconds=5.0)
    assert line.next_chunk(4.9) is None
    assert line.next_time == 5.0
    take(line, batch_of(range(3, 10)), now=4.9)
    chunk = next_chunk(line, 4.9)
    assert (offsets_of(chunk), chunk.batch_size) == (list(range(8)), 4)
    finish(line, chunk)
    assert line.next_chunk(9.8) is None
    assert handle_all(line, now=line.next_time) == [[8, 9]]


def test_a_batch_does_not_wait_for_more_than_the_buffer_takes() -> None:
    line = ShardLine(SHARD, 0, config_with(batch_size=1000, batch_seconds=60.0), bytes_max=1000)
    while line.wants_bytes:
        assert line.next_chunk(0.0) is None
        take(line, batch_of(range(line.fetch_offset, line.fetch_offset + 10)))
    assert offsets_of(next_chunk(line)) == list(range(line.fetch_offset))


def test_a_batch_is_no_larger_than_the_window_of_open_events() -> None:
    line = line_with(batch_of(range(9)), batch_size=4, open_events_max=2, acknowledgement=Acknowledgement.EXPLICIT)
    chunk = next_chunk(line)
    assert offsets_of(chunk) == [0, 1]
    finish(line, chunk, handled(chunk, opened=[0]))
    assert line.next_chunk(0.0) is None
    acknowledge(line, 0)
    assert offsets_of(next_chunk(line)) == [2, 3]


def test_full_batches_are_counted_across_gaps() -> None:
    line = line_with(batch_of([0, 3, 7], 9), batch_of([9]), batch_of([14, 15], base=12), batch_size=2, batch_seconds=5)
    assert handle_all(line) == [[0, 3, 7, 9, 14, 15]]


def test_a_failed_batch_is_retried_as_the_same_batch() -> None:
    line = line_with(batch_of(range(7)), batch_size=3)
    finish(line, next_chunk(line), failed(0, 3))
    chunk = next_chunk(line, line.next_time)
    assert (offsets_of(chunk), chunk.attempt, chunk.batch_size) == ([0, 1, 2], 2, 3)
    finish(line, chunk)
    assert handle_all(line) == [[3, 4, 5], [6]]


def test_only_the_events_that_a_batch_reports_are_retried() -> None:
    line = line_with(batch_of(range(4)), batch_size=4, retry=Retry(attempts=2))
    finish(line, next_chunk(line), failed(0, 4, reported=[1, 3]))
    assert line.mark == 1
    chunk = next_chunk(line, line.next_time)
    assert (offsets_of(chunk), chunk.offsets, chunk.attempt) == ([1, 3], (1, 3), 2)
    effects = line.on_outcome(chunk, failed(1, 4, reported=[3]), 9.0, WALL_MS, 0.0)
    assert effects.sending is not None
    assert [letter.offset for letter in effects.sending.dead_letters] == [3]


def test_a_failed_batch_is_split_until_one_event_fails_alone() -> None:
    line = line_with(batch_of(range(8)), batch_size=8, retry=Retry(attempts=1, split_batch=True))
    seen, letters = handle_all_but(line, 5)
    assert seen == [list(range(8)), [0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [4], [5], [6, 7]]
    assert letters == [5]
    assert line.mark == 8


# Reads


def test_a_read_takes_no_more_than_its_batch_size_and_the_next_one_waits_for_the_polling_interval() -> None:
    line = line_with(batch_of(range(5)), read_batch_size=2, polling_interval=1.0)
    assert handle_all(line, now=0.0) == [[0, 1]]
    assert line.next_time == 1.0
    assert handle_all(line, now=1.0) == [[2, 3]]
    assert handle_all(line, now=5.0) == [[4]]


def test_a_line_wants_no_bytes_while_its_buffer_is_full() -> None:
    line = ShardLine(SHARD, 0, config_with(), bytes_max=4000)
    while line.wants_bytes:
        assert line.wants_bytes >= 2000
        take(line, batch_of(range(line.fetch_offset, line.fetch_offset + 10)))
    assert 2000 < line.buffered_bytes < 4000
    handle_all(line)
    assert (line.wants_bytes, line.buffered_bytes) == (4000, 0)


def test_records_that_retention_deleted_are_passed_over() -> None:
    line = line_with(batch_of(range(3)))
    assert line.on_log_start(2).facts == ()
    assert line.on_log_start(10).facts == (RecordsDeleted(3, 10),)
    take(line, batch_of(range(10, 12)))
    assert handle_all(line) == [[0, 1, 2, 10, 11]]
    assert line.mark == 12


def test_a_line_goes_back_to_the_end_of_a_truncated_log() -> None:
    line = line_with(batch_of(range(3)), batch_of(range(3, 6)))
    chunk = next_chunk(line)
    assert line.on_log_end(3).facts == (LogTruncated(3, 6),)
    assert line.fetch_offset == 3
    take(line, batch_of(range(3, 5)))
    assert line.next_chunk(0.0) is None
    finish(line, chunk)
    assert line.mark == 3
    assert handle_all(line) == [[3, 4]]


def test_an_outcome_for_records_of_a_log_that_was_made_anew_is_ignored() -> None:
    line = line_with(batch_of(range(5, 8)), offset=5)
    chunk = next_chunk(line)
    line.on_log_end(0)
    take(line, batch_of(range(2)))
    finish(line, chunk, failed(6))
    assert handle_all(line) == [[0, 1]]
    assert line.mark == 2


# Drain


def test_a_line_that_drains_hands_out_nothing_and_takes_late_outcomes() -> None:
    line = line_with(batch_of(range(5)))
    chunk = next_chunk(line)
    line.drain()
    assert not line.is_drained
    effects = line.on_outcome(chunk, handled(chunk, OUTPUT, until=3), 0.0, WALL_MS, 0.0)
    assert effects.facts == [Handled(3, 3 / 1e5)]
    assert effects.sending is not None
    assert not line.is_drained
    line.on_sent(effects.sending.ticket)
    assert line.is_drained
    assert line.mark == 3
    assert (line.next_chunk(0.0), line.wants_bytes) == (None, 0)


# Explicit acknowledgement


def test_the_mark_follows_the_acknowledgements_without_a_gap() -> None:
    line = line_with(batch_of(range(4)), acknowledgement=Acknowledgement.EXPLICIT)
    chunk = next_chunk(line)
    finish(line, chunk, handled(chunk, opened=[0, 2, 3]))
    assert line.mark == 0
    acknowledge(line, 2)
    assert line.mark == 0
    acknowledge(line, 0)
    assert line.mark == 3
    assert line.open_events(7.0) == [(3, 7.0)]


def test_the_mark_waits_for_the_outputs_of_an_acknowledged_event() -> None:
    line = line_with(batch_of(range(2)), acknowledgement=Acknowledgement.EXPLICIT)
    chunk = next_chunk(line)
    finish(line, chunk, handled(chunk, opened=[0]))
    effects = line.on_settled(Settled(SHARD, 0, True, (OUTPUT,)), 0.0)
    assert effects.sending is not None
    assert (effects.sending.outputs, line.mark) == ((OUTPUT,), 0)
    line.on_sent(effects.sending.ticket)
    assert line.mark == 2


def test_outputs_of_an_event_that_is_no_longer_open_are_sent() -> None:
    line = line_with(batch_of(range(2)), acknowledgement=Acknowledgement.EXPLICIT)
    handle_all(line)
    assert line.on_settled(Settled(SHARD, 0, True, (OUTPUT,)), 0.0).sending is not None


def test_an_acknowledgement_that_overtakes_the_outcome_counts() -> None:
    line = line_with(batch_of(range(2)), acknowledgement=Acknowledgement.EXPLICIT)
    chunk = next_chunk(line)
    acknowledge(line, 1)
    finish(line, chunk, handled(chunk, opened=[0, 1]))
    assert [offset for offset, _ in line.open_events(0.0)] == [0]


def test_the_window_bounds_the_open_events() -> None:
    line = line_with(batch_of(range(9)), acknowledgement=Acknowledgement.EXPLICIT, open_events_max=3)
    chunk = next_chunk(line)
    assert offsets_of(chunk) == [0, 1, 2]
    finish(line, chunk, handled(chunk, opened=[0, 2]))
    chunk = next_chunk(line)
    assert offsets_of(chunk) == [3]
    finish(line, chunk, handled(chunk, opened=[3]))
    assert line.next_chunk(0.0) is None
    acknowledge(line, 2, 3)
    assert offsets_of(next_chunk(line)) == [4, 5]


def test_an_event_that_is_not_acknowledged_is_handed_out_again_and_given_up_in_the_end() -> None:
    line = line_with(
        batch_of(range(3)),
        acknowledgement=Acknowledgement.EXPLICIT,
        acknowledgement_timeout=10.0,
        retry=Retry(attempts=2),
    )
    chunk = next_chunk(line)
    finish(line, chunk, handled(chunk, opened=[1]), now=1.0)
    assert line.next_time == 11.0
    assert not line.on_time(10.9, WALL_MS, 0.0).facts
    (fact,) = line.on_time(11.0, WALL_MS, 0.0).facts
    assert isinstance(fact, AttemptFailed)
    assert fact.failure.kind is FailureKind.UNACKNOWLEDGED
    chunk = next_chunk(line, line.next_time)
    assert (offsets_of(chunk), chunk.attempt) == ([1], 2)
    finish(line, chunk, handled(chunk, opened=[1]), now=12.0)
    effects = line.on_time(22.0, WALL_MS, 0.0)
    assert effects.sending is not None
    assert [letter.offset for letter in effects.sending.dead_letters] == [1]
    line.on_sent(effects.sending.ticket)
    assert line.mark == 3


def test_open_events_of_a_worker_that_ended_are_handed_out_again() -> None:
    line = line_with(batch_of(range(4)), acknowledgement=Acknowledgement.EITHER)
    chunk = next_chunk(line)
    finish(line, chunk, handled(chunk, opened=[0, 2]))
    line.on_settled(Settled(SHARD, 2, False), 0.0)
    chunk = next_chunk(line)
    assert (offsets_of(chunk), chunk.attempt) == ([2], 1)
    finish(line, chunk)
    line.on_settled(Settled(SHARD, 0, False), 0.0)
    assert handle_all(line) == [[0]]
    assert line.mark == 4


def test_what_was_sent_comes_from_records_before_the_mark() -> None:
    line = line_with(batch_of(range(6)))
    chunk = next_chunk(line)
    finish(line, chunk, handled(chunk, OUTPUT, until=2))
    assert (line.mark, line.covers_sent) == (2, True)


def test_a_list_with_a_failed_event_has_emitted_more_than_the_mark_covers() -> None:
    line = line_with(batch_of(range(3)), batch_size=3)
    finish(line, next_chunk(line), failed(0, 3, OUTPUT, reported=[1]))
    assert (line.mark, line.covers_sent) == (1, False)
    again = next_chunk(line, 100.0)
    assert offsets_of(again) == [1]
    finish(line, again)
    assert (line.mark, line.covers_sent) == (3, True)


def test_a_truncated_log_takes_back_what_was_sent_behind_its_end() -> None:
    line = line_with(batch_of(range(6)))
    chunk = next_chunk(line)
    finish(line, chunk, handled(chunk, OUTPUT))
    line.on_log_end(2)
    assert (line.mark, line.covers_sent) == (line.fetch_offset, True)
