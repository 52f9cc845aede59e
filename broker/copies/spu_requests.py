"""One question to any SPU: to another over the network, as any client would ask it, and to the one here with a call.

An SPU may lead what it keeps a shelf of, and whoever has a question need not know.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import Api
from tailrace.protocol.codec.framing import FrameBuffer
from tailrace.protocol.codec.headers import RequestHeader, decode_response, encode_request
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address, Connection, Network, receive_some, send_all

RESPONSE_BYTES_MAX = 128 * 1024 * 1024

AnswerHere = Callable[[Api, int, Any], Awaitable[Any]]
"""A request in this version, of which the answer does not wait for anything to come."""


class Spus:
    """All of them, as the one here asks them."""

    def __init__(self, here: SpuId, cluster: Cluster, network: Network, answer_here: AnswerHere) -> None:
        self.here = here
        self._cluster = cluster
        self._network = network
        self._answer_here = answer_here

    def is_there(self, spu: SpuId) -> bool:
        return spu == self.here or public_address(self._cluster, spu) is not None

    def there(self) -> frozenset[SpuId]:
        return frozenset((self.here, *filter(self.is_there, self._cluster.spus)))

    async def ask(
        self, spu: SpuId, client_id: str, api: Api, request: Any, seconds: float, version: int | None = None
    ) -> Any:
        """The response, in which nothing was looked at; waited for so long. Raises OSError, which says why there is
        none, and RemoteProtocolError."""
        version = api.max_version if version is None else version
        with trio.move_on_after(seconds):
            if spu == self.here:
                return await self._answer_here(api, version, request)
            address = public_address(self._cluster, spu)
            if address is None:
                raise OSError("it is not there")
            return await ask(self._network, address, client_id, api, request, version)
        raise TimeoutError(f"it has not answered within {seconds:g} s")


def public_address(cluster: Cluster, spu: SpuId) -> Address | None:
    """Where an SPU that is online takes questions."""
    found = cluster.spus.get(spu)
    if found is None or not found.online or not found.endpoints:
        return None
    return Address(found.endpoints[0].host, found.endpoints[0].port)


async def ask(network: Network, address: Address, client_id: str, api: Api, request: Any, version: int) -> Any:
    """A connection for each: what is asked for here is rare."""
    apis: Mapping[int, Api] = {api.key: api}
    connection = await network.connect(address)
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
            raise ConnectionResetError("the connection was closed before the response was there")
        frames.feed(buffer[:count])
    return frame
