"""Sends one request to any SPU: over the network to another one, with a call to the own one.

An SPU may store a shelf of a partition that it leads itself. So the sender need not know whether it asks itself.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import Api
from tailrace.protocol.codec.framing import FrameBuffer
from tailrace.protocol.codec.headers import RequestHeader, decode_response, encode_request
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Connection, receive_some, send_all

RESPONSE_BYTES_MAX = 128 * 1024 * 1024

Dial = Callable[[SpuId], Awaitable[Connection]]
"""Returns a connection on which another SPU serves requests. Raises OSError with the reason."""
RespondLocally = Callable[[Api, int, Any], Awaitable[Any]]
"""Handles a request in the given version on this SPU. The response does not wait for new records."""


class SpuRequests:
    """Sends requests from the SPU `own_id` to all SPUs of the cluster, including itself."""

    def __init__(self, own_id: SpuId, cluster: Cluster, dial: Dial, respond_locally: RespondLocally) -> None:
        self.own_id = own_id
        self._cluster = cluster
        self._dial = dial
        self._respond_locally = respond_locally

    def is_online(self, spu: SpuId) -> bool:
        return spu == self.own_id or is_online(self._cluster, spu)

    def online(self) -> frozenset[SpuId]:
        """All SPUs to which a request can be sent now."""
        return frozenset((self.own_id, *filter(self.is_online, self._cluster.spus)))

    async def send(
        self, spu: SpuId, client_id: str, api: Api, request: Any, seconds: float, version: int | None = None
    ) -> Any:
        """Sends a request and returns the response, whose error codes are not checked.

        Raises OSError, with the reason, if no response arrives within `seconds`, and RemoteProtocolError.
        """
        version = api.max_version if version is None else version
        with trio.move_on_after(seconds):
            if spu == self.own_id:
                return await self._respond_locally(api, version, request)
            if not is_online(self._cluster, spu):
                raise OSError(f"SPU {spu} is offline or not registered")
            return await send_request(await self._dial(spu), client_id, api, request, version)
        raise TimeoutError(f"SPU {spu} did not respond within {seconds:g} s")


def is_online(cluster: Cluster, spu: SpuId) -> bool:
    """Returns whether an SPU serves clients, as far as this one knows."""
    found = cluster.spus.get(spu)
    return found is not None and found.online and bool(found.endpoints)


async def send_request(connection: Connection, client_id: str, api: Api, request: Any, version: int) -> Any:
    """Sends a request on a connection of its own, because such requests are rare, and returns the response."""
    apis: Mapping[int, Api] = {api.key: api}
    try:
        parts: list[Any] = encode_request(RequestHeader(api.key, version, 0, client_id), request, apis)
        await send_all(connection, b"".join(parts))
        _, response = decode_response(api.key, version, await _receive(connection), apis)
        return response
    finally:
        connection.close()


async def _receive(connection: Connection) -> bytes:
    frames = FrameBuffer(RESPONSE_BYTES_MAX)
    buffer = memoryview(bytearray(64 * 1024))
    while (frame := frames.next_frame()) is None:
        count = await receive_some(connection, buffer)
        if count == 0:
            raise ConnectionResetError("the SPU closed the connection before it responded")
        frames.feed(buffer[:count])
    return frame
