"""Expectations of the records of a retry topic."""

from shard_workers import SHARD, WALL_MS

from tailrace.protocol.batches.records import Record
from tailrace.trigger.shards.line_effects import RetryAside
from tailrace.trigger.shards.retry_records import RetryRecord, read_retry, retry_output
from tailrace.trigger.work import Failure, FailureKind, Shard

FAILURE = Failure(FailureKind.RAISED, 7, 8, "ValueError", "no \udc80" + "x" * 1000)


def test_a_record_comes_back_from_the_retry_topic_as_it_was() -> None:
    record = Record(7, WALL_MS, b"k", None, [("trace", b"\xff"), ("empty", None)])
    output = retry_output(RetryAside(SHARD, 7, record, FAILURE, 3, WALL_MS + 100), "orders.billing.retry")
    assert (output.topic, output.partition) == ("orders.billing.retry", SHARD.number)
    assert all(len(value or b"") <= 500 for _, value in output.headers)
    stored = Record(99, WALL_MS + 5, output.key, output.value, list(output.headers))
    assert read_retry(stored, Shard(output.topic, 3)) == RetryRecord(SHARD, record, 3, WALL_MS + 100)


def test_a_record_that_a_person_has_written_is_due_at_once() -> None:
    shard = Shard("orders.billing.retry", 3)
    record = Record(99, WALL_MS, b"k", b"v", [("trace", b"1")])
    assert read_retry(record, shard) == RetryRecord(shard, record, 1, 0)
    output = retry_output(RetryAside(SHARD, 7, record, FAILURE, 3, 0), shard.topic)
    broken = [(name, b"soon" if name == "__retry.due" else value) for name, value in output.headers]
    assert read_retry(Record(99, 0, b"k", b"v", broken), shard).shard == shard
