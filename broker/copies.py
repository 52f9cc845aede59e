"""Batches as other replicas have them, for a log that has lost one: asked for as any consumer would."""

from collections.abc import Sequence
from typing import Any, Protocol

import trio

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.framing import FrameBuffer
from tailrace.protocol.headers import RequestHeader, decode_response, encode_request
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.runtime.files import Buffer
from tailrace.runtime.network import Address, Connection, Network, receive_some, send_all

from .replicas import Replica

FETCH_VERSION = 13
"""Followers serve it, and topics go by their ids."""
CLIENT_ID = "tailrace-scrub"
ANSWER_SECONDS_MAX = 10.0
RESPONSE_BYTES_MAX = 128 * 1024 * 1024
NOTHING = b""


class Copies(Protocol):
    def holders(self, replica: Replica) -> Sequence[SpuId]:
        """The live replicas elsewhere, the leader first."""

    async def fetch(self, spu: SpuId, replica: Replica, offset: int) -> Buffer:
        """The batch there that holds the offset, and perhaps more after it; empty when it cannot be had."""


class FetchedCopies:
    def __init__(self, here: SpuId, cluster: Cluster, network: Network) -> None:
        self._here = here
        self._cluster = cluster
        self._network = network

    def holders(self, replica: Replica) -> Sequence[SpuId]:
        spec = replica.spec
        by_rank = dict.fromkeys((spec.leader, *spec.live_replicas))
        return [spu for spu in by_rank if spu != self._here and self._address_of(spu) is not None]

    async def fetch(self, spu: SpuId, replica: Replica, offset: int) -> Buffer:
        address = self._address_of(spu)
        if address is None:
            return NOTHING
        partition = FetchPartition(partition=replica.partition, fetch_offset=offset, partition_max_bytes=1)
        topic = FetchTopic(topic_id=replica.spec.topic_id, partitions=[partition])
        with trio.move_on_after(ANSWER_SECONDS_MAX):
            try:
                response = await self._ask(address, FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]))
                return _records(response)
            except (OSError, RemoteProtocolError):
                return NOTHING
        return NOTHING

    def _address_of(self, spu: SpuId) -> Address | None:
        found = self._cluster.spus.get(spu)
        if found is None or not found.online or not found.endpoints:
            return None
        return Address(found.endpoints[0].host, found.endpoints[0].port)

    async def _ask(self, address: Address, request: FetchRequest) -> Any:
        """A connection for each: what is asked for here is rare."""
        connection = await self._network.connect(address)
        try:
            header = RequestHeader(ApiKey.FETCH, FETCH_VERSION, 0, CLIENT_ID)
            parts: list[Any] = encode_request(header, request)
            await send_all(connection, b"".join(parts))
            _, response = decode_response(ApiKey.FETCH, FETCH_VERSION, await _receive(connection))
            return response
        finally:
            connection.close()


def _records(response: Any) -> Buffer:
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.error_code == 0 and partition.records:
                records: Buffer = partition.records
                return records
    return NOTHING


async def _receive(connection: Connection) -> bytes:
    frames = FrameBuffer(RESPONSE_BYTES_MAX)
    buffer = memoryview(bytearray(64 * 1024))
    while (frame := frames.next_frame()) is None:
        count = await receive_some(connection, buffer)
        if count == 0:
            raise ConnectionResetError("the connection was closed before the response was there")
        frames.feed(buffer[:count])
    return frame
