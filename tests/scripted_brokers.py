"""Scripted brokers on the simulated network, for behavior that a real broker shows only briefly.

An example is a broker that is not the coordinator any more.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from msgspec import Struct, field
from simulation.network import MemoryConnection, MemoryNetwork

from tailrace.client.plain_login import LOGIN_APIS
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.codec.compile import decode
from tailrace.protocol.codec.framing import FrameBuffer
from tailrace.protocol.codec.headers import encode_response, read_request_header
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tailrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tailrace.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.runtime.network import Address, Listener, receive_some, send_all

APIS: Mapping[int, Api] = {**API_TABLE, **SPU_OBJECT_APIS, **LOGIN_APIS}

Script = Callable[["ScriptedBroker", Any], Any]
"""Returns a broker's response to a request, or None if it never responds."""


class ScriptedBroker(Struct):
    id: int
    address: Address
    script: Script
    versions: dict[int, tuple[int, int]] = field(
        default_factory=lambda: {key: (api.min_version, api.max_version) for key, api in API_TABLE.items()}
    )
    heard: list[Any] = field(default_factory=list)
    """The requests in order, without those with which every client begins."""
    connections: list[MemoryConnection] = field(default_factory=list)
    listener: Listener | None = None
    is_frozen: bool = False
    """Whether it accepts connections and never responds, like a stopped process."""
    pause_seconds: float = 0.0
    """How long it pauses after each of the first bytes of a response."""

    def stop(self) -> None:
        assert self.listener is not None
        self.listener.close()
        for each in self.connections:
            each.close()

    async def serve(self, connection: MemoryConnection) -> None:
        frames, buffer = FrameBuffer(1 << 20), memoryview(bytearray(1 << 16))
        self.connections.append(connection)
        try:
            while count := await receive_some(connection, buffer):
                frames.feed(buffer[:count])
                while (frame := frames.next_frame()) is not None:
                    await self._answer(connection, frame)
        except (OSError, trio.ClosedResourceError):
            return

    async def _answer(self, connection: MemoryConnection, frame: bytes) -> None:
        key, version, correlation_id, _, position = read_request_header(memoryview(frame), 0, APIS)
        request = decode(APIS[key].request, version, frame, position)
        response: Any = self._versions() if key is ApiKey.API_VERSIONS else self.script(self, request)
        if key is not ApiKey.API_VERSIONS:
            self.heard.append(request)
        if response is None or self.is_frozen:
            await trio.sleep_forever()
        parts: list[Any] = encode_response(key, version, correlation_id, response, APIS)
        data = b"".join(parts)
        if self.pause_seconds and key is not ApiKey.API_VERSIONS:
            for position in range(4):
                await send_all(connection, data[position : position + 1])
                await trio.sleep(self.pause_seconds)
            data = data[4:]
        await send_all(connection, data)

    def _versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(api_keys=[ApiVersion(key, *each) for key, each in self.versions.items()])


class ScriptedBrokers(Struct):
    network: MemoryNetwork
    brokers: dict[int, ScriptedBroker]
    leaders: dict[str, list[int]] = field(default_factory=dict)
    """The leader of each partition, by topic; -1 for none."""
    coordinator: int = 1
    """The coordinator of all groups except those below."""
    coordinators: dict[str, int] = field(default_factory=dict)
    """The coordinators of some groups."""

    @property
    def bootstrap(self) -> list[Address]:
        return [self.brokers[1].address]

    def answer(self, script: Script, broker: ScriptedBroker, request: Any) -> Any:
        match ApiKey(request.API_KEY) if request.API_KEY in set(ApiKey) else None:
            case ApiKey.METADATA:
                return self.metadata([each.name for each in request.topics])
            case ApiKey.FIND_COORDINATOR:
                where = [(each, self.coordinators.get(each, self.coordinator)) for each in request.coordinator_keys]
                asked = [Coordinator(*each) for each in where]
                return FindCoordinatorResponse(coordinators=asked)
        return script(broker, request)

    def metadata(self, topics: list[str]) -> MetadataResponse:
        known = [
            MetadataResponseBroker(each.id, each.address.host, each.address.port) for each in self.brokers.values()
        ]
        found = [
            MetadataResponseTopic(
                name=name,
                partitions=[
                    MetadataResponsePartition(5 if leader < 0 else 0, number, leader)
                    for number, leader in enumerate(self.leaders[name])
                ],
            )
            for name in topics
            if name in self.leaders
        ]
        return MetadataResponse(brokers=known, topics=found)


@asynccontextmanager
async def scripted_brokers(script: Script, *ids: int) -> AsyncIterator[ScriptedBrokers]:
    """Yields brokers that agree about the cluster, and otherwise respond as the script says."""
    network = MemoryNetwork()
    cluster = ScriptedBrokers(network, {})

    async def accept(listener: Listener, broker: ScriptedBroker) -> None:
        while True:
            try:
                connection = await listener.accept()
            except (OSError, trio.ClosedResourceError):
                return
            nursery.start_soon(broker.serve, connection)

    async with trio.open_nursery() as nursery:
        for each in ids or (1,):
            address = Address(f"spu-{each}", 9005)
            broker = ScriptedBroker(each, address, lambda asked, request: cluster.answer(script, asked, request))
            broker.listener = await network.listen(address)
            cluster.brokers[each] = broker
            nursery.start_soon(accept, broker.listener, broker)
        yield cluster
        nursery.cancel_scope.cancel()
