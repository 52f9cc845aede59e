"""Cuts a stream of bytes into frames: four bytes of size, then that many bytes.

For our own clients and the private protocols. The public server has a receive path of its own, which copies nothing.
"""

import struct

from tailrace.protocol.error_codes import RemoteProtocolError

from .primitives import Buffer

SIZE = struct.Struct(">i")


def checked_size(size: int, frame_bytes_max: int) -> int:
    """The announced size of a frame, before anything is set aside for it."""
    if not 0 <= size <= frame_bytes_max:
        raise RemoteProtocolError(f"a frame of {size} bytes was announced; {frame_bytes_max} are allowed")
    return size


class FrameBuffer:
    """Holds what has arrived of the frames that are not complete: never more than was fed, and refuses large ones."""

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._received = bytearray()
        self._position = 0

    @property
    def held_bytes(self) -> int:
        return len(self._received) - self._position

    def feed(self, data: Buffer) -> None:
        # What was taken goes before anything is added: each byte moves a bounded number of times.
        if self._position:
            del self._received[: self._position]
            self._position = 0
        self._received += data

    def next_frame(self) -> bytes | None:
        """The next complete frame, without its size; None until more is fed."""
        start = self._position + SIZE.size
        if start > len(self._received):
            return None
        (announced,) = SIZE.unpack_from(self._received, self._position)
        stop = start + checked_size(announced, self.frame_bytes_max)
        if stop > len(self._received):
            return None
        self._position = stop
        return bytes(memoryview(self._received)[start:stop])
