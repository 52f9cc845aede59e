"""The whole frames that are sent over connections to or from one port of the servers, however their bytes are split."""

import struct
from collections.abc import Iterator

from .faulty_network import SimulatedConnection

_SIZE = struct.Struct(">i")


class SentFrames:
    def __init__(self, port: int) -> None:
        self._port = port
        self._unfinished: dict[SimulatedConnection, bytearray] = {}

    def on_sent(self, connection: SimulatedConnection, data: bytes) -> Iterator[bytes]:
        """Yields the frames, without their sizes, that are complete with this data."""
        if self._port not in (connection.local.port, connection.remote.port):
            return
        pending = self._unfinished.setdefault(connection, bytearray())
        pending += data
        position = 0
        while len(pending) - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(pending, position)
            end = position + _SIZE.size + size
            if len(pending) < end:
                break
            yield bytes(pending[position + _SIZE.size : end])
            position = end
        del pending[:position]
