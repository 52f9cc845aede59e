"""Sends one client's responses in the order of their requests, without copying large ranges of records.

A response may be ready long before or after its neighbours. It is sent when all earlier responses have been sent.
Records are file ranges: large ranges go from the page cache to the socket, and small ranges are copied, so that they
share a packet with the rest of the response.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from tailrace.protocol.codec.primitives import Part
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer
from tailrace.runtime.network import Connection

SENDFILE_BYTES_MIN = 128 * 1024
JOINED_BYTES_MAX = 4 * 1024
_GATHER_BYTES_MAX = 256 * 1024


class PendingResponse(Protocol):
    """The place in line of one response, or of the responses to several consecutive requests."""

    @property
    def request_count(self) -> int:
        """The number of consecutive requests that are answered together."""

    @property
    def parts(self) -> Sequence[Part] | None:
        """The encoded responses; None until they are ready."""


class SentRecords(Struct):
    """Counts how records went from the page cache to clients, over all connections of a server."""

    uncopied_record_bytes: int = 0
    """The bytes of records that were sent with `sendfile`."""
    copied_record_bytes: int = 0
    """The bytes of records that were read into this process first because their range was small."""


class _ReadyResponse(NamedTuple):
    """A response that was ready before the responses in front of it."""

    parts: Sequence[Part]
    request_count: int


class Outbox:
    """The pending responses of one client's connection."""

    __slots__ = ("_parts", "_records", "_small", "_urgent", "held_bytes", "requests", "sent_bytes", "unanswered")

    def __init__(self, records: SentRecords | None = None) -> None:
        self._records = records or SentRecords()
        self.unanswered: deque[PendingResponse] = deque()
        """The responses that have not been collected, in the order in which they are sent."""
        self.requests = 0
        """The number of requests that `unanswered` responds to."""
        self._small: list[Buffer] = []
        """Small neighbouring parts that will be joined into one."""
        self._parts: deque[Part] = deque()
        """The collected parts, which `send` sends next."""
        self.held_bytes = 0
        """The bytes of all ready responses that are in this process's memory; file ranges do not count."""
        self.sent_bytes = 0
        """The number of bytes sent so far."""
        self._urgent: deque[PendingResponse] = deque()
        """The urgent responses among `unanswered`."""

    @property
    def blocking_response(self) -> PendingResponse | None:
        """The first response in line, if it is not ready and an urgent response behind it is."""
        if not self._urgent:
            return None
        first = self.unanswered[0]
        is_held_up = any(answer.parts is not None for answer in self._urgent if answer is not first)
        return first if is_held_up else None

    @property
    def has_ready(self) -> bool:
        """Whether `collect` would find a response whose turn it is."""
        return bool(self._small) or (bool(self.unanswered) and self.unanswered[0].parts is not None)

    def expect(self, answer: PendingResponse, *, is_urgent: bool = False) -> None:
        """Appends a response to the line; it is urgent if the client can do nothing without it."""
        self.unanswered.append(answer)
        self.requests += answer.request_count
        if answer.parts is not None:
            self.on_response_ready(answer.parts)
        if is_urgent:
            self._urgent.append(answer)

    def on_response_ready(self, parts: Sequence[Part]) -> None:
        """Counts the parts of an expected response that has become ready."""
        for part in parts:
            if type(part) is not FileRange:
                self.held_bytes += len(part)

    def put(self, response: bytes, request_count: int = 1) -> None:
        """Appends a small response, or the joined responses to several requests, that is ready at once."""
        self.held_bytes += len(response)
        if self.unanswered:
            self.unanswered.append(_ReadyResponse((response,), request_count))
            self.requests += request_count
        else:
            self._small.append(response)

    def clear(self) -> None:
        """Drops everything that has not been sent."""
        self.unanswered.clear()
        self.requests = 0
        self._urgent.clear()
        self._small.clear()
        self._parts.clear()

    def collect(self) -> bool:
        """Moves the responses whose turn it is to the send queue; returns whether the queue has something to send."""
        line, small = self.unanswered, self._small
        parts = line[0].parts if line else None
        while parts is not None:
            first = line.popleft()
            self.requests -= first.request_count
            if self._urgent and first is self._urgent[0]:
                self._urgent.popleft()
            for part in parts:
                if type(part) is bytes and len(part) <= JOINED_BYTES_MAX:
                    small.append(part)
                elif len(part):
                    self._queue_joined()
                    self._parts.append(part)
            parts = line[0].parts if line else None
        self._queue_joined()
        return bool(self._parts)

    def _queue_joined(self) -> None:
        """Queues small neighbours as one part: to copy a few hundred bytes is cheaper than to send another part."""
        small = self._small
        if small:
            joined = small[0] if len(small) == 1 else b"".join(small)
            small.clear()
            if joined:
                self._parts.append(joined)

    def send(self, connection: Connection) -> bool:
        """Sends until the queue is empty (returns True) or the connection takes no more (returns False)."""
        parts = self._parts
        while parts:
            first = parts[0]
            if type(first) is FileRange and first.count >= SENDFILE_BYTES_MIN:
                sent = connection.send_file(first.file, first.position, first.count)
                if sent == 0:
                    return False
                self.sent_bytes += sent
                self._records.uncopied_record_bytes += sent
                if sent == first.count:
                    parts.popleft()
                else:
                    parts[0] = FileRange(first.file, first.position + sent, first.count - sent)
            elif len(parts) == 1 and type(first) is bytes:  # the usual case with small requests
                sent = connection.send((first,))
                self.sent_bytes += sent
                self.held_bytes -= sent
                if sent == len(first):
                    parts.clear()
                    return True
                if sent == 0:
                    return False
                parts[0] = memoryview(first)[sent:]
            elif not self._send_gathered(connection):
                return False
        return True

    def _send_gathered(self, connection: Connection) -> bool:
        """Sends parts in memory and small file ranges with one call; returns False if the connection took nothing."""
        parts = self._parts
        gathered: list[Buffer] = []
        total = 0
        for index, part in enumerate(parts):
            if type(part) is FileRange:
                if part.count >= SENDFILE_BYTES_MIN:
                    break
                part = part.read()
                parts[index] = part
                self._records.copied_record_bytes += len(part)
                self.held_bytes += len(part)
            assert isinstance(part, Buffer)
            gathered.append(part)
            total += len(part)
            if total >= _GATHER_BYTES_MAX:
                break
        sent = connection.send(gathered, more=len(gathered) < len(parts))
        self.sent_bytes += sent
        self.held_bytes -= sent
        taken = sent
        while taken:
            first = parts.popleft()
            if len(first) > taken:
                assert isinstance(first, Buffer)
                parts.appendleft(memoryview(first)[taken:])
                break
            taken -= len(first)
        return sent > 0
