"""What a replica and its workers tell each other: chunks of records to handle, and what became of them. Pure."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

AS_LONG_AS_IT_TAKES = float("inf")


class Shard(NamedTuple):
    """A partition of a topic, which the trigger handles in the order of its records."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class Chunk(Struct, frozen=True, array_like=True):
    """Records of one shard that one worker handles, one after the other."""

    shard: Shard
    batches: Sequence[bytes]
    """Whole record batches as the broker stores them, in the order of their offsets."""
    first: int
    """The offset of the first record to handle. Earlier records of the batches are skipped."""
    end: int
    """The offset after the last record to handle."""
    attempt: int = 1
    """The number of this attempt to handle the first event. All other events are handled for the first time."""
    offsets: tuple[int, ...] | None = None
    """The offsets to handle, in order, if not all between `first` and `end`."""
    batch_size: int = 0
    """How many records the handler gets at once, or 0 if it gets single events."""
    seconds_max: float = AS_LONG_AS_IT_TAKES
    """After this time the worker takes no further event of the chunk, and reports what it has done."""


class Output(Struct, frozen=True, array_like=True):
    """A record that a handler has emitted."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    """The partition; None chooses it by the key, as Kafka's clients do."""
    timestamp_ms: int | None = None


class FailureKind(StrEnum):
    RAISED = "raised"
    """The handler raised an exception."""
    TIMED_OUT = "timed-out"
    """The handler took longer than its deadline, and its worker was killed."""
    WORKER_ENDED = "worker-ended"
    """The worker ended while it handled the event: by a signal, by `os._exit`, or because memory ran out."""
    UNREADABLE = "unreadable"
    """The record cannot be decoded, so the handler never saw it."""
    UNACKNOWLEDGED = "unacknowledged"
    """The function did not acknowledge the event in time, although its handler returned."""


class Failure(Struct, frozen=True):
    """Why an event, or a batch of events, was not handled."""

    kind: FailureKind
    offset: int
    """The offset of the event, or of the first event of the batch."""
    end: int
    """The offset after the event, or after the last event of the batch."""
    error: str
    """The name of the exception's class, or a short name of what has happened, such as `SIGSEGV`."""
    message: str = ""
    traceback: str = ""
    position: str = ""
    """Where in the user's source the exception was raised, for example `billing.py:14 in bill`."""
    failed_offsets: tuple[int, ...] = ()
    """The events of the batch that the handler itself reported as failed; empty if the whole batch failed."""

    @property
    def text(self) -> str:
        """The error and its message, for people."""
        return f"{self.error}: {self.message}".rstrip(": ")


class Outcome(Struct, frozen=True):
    """What became of a chunk."""

    next_offset: int
    """All records of the chunk before this offset were handled. The end of the chunk if all were. Without a failure,
    the rest was not handled because `seconds_max` had passed, the lease was over, or the worker ended before it."""
    events: int = 0
    """How many events were handled."""
    outputs: tuple[Output, ...] = ()
    """What the handled events emitted, in order. A failed event emits nothing. A batch still emits if only some of its
    events failed."""
    failure: Failure | None = None
    """The event at `next_offset` or later that failed. The worker takes no event after it. Events between `next_offset`
    and the failed one were handled, but they were open, or what they emitted was lost with the worker, so they must be
    handled again."""
    handler_seconds: float = 0.0
    """How long the handler ran, in all."""
    opened: tuple[int, ...] = ()
    """With explicit acknowledgement: the events whose handler has returned without an acknowledgement. Each becomes a
    `Settled` later."""


class Settled(Struct, frozen=True):
    """What became of an event that was open when its chunk ended."""

    shard: Shard
    offset: int
    is_acknowledged: bool
    """Whether the event was acknowledged. If not, its worker has ended, so that the event must be handled again."""
    outputs: tuple[Output, ...] = ()
    """What the event emitted. With explicit acknowledgement, outputs leave the worker with the acknowledgement."""
