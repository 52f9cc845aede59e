"""The record of an event that is retried aside: the failed record, when its next attempt is due, and where it was.

A retry topic has as many partitions as the topic of the trigger, and a record stays in the partition of its number.
"""

from msgspec import Struct

from tailrace.protocol.batches.records import Record
from tailrace.trigger.work import Output, Shard

from .added_headers import split_block, whole_number, with_block
from .dead_letter import Origin

PREFIX = "__retry."
TOPIC = "topic"
PARTITION = "partition"
OFFSET = "offset"
TIMESTAMP = "timestamp"
GROUP = "group"
ATTEMPT = "attempt"
DUE = "due"
_NAMES = frozenset({TOPIC, PARTITION, OFFSET, TIMESTAMP, GROUP, ATTEMPT, DUE})


class RetriedRecord(Struct, frozen=True):
    """A record of a retry topic as it is read."""

    origin: Origin
    record: Record
    """The failed record with its own offset, timestamp and headers."""
    attempt: int
    """The number of the next attempt."""
    due_ms: int
    """The wall clock's time in milliseconds at which the next attempt is due."""


def retry_record(topic: str, origin: Origin, record: Record, attempt: int, due_ms: int) -> Output:
    """Makes the record for the retry topic."""
    block = {
        TOPIC: origin.shard.topic,
        PARTITION: str(origin.shard.number),
        OFFSET: str(origin.offset),
        TIMESTAMP: str(origin.timestamp_ms),
        GROUP: origin.group,
        ATTEMPT: str(attempt),
        DUE: str(due_ms),
    }
    headers = with_block(record.headers, PREFIX, block)
    return Output(topic, record.key, record.value, headers, origin.shard.number)


def read_retry(record: Record) -> RetriedRecord | None:
    """Reads a record of a retry topic; None if no trigger has written it."""
    headers, block = split_block(record.headers, PREFIX, _NAMES)
    if block.keys() != _NAMES:
        return None
    shard = Shard(block[TOPIC], whole_number(block[PARTITION]))
    offset, timestamp_ms = whole_number(block[OFFSET]), whole_number(block[TIMESTAMP])
    original = Record(offset, timestamp_ms, record.key, record.value, list(headers))
    origin = Origin(shard, offset, timestamp_ms, block[GROUP])
    return RetriedRecord(origin, original, whole_number(block[ATTEMPT], 1), whole_number(block[DUE], 0))
