"""One question to another SPU, asked as any client would."""

from collections.abc import Mapping
from typing import Any

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import Api
from tailrace.protocol.framing import FrameBuffer
from tailrace.protocol.headers import RequestHeader, decode_response, encode_request
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address, Connection, Network, receive_some, send_all

RESPONSE_BYTES_MAX = 128 * 1024 * 1024


def public_address(cluster: Cluster, spu: SpuId) -> Address | None:
    """Where an SPU that is online takes questions."""
    found = cluster.spus.get(spu)
    if found is None or not found.online or not found.endpoints:
        return None
    return Address(found.endpoints[0].host, found.endpoints[0].port)


async def ask(
    network: Network, address: Address, client_id: str, api: Api, request: Any, version: int | None = None
) -> Any:
    """The response, in which nothing was looked at. A connection for each: what is asked for here is rare. How long to
    wait is the caller's to say. Raises OSError and RemoteProtocolError."""
    version = api.max_version if version is None else version
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
