"""What a shard's line asks of the replica: what to send to topics, and facts to log and to count. Structs only.

The replica sends everything in a `Sending` and then calls `ShardLine.on_sent`. Until then, the mark stays before the
records from which it came. Facts need no response.
"""

from collections.abc import Sequence

from msgspec import Struct

from tailrace.protocol.batches.records import Record
from tailrace.trigger.work import Failure, Output, Shard


class DeadLetter(Struct, frozen=True):
    """A record that was given up, for the dead-letter topic."""

    shard: Shard
    """The shard of the trigger's topic from which the record came first."""
    offset: int
    record: Record | None
    """The record as it was produced; None if it cannot be decoded."""
    batch: bytes
    """The batch that cannot be decoded, or nothing if there is a record."""
    failure: Failure
    attempts: int
    """How often the record was handled."""


class RetryAside(Struct, frozen=True):
    """A failed record that goes to the retry topic, so that its shard goes on."""

    shard: Shard
    """The shard of the trigger's topic from which the record came first."""
    offset: int
    record: Record
    """The record as it was produced."""
    failure: Failure
    attempt: int
    """The number of the next attempt."""
    due_ms: int
    """The wall clock's time in milliseconds at which the next attempt is due."""


class Sending(Struct, frozen=True):
    """Records to send, in order, before the mark may pass the records from which they came."""

    ticket: int
    """What `ShardLine.on_sent` takes when the brokers have acknowledged everything."""
    outputs: tuple[Output, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    asides: tuple[RetryAside, ...] = ()


class Handled(Struct, frozen=True):
    """Events were handled."""

    events: int
    handler_seconds: float


class AttemptFailed(Struct, frozen=True):
    """An event, or a batch of events, failed and is handled again."""

    failure: Failure
    attempt: int
    """The number of the attempt that failed."""
    pause_seconds: float
    """How long the next attempt waits."""
    is_aside: bool = False
    """Whether the event went to the retry topic."""
    is_split: bool = False
    """Whether the batch was cut in halves, which does not count as an attempt."""


class GivenUp(Struct, frozen=True):
    """An event is not handled again: it becomes a dead letter, or is skipped."""

    offset: int
    failure: Failure
    attempts: int
    is_dead_letter: bool
    is_too_old: bool = False
    """Whether the age of the record was the reason, and not the number of attempts."""


class ShardStopped(Struct, frozen=True):
    """The shard stops at an event until a person acts."""

    offset: int
    reason: str
    failure: Failure | None = None


class RecordsDeleted(Struct, frozen=True):
    """The log no longer has records that the line wanted to read: retention deleted them."""

    first: int
    end: int


class LogTruncated(Struct, frozen=True):
    """The log ends before records that the line has read. The line goes on at the new end."""

    end: int
    was_read_until: int


Fact = Handled | AttemptFailed | GivenUp | ShardStopped | RecordsDeleted | LogTruncated


class Effects(Struct, frozen=True):
    """What the replica has to do after an event of the line."""

    sending: Sending | None = None
    facts: Sequence[Fact] = ()


NO_EFFECTS = Effects()
