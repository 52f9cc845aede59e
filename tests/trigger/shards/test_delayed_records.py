"""Expectations of the records of a retry topic: each is handled when it is due, as if it came from its first shard."""

from shard_workers import SHARD, WALL_MS, failed, handle_all, handled, next_chunk, offsets_of

from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.trigger.config.trigger_config import Acknowledgement, OnExhausted, Retry, RetryMode, TriggerConfig
from tailrace.trigger.shards.delayed_records import DELAYED_RECORDS_MAX
from tailrace.trigger.shards.line_effects import RetryAside
from tailrace.trigger.shards.retry_records import retry_output
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Failure, FailureKind, Settled, Shard

RETRIES = Shard("orders.billing.retry", 3)
FAILURE = Failure(FailureKind.RAISED, 0, 1, "ValueError")


def _line(**values: object) -> ShardLine:
    config = TriggerConfig(
        name="t",
        topic="orders",
        group="billing",
        retry=Retry(attempts=3, mode=RetryMode.ASIDE, backoff=(1.0, 60.0)),
        **values,  # type: ignore[arg-type]
    )
    return ShardLine(RETRIES, 0, config)


def _stored(line: ShardLine, *records: tuple[int, float], attempt: int = 2, value: bytes = b"v") -> None:
    """Stores records in the retry topic: offsets of the first shard, and the seconds until they are due."""
    content = []
    for place, (offset, seconds) in enumerate(records):
        record = Record(offset, WALL_MS - 5000, b"k", value, [("h", b"1")])
        aside = RetryAside(SHARD, offset, record, FAILURE, attempt, WALL_MS + round(seconds * 1000))
        output = retry_output(aside, RETRIES.topic)
        content.append(Record(line.fetch_offset + place, WALL_MS, output.key, output.value, list(output.headers)))
    batch = build_batch(content, base_offset=content[0].offset)
    line.take(batch, content[-1].offset + 1, 0.0, WALL_MS)


def test_each_record_is_handled_when_it_is_due() -> None:
    line = _line(max_workers=9)
    _stored(line, (70, 5.0), (20, 1.0), (50, 3.0))
    assert line.next_chunk(0.0) is None
    assert line.next_time == 1.0
    chunk = next_chunk(line, 1.0)
    assert (chunk.shard, offsets_of(chunk), chunk.attempt) == (SHARD, [20], 2)
    (record,) = read_records(chunk.batches[0])
    assert record == Record(20, WALL_MS - 5000, b"k", b"v", [("h", b"1")])
    line.on_outcome(chunk, handled(chunk), 1.0, WALL_MS, 0.0)
    assert line.mark == 0
    assert handle_all(line, now=5.0) == [[50], [70]]
    assert line.mark == 3


def test_a_record_that_fails_again_is_written_again_and_given_up_in_the_end() -> None:
    line = _line()
    _stored(line, (20, 0.0))
    effects = line.on_outcome(next_chunk(line), failed(20), 0.0, WALL_MS, 0.0)
    assert effects.sending is not None
    (aside,) = effects.sending.asides
    assert (aside.shard, aside.offset, aside.attempt, aside.due_ms) == (SHARD, 20, 3, WALL_MS + 2000)
    assert aside.record.headers == [("h", b"1")]
    assert line.mark == 0
    line.on_sent(effects.sending.ticket)
    assert line.mark == 1
    _stored(line, (20, 0.0), attempt=3)
    effects = line.on_outcome(next_chunk(line), failed(20), 0.0, WALL_MS, 0.0)
    assert effects.sending is not None
    (letter,) = effects.sending.dead_letters
    assert (letter.shard, letter.offset, letter.attempts, letter.record) == (SHARD, 20, 3, aside.record)


def test_a_record_that_was_written_twice_is_handled_once() -> None:
    line = _line()
    _stored(line, (20, 0.0), (20, 9.0))
    assert handle_all(line) == [[20]]
    assert line.mark == 2


def test_a_record_of_a_topic_that_was_made_anew_is_handled_after_the_old_one() -> None:
    line = _line()
    _stored(line, (20, 0.0))
    _stored(line, (20, 0.0), value=b"new")
    assert handle_all(line) == [[20], [20]]
    assert line.mark == 2


def test_a_clock_that_is_ahead_delays_no_longer_than_the_longest_pause() -> None:
    line = _line()
    _stored(line, (20, 1e6))
    assert line.next_chunk(0.0) is None
    assert line.next_time == 60.0


def test_an_open_event_is_known_by_its_first_offset() -> None:
    line = _line(acknowledgement=Acknowledgement.EXPLICIT)
    _stored(line, (20, 0.0))
    chunk = next_chunk(line)
    line.on_outcome(chunk, handled(chunk, opened=[20]), 0.0, WALL_MS, 0.0)
    assert line.knows(SHARD, 20)
    assert not line.knows(SHARD, 21)
    assert line.open_events(7.0) == [(20, 7.0)]
    assert line.mark == 0
    line.on_settled(Settled(SHARD, 20, is_acknowledged=False), 0.0)
    chunk = next_chunk(line)
    assert (offsets_of(chunk), chunk.attempt) == ([20], 2)
    line.on_outcome(chunk, handled(chunk, opened=[20]), 0.0, WALL_MS, 0.0)
    line.on_settled(Settled(SHARD, 20, is_acknowledged=True), 0.0)
    assert line.mark == 1


def test_a_record_whose_worker_had_no_time_for_it_stays_due() -> None:
    line = _line()
    _stored(line, (20, 0.0))
    chunk = next_chunk(line)
    line.on_outcome(chunk, handled(chunk, until=20), 0.0, WALL_MS, 0.0)
    assert handle_all(line) == [[20]]


def test_a_batch_that_cannot_be_decoded_is_given_up_whole() -> None:
    line = _line()
    broken = bytearray(build_batch([Record(0, WALL_MS, b"k", b"v" * 50)]))
    broken[62:] = b"\xff" * len(broken[62:])
    line.take(broken, 1, 0.0, WALL_MS)
    chunk = next_chunk(line)
    assert (chunk.shard, list(chunk.batches)) == (RETRIES, [bytes(broken)])
    effects = line.on_outcome(chunk, failed(0, 1, kind=FailureKind.UNREADABLE), 0.0, WALL_MS, 0.0)
    assert effects.sending is not None
    assert effects.sending.dead_letters[0].batch == broken


def test_the_records_that_wait_are_bounded() -> None:
    line = _line(max_workers=2000)
    _stored(line, *[(offset, 0.0) for offset in range(DELAYED_RECORDS_MAX + 5)])
    chunks = []
    while (chunk := line.next_chunk(0.0)) is not None:
        chunks.append(chunk)
    assert len(chunks) == DELAYED_RECORDS_MAX
    line.on_outcome(chunks[0], handled(chunks[0]), 0.0, WALL_MS, 0.0)
    assert offsets_of(next_chunk(line)) == [DELAYED_RECORDS_MAX]
    assert line.next_chunk(0.0) is None


def test_a_retry_topic_that_was_truncated_is_read_from_its_end() -> None:
    line = _line(on_exhausted=OnExhausted.SKIP)
    _stored(line, (20, 0.0))
    _stored(line, (21, 0.0))
    first, second = next_chunk(line), next_chunk(line)
    line.on_log_end(1)
    line.on_outcome(second, failed(21), 0.0, WALL_MS, 0.0)
    assert line.mark == 0
    line.on_outcome(first, handled(first), 0.0, WALL_MS, 0.0)
    assert line.mark == 1
