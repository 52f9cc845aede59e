"""One client's responses on their way out: in request order, bounded, zero-copy where that pays.

A response may be ready long before or after its neighbours; it leaves when all earlier ones have left. Records travel
as file ranges: large ones go from the page cache to the socket, small ones are read and share a packet with the rest.
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


class Answer(Protocol):
    """A place in line."""

    @property
    def request_count(self) -> int:
        """Of how many requests, one behind the other, these are the responses."""

    @property
    def parts(self) -> Sequence[Part] | None:
        """None until the responses are known."""


class SentRecords(Struct):
    """How records went from the page cache to clients, over all connections that share this."""

    uncopied_record_bytes: int = 0
    """By sendfile."""
    copied_record_bytes: int = 0
    """Read into this process first: the stretch was small."""


class _Known(NamedTuple):
    """An answer that was known before those in front of it."""

    parts: Sequence[Part]
    request_count: int


class Outbox:
    __slots__ = ("_parts", "_records", "_small", "_urgent", "held_bytes", "requests", "sent_bytes", "unanswered")

    def __init__(self, records: SentRecords | None = None) -> None:
        self._records = records or SentRecords()
        self.unanswered: deque[Answer] = deque()
        """In the order in which they leave."""
        self.requests = 0
        """Whose answers these are."""
        self._small: list[Buffer] = []
        """Neighbours that will be one part."""
        self._parts: deque[Part] = deque()
        self.held_bytes = 0
        """Known and still in this process's memory, wherever in line; file ranges do not count."""
        self.sent_bytes = 0
        self._urgent: deque[Answer] = deque()
        """Those in line that are."""

    @property
    def held_up_by(self) -> Answer | None:
        """The first in line, if an urgent one behind it could leave."""
        if not self._urgent:
            return None
        first = self.unanswered[0]
        is_held_up = any(answer.parts is not None for answer in self._urgent if answer is not first)
        return first if is_held_up else None

    @property
    def has_news(self) -> bool:
        """Whether `collect` would find something whose turn has come."""
        return bool(self._small) or (bool(self.unanswered) and self.unanswered[0].parts is not None)

    def expect(self, answer: Answer, *, is_urgent: bool = False) -> None:
        """Urgent is what the client cannot go on without."""
        self.unanswered.append(answer)
        self.requests += answer.request_count
        if answer.parts is not None:
            self.on_known(answer.parts)
        if is_urgent:
            self._urgent.append(answer)

    def on_known(self, parts: Sequence[Part]) -> None:
        """These are the parts of an answer that was expected; it may have to wait for those before it."""
        for part in parts:
            if type(part) is not FileRange:
                self.held_bytes += len(part)

    def put(self, response: bytes, request_count: int = 1) -> None:
        """A small response that nobody expected, or several: known as soon as they were asked for."""
        self.held_bytes += len(response)
        if self.unanswered:
            self.unanswered.append(_Known((response,), request_count))
            self.requests += request_count
        else:
            self._small.append(response)

    def clear(self) -> None:
        """Nothing more leaves."""
        self.unanswered.clear()
        self.requests = 0
        self._urgent.clear()
        self._small.clear()
        self._parts.clear()

    def collect(self) -> bool:
        """Moves answers whose turn has come to the send queue; says whether anything is there to send."""
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
        """Queues neighbours as one: copying a few hundred bytes is cheaper than carrying one part more."""
        small = self._small
        if small:
            joined = small[0] if len(small) == 1 else b"".join(small)
            small.clear()
            if joined:
                self._parts.append(joined)

    def send(self, connection: Connection) -> bool:
        """Sends until all is gone (True) or the connection is full (False)."""
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
            elif len(parts) == 1 and type(first) is bytes:  # nearly always, with small requests
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
        """Sends neighbours that lie in memory, and small file ranges, with one call; False when nothing was taken."""
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
