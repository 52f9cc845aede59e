"""A small Kafka client for tests, which writes requests and reads responses over any connection of the network seam."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from tailrace.protocol.apis import API_TABLE, Api
from tailrace.protocol.codec.framing import FrameBuffer
from tailrace.protocol.codec.headers import RequestHeader, decode_response, encode_request
from tailrace.runtime.files import Buffer
from tailrace.runtime.network import Connection

FRAME_BYTES_MAX = 100 * 1024 * 1024


class WireClient:
    def __init__(
        self, connection: Connection, client_id: str | None = "test", apis: Mapping[int, Api] = API_TABLE
    ) -> None:
        self.connection = connection
        self._client_id = client_id
        self._apis = apis
        self._frames = FrameBuffer(FRAME_BYTES_MAX)
        self._buffer = memoryview(bytearray(64 * 1024))
        self._correlation_id = 0
        self._sent: list[tuple[int, int, int]] = []

    def encode(self, api_key: IntEnum, version: int, message: object) -> bytes:
        """Encodes a request, whose response is expected after those of all earlier requests."""
        self._correlation_id += 1
        self._sent.append((api_key, version, self._correlation_id))
        header = RequestHeader(api_key, version, self._correlation_id, self._client_id)
        parts: list[Any] = encode_request(header, message, self._apis)
        return b"".join(parts)

    async def send(self, data: Buffer) -> None:
        rest = memoryview(data)
        while rest:
            sent = self.connection.send([rest])
            rest = rest[sent:]
            if rest:
                await self.connection.wait_writable()

    async def request(self, api_key: IntEnum, version: int, message: object) -> Any:
        await self.send(self.encode(api_key, version, message))
        return await self.response()

    async def response(self) -> Any:
        """Reads the next response, which must belong to the oldest request without one."""
        frame = await self.frame()
        assert frame is not None, "the server closed the connection"
        api_key, version, correlation_id = self._sent.pop(0)
        answered, message = decode_response(api_key, version, frame, self._apis)
        assert answered == correlation_id, "responses must have the order of their requests"
        return message

    async def frame(self) -> bytes | None:
        """Reads the next frame and returns it without its size, or None at the end of the stream."""
        while (frame := self._frames.next_frame()) is None:
            await self.connection.wait_readable()
            count = self.connection.receive_into(self._buffer)
            if count == 0:
                return None
            if count:
                self._frames.feed(self._buffer[:count])
        return frame

    async def at_end(self) -> bool:
        """Whether the server has closed the connection, and nothing is left to read."""
        try:
            return await self.frame() is None
        except ConnectionResetError:
            return True
