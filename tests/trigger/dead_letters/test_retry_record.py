from tailrace.protocol.batches.records import Record
from tailrace.trigger.dead_letters.dead_letter import Origin
from tailrace.trigger.dead_letters.retry_record import RetriedRecord, read_retry, retry_record
from tailrace.trigger.work import Shard

ORIGIN = Origin(Shard("orders", 3), 17, 1_700_000_000_123, "billing")
RECORD = Record(17, 1_700_000_000_123, b"key", None, [("h", b"1"), ("__retry.own", b"2")])


def test_what_was_sent_aside_comes_back_as_it_was() -> None:
    output = retry_record("orders.billing.retry", ORIGIN, RECORD, 2, 1_700_000_005_000)
    assert (output.topic, output.partition, output.key, output.value) == ("orders.billing.retry", 3, b"key", None)
    stored = Record(0, 1_700_000_004_000, output.key, output.value, list(output.headers))
    retried = read_retry(stored)
    assert retried is not None
    assert (retried.origin, retried.attempt, retried.due_ms) == (ORIGIN, 2, 1_700_000_005_000)
    assert retried.record == RECORD


def test_the_second_retry_has_no_traces_of_the_first() -> None:
    record = Record(17, 5, b"key", b"value", [("h", b"1")])
    for attempt in (2, 3):
        output = retry_record("orders.billing.retry", ORIGIN, record, attempt, 1000 * attempt)
        retried = read_retry(Record(attempt, 9, output.key, output.value, list(output.headers)))
        assert retried == RetriedRecord(
            ORIGIN, Record(17, ORIGIN.timestamp_ms, b"key", b"value", [("h", b"1")]), attempt, 1000 * attempt
        )
        assert retried is not None
        record = retried.record


def test_a_record_of_somebody_else_is_none() -> None:
    assert read_retry(RECORD) is None
