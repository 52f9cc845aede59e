"""The records of a retry topic: the original record, and headers that say where it came from and when it is due.

The headers stand after the original ones, and begin with `__retry.`. Numbers are decimal text, so that every tool shows
them.
"""

from msgspec import Struct

from tailrace.protocol.batches.records import Record
from tailrace.trigger.work import Output, Shard

from .line_effects import RetryAside

TOPIC = "__retry.topic"
PARTITION = "__retry.partition"
OFFSET = "__retry.offset"
TIMESTAMP = "__retry.timestamp"
ATTEMPT = "__retry.attempt"
DUE = "__retry.due"
ERROR = "__retry.error"
_NAMES = (TOPIC, PARTITION, OFFSET, TIMESTAMP, ATTEMPT, DUE, ERROR)
_ERROR_LENGTH_MAX = 500


class RetryRecord(Struct, frozen=True):
    """A record of a retry topic, as it is handled."""

    shard: Shard
    """Where the record was first."""
    record: Record
    """The record as it was produced, with its offset in that shard."""
    attempt: int
    """The number of the next attempt."""
    due_ms: int


def retry_output(aside: RetryAside, retry_topic: str) -> Output:
    """Makes the record for the retry topic, in the partition that has the number of the shard."""
    record, failure = aside.record, aside.failure
    error = failure.text[:_ERROR_LENGTH_MAX]
    values = (
        aside.shard.topic,
        str(aside.shard.number),
        str(aside.offset),
        str(record.timestamp),
        str(aside.attempt),
        str(aside.due_ms),
        error,
    )
    added = tuple((name, value.encode(errors="replace")) for name, value in zip(_NAMES, values, strict=True))
    return Output(retry_topic, record.key, record.value, (*record.headers, *added), partition=aside.shard.number)


def read_retry(record: Record, shard: Shard) -> RetryRecord:
    """Reads a record of a retry topic. A record that a person has written there, without these headers, is due at
    once."""
    headers = record.headers[-len(_NAMES) :]
    if tuple(name for name, _ in headers) == _NAMES:
        try:
            topic, partition, offset, timestamp, attempt, due, _ = ((value or b"").decode() for _, value in headers)
            original = Record(int(offset), int(timestamp), record.key, record.value, record.headers[: -len(_NAMES)])
            return RetryRecord(Shard(topic, int(partition)), original, max(1, int(attempt)), int(due))
        except ValueError:
            pass
    return RetryRecord(shard, record, 1, 0)
