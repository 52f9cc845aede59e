"""Connections to other SPUs that many requests share."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from msgspec.structs import replace
from simulation.network import MemoryConnection, MemoryNetwork
from spus import ADDRESS, public_dial, running_spu

from tailrace.broker.copies.spu_channels import CHECK_SECONDS, IDLE_SECONDS_MAX, REQUESTS_MAX, SpuChannels
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.codec.framing import FrameBuffer
from tailrace.protocol.codec.headers import encode_response, read_request_header
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tailrace.protocol.messages.find_coordinator import FindCoordinatorResponse
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.runtime.chance import RandomChance

METADATA = API_TABLE[ApiKey.METADATA]
THERE, AWAY = SpuId(1), SpuId(3)
SECONDS = 5.0


@asynccontextmanager
async def _channels(network: MemoryNetwork, channels_max: int = 1) -> AsyncIterator[SpuChannels]:
    cluster = Cluster()
    endpoints = (Endpoint("PUBLIC", ADDRESS.host, ADDRESS.port),)
    cluster.put_spu(SpuSpec(THERE, endpoints=endpoints))
    cluster.put_spu(SpuSpec(AWAY, endpoints=endpoints, online=False))
    async with trio.open_nursery() as nursery:
        yield SpuChannels("me", cluster, public_dial(cluster, network), RandomChance(1), nursery, channels_max)
        nursery.cancel_scope.cancel()


async def _send(channels: SpuChannels, api: Api = METADATA, seconds: float = SECONDS) -> tuple[int, Any]:
    return await channels.send(THERE, api, lambda version: MetadataRequest(None), seconds)


class _Scripted:
    """An SPU that knows its API versions, and otherwise responds when it is told."""

    def __init__(self, connection: MemoryConnection, versions: dict[int, tuple[int, int]]) -> None:
        self.connection = connection
        self._versions = versions
        self._frames = FrameBuffer(1_000_000)
        self.requests: list[tuple[int, int, int]] = []

    async def take(self) -> None:
        """Reads one request; responds if it asks for the versions."""
        buffer = memoryview(bytearray(65536))
        while (frame := self._frames.next_frame()) is None:
            await self.connection.wait_readable()
            self._frames.feed(buffer[: self.connection.receive_into(buffer)])
        key, version, correlation_id, _, _ = read_request_header(memoryview(frame))
        if key == ApiKey.API_VERSIONS:
            apis = [ApiVersion(api, *versions) for api, versions in self._versions.items()]
            self._respond(key, version, correlation_id, ApiVersionsResponse(api_keys=apis))
        else:
            self.requests.append((key, version, correlation_id))

    def respond(self) -> None:
        """Responds to the oldest request."""
        key, version, correlation_id = self.requests.pop(0)
        assert key == ApiKey.METADATA
        self._respond(key, version, correlation_id, MetadataResponse(controller_id=correlation_id))

    def respond_to_nothing(self) -> None:
        self._respond(ApiKey.FIND_COORDINATOR, 0, 77, FindCoordinatorResponse())

    def _respond(self, key: int, version: int, correlation_id: int, message: object) -> None:
        parts: list[Any] = encode_response(key, version, correlation_id, message)
        self.connection.send([b"".join(parts)])


@asynccontextmanager
async def _scripted(
    versions: tuple[int, int] = (0, METADATA.max_version),
    channels_max: int = 1,
) -> AsyncIterator[tuple[SpuChannels, Callable[[], Awaitable[_Scripted]]]]:
    """Yields channels, and a function that accepts the next connection from them."""
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)

    async def accept() -> _Scripted:
        scripted = _Scripted(await listener.accept(), {ApiKey.METADATA: versions})
        await scripted.take()
        return scripted

    async with _channels(network, channels_max) as channels:
        yield channels, accept


class _Asked:
    """A request in a task of its own, and what became of it."""

    def __init__(self, nursery: trio.Nursery, channels: SpuChannels, seconds: float = SECONDS) -> None:
        self.outcome: object = None
        nursery.start_soon(self._ask, channels, seconds)

    async def _ask(self, channels: SpuChannels, seconds: float) -> None:
        try:
            _, self.outcome = await _send(channels, seconds=seconds)
        except OSError as error:
            self.outcome = error


async def test_requests_to_an_spu_share_one_connection(autojump_clock: object) -> None:
    async with running_spu() as running, _channels(running.world.network) as channels:
        await running.create("t")
        before = running.spu.metrics.server.accepted_connections
        for _ in range(3):
            version, response = await _send(channels)
            assert version == METADATA.max_version
            assert [topic.name for topic in response.topics] == ["t"]
        assert running.spu.metrics.server.accepted_connections == before + 1


async def test_requests_do_not_wait_for_the_responses_before_them(autojump_clock: object) -> None:
    async with _scripted() as (channels, accept), trio.open_nursery() as nursery:
        first = _Asked(nursery, channels)
        await trio.testing.wait_all_tasks_blocked()
        second = _Asked(nursery, channels)
        scripted = await accept()
        await scripted.take()
        await scripted.take()
        scripted.respond()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(first.outcome, MetadataResponse)
        assert second.outcome is None
        scripted.respond()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(second.outcome, MetadataResponse)
        assert first.outcome.controller_id != second.outcome.controller_id


async def test_busy_connections_get_company_up_to_a_limit(autojump_clock: object) -> None:
    """A slow response does not delay those of other connections."""
    async with _scripted(channels_max=2) as (channels, accept), trio.open_nursery() as nursery:
        slow = _Asked(nursery, channels)
        first = await accept()
        await first.take()
        quick = _Asked(nursery, channels)
        second = await accept()
        await second.take()
        second.respond()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(quick.outcome, MetadataResponse)
        assert slow.outcome is None
        again = _Asked(nursery, channels)  # on the idle connection
        await second.take()
        third = _Asked(nursery, channels)  # behind another request
        await trio.testing.wait_all_tasks_blocked()
        first.respond()
        second.respond()
        for scripted in (first, second):
            with trio.move_on_after(1):
                await scripted.take()
                scripted.respond()
        await trio.testing.wait_all_tasks_blocked()
        assert all(isinstance(each.outcome, MetadataResponse) for each in (slow, again, third))


async def test_the_newest_version_that_both_spus_serve_is_sent(autojump_clock: object) -> None:
    async with _scripted((0, 4)) as (channels, accept), trio.open_nursery() as nursery:
        _Asked(nursery, channels)
        scripted = await accept()
        await scripted.take()
        assert scripted.requests[0][:2] == (ApiKey.METADATA, 4)
        with pytest.raises(OSError, match="SPU 1 does not serve FindCoordinator in a version of this SPU"):
            await _send(channels, API_TABLE[ApiKey.FIND_COORDINATOR])
        scripted.respond()


async def test_requests_in_flight_fail_with_their_connection_and_the_next_one_connects_again(
    autojump_clock: object,
) -> None:
    async with _scripted() as (channels, accept), trio.open_nursery() as nursery:
        lost = [_Asked(nursery, channels) for _ in range(2)]
        scripted = await accept()
        await scripted.take()
        scripted.connection.close()
        await trio.testing.wait_all_tasks_blocked()
        assert all(isinstance(each.outcome, OSError) for each in lost)
        again = _Asked(nursery, channels)
        scripted = await accept()
        await scripted.take()
        scripted.respond()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(again.outcome, MetadataResponse)


async def test_a_silent_spu_is_given_up_and_the_next_request_connects_again(autojump_clock: object) -> None:
    async with _scripted() as (channels, accept), trio.open_nursery() as nursery:
        began = trio.current_time()
        lost = _Asked(nursery, channels)
        scripted = await accept()
        await trio.sleep(SECONDS + 1)
        assert str(lost.outcome) == "SPU 1 did not respond within 5 s, or went offline"
        assert trio.current_time() - began == SECONDS + 1
        again = _Asked(nursery, channels)
        scripted = await accept()
        await scripted.take()
        scripted.respond()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(again.outcome, MetadataResponse)


async def test_a_frozen_spu_is_given_up_when_the_cluster_knows_that_it_is_offline(autojump_clock: object) -> None:
    async with _scripted() as (channels, accept), trio.open_nursery() as nursery:
        lost = _Asked(nursery, channels, 1000.0)
        await accept()
        await trio.sleep(5)
        assert lost.outcome is None
        channels._cluster.put_spu(replace(channels._cluster.spus[THERE], online=False))
        await trio.sleep(2 * CHECK_SECONDS)
        assert isinstance(lost.outcome, TimeoutError)


async def test_a_late_response_to_an_abandoned_request_is_not_given_to_another(autojump_clock: object) -> None:
    async with _scripted() as (channels, accept), trio.open_nursery() as nursery:
        first = _Asked(nursery, channels)
        scripted = await accept()
        await scripted.take()
        abandoned = _Asked(nursery, channels, 1.0)
        await trio.testing.wait_all_tasks_blocked()
        third = _Asked(nursery, channels)
        await trio.sleep(2.0)
        assert isinstance(abandoned.outcome, TimeoutError)
        await scripted.take()
        await scripted.take()
        for _ in range(3):
            scripted.respond()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(first.outcome, MetadataResponse)
        assert isinstance(third.outcome, MetadataResponse)
        assert third.outcome.controller_id == first.outcome.controller_id + 2


async def test_a_response_that_nothing_asked_for_breaks_the_connection(autojump_clock: object) -> None:
    async with _scripted() as (channels, accept), trio.open_nursery() as nursery:
        lost = _Asked(nursery, channels)
        scripted = await accept()
        await scripted.take()
        scripted.respond_to_nothing()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(lost.outcome, OSError)


async def test_the_requests_in_flight_are_bounded(autojump_clock: object) -> None:
    async with _scripted() as (channels, _), trio.open_nursery() as nursery:
        for _ in range(REQUESTS_MAX):
            _Asked(nursery, channels)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(OSError, match="1000 requests wait for SPU 1"):
            await _send(channels)


async def test_an_unreachable_spu_is_tried_again_after_a_pause(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with _channels(network) as channels:
        with pytest.raises(OSError, match=r"SPU 1 did not respond: .*cannot connect"):
            await _send(channels)
        began = trio.current_time()
        with pytest.raises(OSError, match="cannot connect"):
            await _send(channels)
        assert trio.current_time() > began
        for spu in (AWAY, SpuId(77)):
            with pytest.raises(OSError, match=f"SPU {spu} is offline or not registered"):
                await channels.send(spu, METADATA, lambda version: MetadataRequest(None), SECONDS)


async def test_an_idle_connection_closes(autojump_clock: object) -> None:
    async with running_spu() as running, _channels(running.world.network) as channels:
        await _send(channels)
        before = running.spu.metrics.server.open_connections
        await trio.sleep(2 * IDLE_SECONDS_MAX + 1)
        assert running.spu.metrics.server.open_connections == before - 1
        await _send(channels)
        assert running.spu.metrics.server.open_connections == before
