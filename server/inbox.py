"""Cuts what a client sends into requests, without copying those that arrive whole.

All connections receive into one shared buffer. Requests that arrived whole are read where they lie; what is left of a
turn moves into a buffer of the connection's own, which grows with what really arrives and never past the request.
"""

import struct

from tailrace.protocol.error_codes import RemoteProtocolError

SHARED_BYTES = 256 * 1024
SPARE_BYTES = 2 * 1024 * 1024
SPARE_FROM_BYTES = 64 * 1024
_SPARES_MAX = 4
_FIRST_GROWTH_BYTES = 64 * 1024
_SIZE = struct.Struct(">i")
_PREFIX_BYTES = 4


class ReceiveBuffers:
    """What the connections of a server receive into.

    Beside the shared buffer there are a few large ones, each in turn for a connection on which a large request is
    arriving: to touch memory for the first time costs several times what it costs to copy the request there.
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
        """A connection is given a large one when so much of a request is there: not for an announcement."""
        self._spare_bytes = spare_bytes
        self._spares: list[memoryview] = []

    def take_spare(self, arrived: int, wanted: int) -> memoryview | None:
        """For a request of which so much has arrived; None if that would be too early, or the request too large."""
        if arrived < self.spare_from_bytes or wanted > self._spare_bytes:
            return None
        return self._spares.pop() if self._spares else memoryview(bytearray(self._spare_bytes))

    def give_back(self, buffer: memoryview) -> None:
        """Takes back a spare one; any other is not kept."""
        if len(buffer) == self._spare_bytes and len(self._spares) < _SPARES_MAX:
            self._spares.append(buffer)


class Inbox:
    __slots__ = ("_buffers", "_data", "_end", "_owned", "_position", "_request_bytes_max")

    def __init__(self, buffers: ReceiveBuffers, request_bytes_max: int) -> None:
        self._buffers = buffers
        self._request_bytes_max = request_bytes_max
        # Unread bytes lie in _data from _position to _end; _owned says whether _data is this connection's own.
        self._data = buffers.shared
        self._owned = False
        self._position = 0
        self._end = 0

    @property
    def is_empty(self) -> bool:
        """Nothing is left that was not taken."""
        return self._position == self._end

    @property
    def has_request(self) -> bool:
        """Whether `next_request` would give one."""
        held = self._end - self._position
        return held >= _PREFIX_BYTES and held >= self._frame_bytes()

    @property
    def incomplete_bytes(self) -> int:
        """The size of the request that has begun to arrive; 0 when none has."""
        held = self._end - self._position
        if held == 0:
            return 0
        return self._frame_bytes() if held >= _PREFIX_BYTES else _PREFIX_BYTES

    @property
    def scratch(self) -> memoryview:
        """For bytes that nobody will read."""
        return self._buffers.shared

    def room(self) -> memoryview:
        """Where the next bytes go. Call it only when no request is left to take."""
        if not self._owned:
            self._position = self._end = 0
            return self._buffers.shared
        assert self._position == 0, "end_turn moves what is left to the front"
        wanted = self.incomplete_bytes
        capacity = len(self._data)
        if capacity <= self._end < wanted:
            grown = self._buffers.take_spare(self._end, wanted)
            if grown is None:
                grown = memoryview(bytearray(min(wanted, max(2 * capacity, _FIRST_GROWTH_BYTES))))
            self._move_to(grown)
        return self._data[self._end : wanted]

    def received(self, count: int) -> None:
        self._end += count

    def next_request(self) -> memoryview | None:
        """The next whole request without its size prefix; it lies in the buffer and is good until the turn ends."""
        begin = self._position + _PREFIX_BYTES
        if begin > self._end:
            return None
        size: int = _SIZE.unpack_from(self._data, self._position)[0]
        if not 0 <= size <= self._request_bytes_max:
            raise self._impossible(size)
        stop = begin + size
        if stop > self._end:
            return None
        self._position = stop
        return self._data[begin:stop]

    def put_back(self, request: memoryview) -> None:
        """The one that was taken last is the next one again."""
        self._position -= _PREFIX_BYTES + len(request)

    def end_turn(self) -> None:
        """Saves what was not taken from the shared buffer, which belongs to the next connection from now on."""
        held = self._end - self._position
        if held == 0:
            if self._owned:
                self._buffers.give_back(self._data)
                self._data = self._buffers.shared
                self._owned = False
            self._end = 0
        elif self._position or not self._owned:
            spare = self._buffers.take_spare(held, held)
            self._move_to(memoryview(bytearray(held)) if spare is None else spare)
            self._owned = True
        self._position = 0

    def close(self) -> None:
        """Nothing more is read: what was not taken is given up."""
        self._position = self._end
        self.end_turn()

    def _move_to(self, buffer: memoryview) -> None:
        """What has not been read, to the front of it."""
        held = self._end - self._position
        buffer[:held] = self._data[self._position : self._end]
        if self._owned:
            self._buffers.give_back(self._data)
        self._data = buffer
        self._position, self._end = 0, held

    def _frame_bytes(self) -> int:
        size: int = _SIZE.unpack_from(self._data, self._position)[0]
        if not 0 <= size <= self._request_bytes_max:
            raise self._impossible(size)
        return size + _PREFIX_BYTES

    def _impossible(self, size: int) -> RemoteProtocolError:
        return RemoteProtocolError(f"a request of {size} bytes; at most {self._request_bytes_max} are allowed")
