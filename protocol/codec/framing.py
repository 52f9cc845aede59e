"""Splits a stream of bytes into frames: four bytes of size, then that many bytes.

Our own clients and the private protocols use it. The public server has another receive path, which copies nothing.
"""

import struct

from tailrace.protocol.foreign_protocols import refused_size

from .primitives import Buffer

SIZE = struct.Struct(">i")


def checked_size(size: int, frame_bytes_max: int) -> int:
    """Returns the size of a frame if it is allowed, before memory is allocated for the frame. Raises
    RemoteProtocolError."""
    if not 0 <= size <= frame_bytes_max:
        raise refused_size(size, "a frame", frame_bytes_max)
    return size


class FrameBuffer:
    """Holds the received bytes of incomplete frames. It never allocates more than was fed, and refuses large frames."""

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._received = bytearray()
        self._position = 0

    @property
    def held_bytes(self) -> int:
        return len(self._received) - self._position

    def feed(self, data: Buffer) -> None:
        # The frames that were taken are deleted first, so that each byte moves a bounded number of times.
        if self._position:
            del self._received[: self._position]
            self._position = 0
        self._received += data

    def next_frame(self) -> bytes | None:
        """Returns the next complete frame, without its size, or None if it is not complete yet."""
        start = self._position + SIZE.size
        if start > len(self._received):
            return None
        (announced,) = SIZE.unpack_from(self._received, self._position)
        stop = start + checked_size(announced, self.frame_bytes_max)
        if stop > len(self._received):
            return None
        self._position = stop
        return bytes(memoryview(self._received)[start:stop])
