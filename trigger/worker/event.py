"""The event that a handler gets: one record of a stream. Headers and times are decoded when they are asked for."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from msgspec import Struct

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.batches.records import VARLONG_BYTES_MAX, read_headers, read_varint
from tailrace.trigger.work import Shard

TRIGGER_KIND = "kafka-cluster"
"""What Nuclio calls a trigger of a Kafka topic."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONTENT_TYPE = "content-type"
_UNKNOWN_CONTENT = "application/octet-stream"


class TriggerInfo(NamedTuple):
    """What an event tells about the trigger that it comes from, with Nuclio's field names."""

    kind: str
    name: str


class Verdicts(Protocol):
    """What takes a handler's word about an event."""

    def acknowledge(self, event: "Event") -> None:
        """Takes the acknowledgement of an event."""

    def fail(self, event: "Event", reason: str) -> None:
        """Takes the report that an event of a batch has failed."""


class EventSource(Struct, frozen=True, eq=False):
    """What the events of one record batch have in common."""

    shard: Shard
    header: BatchHeader
    body: bytes
    """The records of the batch, decompressed; perhaps with other bytes around them."""
    trigger: TriggerInfo
    verdicts: Verdicts
    retried: int = -1
    """The offset of the event that was tried before, or -1 if there is none."""
    attempt: int = 1
    """The number of this attempt to handle the event at the offset `retried`."""


class Event(Struct, eq=False, dict=True):
    """One record of a stream, as a handler gets it. As on Nuclio's events, a handler may set attributes on it."""

    body: bytes | None
    """The record's value; None if the record is a tombstone."""
    key: bytes | None
    offset: int
    """The record's place in its shard."""
    _source: EventSource
    _at: int
    """Where the record begins in the body of its batch, after its size."""

    @property
    def shard(self) -> Shard:
        """The topic and the number of the shard."""
        return self._source.shard

    @property
    def shard_id(self) -> int:
        """The number of the shard, which is the number of the partition."""
        return self._source.shard.number

    @property
    def topic(self) -> str:
        return self._source.shard.topic

    @property
    def id(self) -> str:
        """An id that is the same each time the record is handled: topic, shard and offset."""
        return f"{self._source.shard}/{self.offset}"

    @property
    def attempt(self) -> int:
        """The number of this attempt to handle the event: 1 for the first."""
        return self._source.attempt if self.offset == self._source.retried else 1

    @property
    def timestamp_ms(self) -> int:
        """The record's time in milliseconds since 1970, or -1 if it has none."""
        header = self._source.header
        if header.is_log_append_time:
            return header.max_timestamp
        delta, _ = read_varint(self._source.body, self._at + 1, VARLONG_BYTES_MAX)
        return header.timestamp_at(delta)

    @property
    def timestamp(self) -> datetime | None:
        """The record's time, in UTC; None if it has none, or one that Python's dates do not reach."""
        milliseconds = self.timestamp_ms
        try:
            return None if milliseconds < 0 else _EPOCH + timedelta(milliseconds=milliseconds)
        except OverflowError:
            return None

    @property
    def header_list(self) -> list[tuple[str, bytes | None]]:
        """All headers in their order. A name may occur more than once."""
        body = self._source.body
        _, position = read_varint(body, self._at + 1, VARLONG_BYTES_MAX)
        _, position = read_varint(body, position)
        for _ in "key", "value":
            size, position = read_varint(body, position)
            position += max(size, 0)
        headers, _ = read_headers(body, position, len(body))
        return headers

    @property
    def headers(self) -> dict[str, bytes | None]:
        """The headers by name; the last one if a name occurs more than once."""
        return dict(self.header_list)

    def get_header(self, name: str) -> bytes | None:
        """Returns the last header of the name, or None. Case does not matter."""
        wanted = name.lower()
        return next((value for each, value in reversed(self.header_list) if each.lower() == wanted), None)

    @property
    def content_type(self) -> str:
        """The header `content-type`."""
        return (self.get_header(_CONTENT_TYPE) or _UNKNOWN_CONTENT.encode()).decode(errors="replace")

    @property
    def path(self) -> str:
        """The topic, as in Nuclio's events of streams."""
        return self.topic

    @property
    def size(self) -> int:
        """The number of bytes of the body."""
        return 0 if self.body is None else len(self.body)

    @property
    def trigger(self) -> TriggerInfo:
        return self._source.trigger

    # What Nuclio's events have and records of a stream do not.

    @property
    def method(self) -> str:
        return ""

    @property
    def url(self) -> str:
        return ""

    @property
    def type(self) -> str:
        return ""

    @property
    def type_version(self) -> str:
        return ""

    @property
    def version(self) -> str:
        return ""

    @property
    def fields(self) -> dict[str, object]:
        return {}

    def acknowledge(self) -> None:
        """Acknowledges the event, for triggers with explicit acknowledgement. Any thread or task may do so, at any time
        after the handler got the event."""
        self._source.verdicts.acknowledge(self)

    def fail(self, reason: str = "") -> None:
        """Reports that this event of a batch has failed. The other events of the batch count as handled."""
        self._source.verdicts.fail(self, reason)

    def __repr__(self) -> str:
        return f"<Event {self.id}>"
