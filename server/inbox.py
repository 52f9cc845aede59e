"""Cuts what a client sends into requests, without copying those that arrive whole.

All connections receive into one shared buffer. Requests that arrived whole are read where they lie; what is left of a
turn moves into a buffer of the connection's own, which grows with what really arrives and never past the request.
"""

import struct

from tailrace.protocol.error_codes import RemoteProtocolError

SHARED_BYTES = 256 * 1024
_FIRST_GROWTH_BYTES = 64 * 1024
_SIZE = struct.Struct(">i")
_PREFIX_BYTES = 4


class Inbox:
    __slots__ = ("_data", "_end", "_owned", "_position", "_request_bytes_max", "_shared")

    def __init__(self, shared: memoryview, request_bytes_max: int) -> None:
        self._shared = shared
        self._request_bytes_max = request_bytes_max
        # Unread bytes lie in _data from _position to _end; _owned says whether _data is this connection's own.
        self._data = shared
        self._owned = False
        self._position = 0
        self._end = 0

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
        return self._shared

    def room(self) -> memoryview:
        """Where the next bytes go. Call it only when no request is left to take."""
        if not self._owned:
            self._position = self._end = 0
            return self._shared
        assert self._position == 0, "end_turn moves what is left to the front"
        wanted = self.incomplete_bytes
        capacity = len(self._data)
        if capacity <= self._end < wanted:
            grown = bytearray(min(wanted, max(2 * capacity, _FIRST_GROWTH_BYTES)))
            grown[: self._end] = self._data[: self._end]
            self._data = memoryview(grown)
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

    def end_turn(self) -> None:
        """Saves what was not taken from the shared buffer, which belongs to the next connection from now on."""
        held = self._end - self._position
        if held == 0:
            self._data = self._shared
            self._owned = False
            self._end = 0
        elif self._position or not self._owned:
            self._data = memoryview(bytearray(self._data[self._position : self._end]))
            self._owned = True
            self._end = held
        self._position = 0

    def _frame_bytes(self) -> int:
        size: int = _SIZE.unpack_from(self._data, self._position)[0]
        if not 0 <= size <= self._request_bytes_max:
            raise self._impossible(size)
        return size + _PREFIX_BYTES

    def _impossible(self, size: int) -> RemoteProtocolError:
        return RemoteProtocolError(f"a request of {size} bytes; at most {self._request_bytes_max} are allowed")
