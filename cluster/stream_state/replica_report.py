"""The report of one replica of a trigger: what it does with each of its shards, and how far it is.

Replicas send it to the Streaming Controller (SC) every few seconds. `tailrace trigger describe` and `explain` show it,
and the SC decides from it how many replicas there should be.
"""

from enum import StrEnum

import msgspec
from msgspec import Struct

CURRENT_SECONDS = 10.0
"""A report that is older than this says nothing about what its replica does now."""


class ReportError(Exception):
    """A text is not a report of a replica; the message says what is wrong."""


class ReplicaState(StrEnum):
    """What a replica does as a whole."""

    STARTING = "starting"
    WAITING = "waiting"
    """The replica has no shards, because there are no free ones for it."""
    MEMBER = "member"
    """The replica handles shards."""
    STOPPING = "stopping"
    """The replica takes no further events, and leaves the group when the running ones have ended."""

    @property
    def is_up(self) -> bool:
        """Whether the replica handles shards, or would if there were free ones."""
        return self in UP_STATES


UP_STATES = frozenset({ReplicaState.MEMBER, ReplicaState.WAITING})
"""The states in which a replica handles shards, or would if there were free ones."""


class ShardState(StrEnum):
    """What a replica does with one of its shards."""

    CLAIMING = "claiming"
    """The replica looks for the offset at which to begin."""
    READING = "reading"
    """All records that were read are handled; the replica waits for more."""
    HANDLING = "handling"
    RETRYING = "retrying"
    """The event at `offset` has failed, and is handled again after a pause."""
    STOPPED = "stopped"
    """The event at `offset` has failed for good, and the shard stays there until a person acts."""
    BLOCKED = "blocked"
    """Too many events were handed out and are not acknowledged yet."""
    UNREACHABLE = "unreachable"
    """The shard cannot be read now; `error` says why, for example because the partition has no leader."""
    RELEASING = "releasing"
    """The replica gives the shard to another one."""


class ShardReport(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One shard that a replica handles."""

    shard: int
    state: ShardState = ShardState.READING
    epoch: int = 0
    """The epoch in which the replica has taken the shard."""
    marked: int = -1
    """The offset before which everything is handled, or -1 if it is not known yet."""
    committed: int = -1
    """The committed offset, or -1 if there is none."""
    end: int = -1
    """The end of the committed records of the partition when the replica last read it, or -1."""
    lag: int = 0
    """The number of records that are not handled yet."""
    held_back: int = 0
    """The number of offsets after `end` that wait for the end of an open transaction."""
    lag_seconds: float = 0.0
    """The age of the oldest record that is not handled yet."""
    offset: int = -1
    """The event that is retried, or at which the shard has stopped, or -1."""
    attempt: int = 0
    """The number of attempts to handle that event."""
    error: str = ""
    """Why the event has failed, or why the shard cannot be read."""
    open_events: int = 0
    """With explicit acknowledgement: the number of events that are not acknowledged yet."""
    oldest_open: int = -1
    """The offset of the oldest of these events, or -1."""
    oldest_open_seconds: float = 0.0
    """For how long the oldest of these events has been open."""


class ReplicaReport(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One replica with all its shards."""

    topic: str
    group: str
    replica: str
    """The id of the replica as a member of the group."""
    state: ReplicaState = ReplicaState.STARTING
    reason: str = ""
    """What the replica waits for, in words, for example the session timeout of a member that has not left."""
    revision: int = 0
    """The revision of the deployed trigger that the replica runs, or 0."""
    host: str = ""
    pid: int = 0
    workers: int = 0
    busy_workers: int = 0
    shards: tuple[ShardReport, ...] = ()
    events: int = 0
    """The number of events handled since the replica started."""
    failures: int = 0
    """The number of failed attempts."""
    dead_letters: int = 0
    events_per_second: float = 0.0
    """The rate since the previous report."""


def encode_report(report: ReplicaReport) -> str:
    """Returns the report as JSON."""
    return msgspec.json.encode(report).decode()


def decode_report(text: str) -> ReplicaReport:
    """Reads a report. Fields that a newer version has added are ignored. Raises ReportError."""
    try:
        return msgspec.json.decode(text, type=ReplicaReport)
    except msgspec.DecodeError as error:
        raise ReportError(str(error)) from error
