"""Splits the bytes from a client into requests, without copying requests that arrive complete.

All connections receive into one shared buffer, and complete requests are read in place. An incomplete request at the
end of a turn moves to a buffer of its connection. The memory of that buffer grows with the bytes that really arrive,
not with the announced size, and never beyond the request.

A request that is larger than a spare buffer gets addresses for all of it as soon as some of it has arrived. The system
adds memory to them page by page, when something is written there. Thus nothing copies a large request while it grows,
which would take as long as hundreds of small requests.
"""

import struct
from typing import Protocol

from tailrace.protocol.codec.untouched_memory import untouched
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.foreign_protocols import refused_size

SHARED_BYTES = 256 * 1024
SPARE_BYTES = 2 * 1024 * 1024
SPARE_FROM_BYTES = 64 * 1024
ROOM_BYTES_MAX = 1024 * 1024
"""How much of a large request is received in one go. The system may have more, and all other clients would wait."""
SPARES_MAX = 4
"""How many large spare buffers there are. If all are lent, a connection's own buffer grows with what arrives."""
_FIRST_GROWTH_BYTES = 64 * 1024
_SIZE = struct.Struct(">i")
_PREFIX_BYTES = 4


class ArrivedRequests(Protocol):
    """The requests that have arrived behind the one that is being handled."""

    def next_request(self) -> memoryview | None:
        """Takes the next request; None if it is not complete yet.

        Raises RemoteProtocolError, at each call, if the request can never become complete.
        """

    def put_back(self, request: memoryview) -> None:
        """Returns the request that was taken last, so that it is the next one again."""


class ReceiveBuffers:
    """The buffers into which all connections of a server receive.

    Beside the shared buffer there are a few large spare ones, which are lent to connections that are receiving a large
    request. Reuse pays: to touch new memory costs several times as much as to copy the request into it.
    """

    def __init__(
        self,
        shared_bytes: int = SHARED_BYTES,
        *,
        spare_bytes: int = SPARE_BYTES,
        spare_from_bytes: int = SPARE_FROM_BYTES,
    ) -> None:
        self.shared = memoryview(bytearray(shared_bytes))
        self.spare_from_bytes = spare_from_bytes
        """How much of a request must have arrived before a spare buffer is lent; an announced size is not enough."""
        self._spare_bytes = spare_bytes
        self._spares: list[memoryview] = []
        self._lent: set[int] = set()
        """The ids of the spare buffers that are lent."""

    def take_spare(self, arrived: int, wanted: int) -> memoryview | None:
        """Lends a spare buffer for a request of `wanted` bytes, if `arrived` bytes are enough.

        Returns None if too little has arrived yet, if the request is larger than a spare buffer, or if all are lent.
        """
        if arrived < self.spare_from_bytes or wanted > self._spare_bytes or len(self._lent) == SPARES_MAX:
            return None
        spare = self._spares.pop() if self._spares else memoryview(bytearray(self._spare_bytes))
        self._lent.add(id(spare))
        return spare

    def needs_own_memory(self, arrived: int, wanted: int) -> bool:
        """Whether a request of `wanted` bytes gets addresses for all of it, because `arrived` bytes are enough."""
        return wanted > self._spare_bytes and arrived >= self.spare_from_bytes

    def is_lent(self, buffer: memoryview) -> bool:
        """Whether this is a spare buffer that is lent."""
        return id(buffer) in self._lent

    def give_back(self, buffer: memoryview) -> None:
        """Takes back a spare buffer; any other buffer is dropped."""
        if id(buffer) in self._lent:
            self._lent.remove(id(buffer))
            self._spares.append(buffer)


class Inbox:
    """The received bytes of one client's connection that have not been handled."""

    __slots__ = ("_buffers", "_data", "_end", "_owned", "_position", "_request_bytes_max", "backlog_bytes")

    def __init__(self, buffers: ReceiveBuffers, request_bytes_max: int) -> None:
        self._buffers = buffers
        self._request_bytes_max = request_bytes_max
        # The unread bytes are _data[_position:_end]. _owned says whether _data belongs to this connection alone.
        self._data = buffers.shared
        self._owned = False
        self._position = 0
        self._end = 0
        self.backlog_bytes = 0
        """How many bytes of whole requests, and of what is behind them, the last turn has left."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no unread bytes."""
        return self._position == self._end

    @property
    def held_bytes(self) -> int:
        """The number of unread bytes."""
        return self._end - self._position

    @property
    def has_request(self) -> bool:
        """Whether `next_request` would return a request."""
        held = self._end - self._position
        return held >= _PREFIX_BYTES and held >= self._frame_bytes()

    @property
    def incomplete_bytes(self) -> int:
        """The size, with its prefix, of the request that has begun to arrive; 0 if there are no unread bytes."""
        held = self._end - self._position
        if held == 0:
            return 0
        return self._frame_bytes() if held >= _PREFIX_BYTES else _PREFIX_BYTES

    def limit(self, request_bytes_max: int) -> int:
        """Sets the largest size of requests from now on; returns what it was."""
        before, self._request_bytes_max = self._request_bytes_max, request_bytes_max
        return before

    @property
    def scratch(self) -> memoryview:
        """A buffer for bytes that are discarded."""
        return self._buffers.shared

    def room(self) -> memoryview:
        """Returns the buffer for the next bytes. Call this only if there is no complete request left."""
        if not self._owned:
            self._position = self._end = 0
            return self._buffers.shared
        assert self._position == 0, "end_turn moves an incomplete request to the front"
        wanted = self.incomplete_bytes
        capacity = len(self._data)
        if capacity < wanted and self._buffers.needs_own_memory(self._end, wanted):
            self._move_to(untouched(wanted))
        elif capacity <= self._end < wanted:
            grown = self._buffers.take_spare(self._end, wanted)
            if grown is None:
                grown = memoryview(bytearray(min(wanted, max(2 * capacity, _FIRST_GROWTH_BYTES))))
            self._move_to(grown)
        return self._data[self._end : min(wanted, self._end + ROOM_BYTES_MAX)]

    def received(self, count: int) -> None:
        """Takes note that `count` bytes were written to `room()`."""
        self._end += count

    def next_request(self) -> memoryview | None:
        """Takes the next complete request, without its size prefix; None if there is none.

        The view points into the buffer and is valid until the turn ends.
        """
        begin = self._position + _PREFIX_BYTES
        if begin > self._end:
            return None
        size: int = _SIZE.unpack_from(self._data, self._position)[0]
        if not 0 <= size <= self._request_bytes_max:
            raise self._invalid_size(size)
        stop = begin + size
        if stop > self._end:
            return None
        self._position = stop
        return self._data[begin:stop]

    def put_back(self, request: memoryview) -> None:
        """Returns the request that was taken last, so that it is the next one again."""
        self._position -= _PREFIX_BYTES + len(request)

    def keep(self, request: memoryview) -> memoryview:
        """Returns the bytes of the request that was taken last, in memory that stays valid after the turn.

        A request that has a buffer of its own takes that buffer with it. Any other request is copied, and it is at most
        as large as a spare buffer.
        """
        is_alone = self._position == self._end == _PREFIX_BYTES + len(request)
        if not (self._owned and is_alone) or self._buffers.is_lent(self._data):
            return memoryview(bytes(request))
        self._data, self._owned = self._buffers.shared, False
        self._position = self._end = 0
        return request

    def end_turn(self) -> None:
        """Moves the unread bytes out of the shared buffer, which the next connection will overwrite."""
        held = self._end - self._position
        self.backlog_bytes = held if self._holds_request(held) else 0
        if held == 0:
            if self._owned:
                self._buffers.give_back(self._data)
                self._data = self._buffers.shared
                self._owned = False
            self._end = 0
        elif self.backlog_bytes:
            if self._owned:
                return  # the next turn goes on in place
            self._move_to(memoryview(bytearray(held)))
            self._owned = True
        elif self._position or not self._owned:
            spare = self._buffers.take_spare(held, held)
            self._move_to(memoryview(bytearray(held)) if spare is None else spare)
            self._owned = True
        self._position = 0

    def close(self) -> None:
        """Drops the unread bytes and returns a lent buffer."""
        self._position = self._end
        self.end_turn()

    def _move_to(self, buffer: memoryview) -> None:
        """Copies the unread bytes to the front of `buffer`, which becomes this connection's own."""
        held = self._end - self._position
        buffer[:held] = self._data[self._position : self._end]
        if self._owned:
            self._buffers.give_back(self._data)
        self._data = buffer
        self._position, self._end = 0, held

    def _holds_request(self, held: int) -> bool:
        """Whether the unread bytes begin with a whole request, or with one that `next_request` refuses."""
        if held < _PREFIX_BYTES:
            return False
        size: int = _SIZE.unpack_from(self._data, self._position)[0]
        return size + _PREFIX_BYTES <= held

    def _frame_bytes(self) -> int:
        """The size, with its prefix, of the next request, whose prefix has arrived."""
        size: int = _SIZE.unpack_from(self._data, self._position)[0]
        if not 0 <= size <= self._request_bytes_max:
            raise self._invalid_size(size)
        return size + _PREFIX_BYTES

    def _invalid_size(self, size: int) -> RemoteProtocolError:
        return refused_size(size, "a request", self._request_bytes_max)
