"""Requests to any SPU."""

from typing import Any

import pytest
import trio
from simulation.network import MemoryNetwork
from spus import ADDRESS, running_spu, spu_requests_from

from tailrace.broker.copies.spu_requests import SpuRequests, is_online
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.network import Network

METADATA = API_TABLE[ApiKey.METADATA]
SECONDS = 5.0


HERE, THERE, AWAY = map(SpuId, (9, 1, 3))


def _requests(network: Network) -> SpuRequests:
    cluster = Cluster()
    endpoints = (Endpoint("PUBLIC", ADDRESS.host, ADDRESS.port),)
    cluster.put_spu(SpuSpec(THERE, endpoints=endpoints))
    cluster.put_spu(SpuSpec(AWAY, endpoints=endpoints, online=False))
    return spu_requests_from(HERE, cluster, network)


async def _send(requests: SpuRequests, spu: SpuId = THERE, version: int | None = None) -> Any:
    return await requests.send(spu, "me", METADATA, MetadataRequest(None), SECONDS, version)


async def test_another_spu_responds_over_the_network(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        for version in (None, 5):
            response = await _send(_requests(running.world.network), version=version)
            assert [topic.name for topic in response.topics] == ["t"]


async def test_the_own_spu_responds_without_the_network(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        asked: list[int] = []

        async def answer(api: Api, version: int, request: Any) -> Any:
            asked.append(version)
            return await running.spu.answer(api, version, request)

        requests = spu_requests_from(HERE, Cluster(), MemoryNetwork(), answer)
        for version in (None, 5):
            response = await _send(requests, HERE, version)
            assert [topic.name for topic in response.topics] == ["t"]
        assert asked == [METADATA.max_version, 5]


async def test_a_silent_spu_times_out(autojump_clock: object) -> None:
    network = MemoryNetwork()
    await network.listen(ADDRESS)
    for spu, requests in ((THERE, _requests(network)), (HERE, spu_requests_from(HERE, Cluster(), network, _sleep))):
        begun = trio.current_time()
        with pytest.raises(OSError, match=f"SPU {spu} did not respond within 5 s"):
            await _send(requests, spu)
        assert trio.current_time() - begun == SECONDS


async def _sleep(*_: object) -> None:
    await trio.sleep_forever()


async def test_a_connection_that_closes_without_a_response_raises_an_error(autojump_clock: object) -> None:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)
    async with trio.open_nursery() as nursery:

        async def close_at_once() -> None:
            (await listener.accept()).close()

        nursery.start_soon(close_at_once)
        with pytest.raises(OSError):
            await _send(_requests(network))


async def test_an_unreachable_spu_raises_an_error(autojump_clock: object) -> None:
    requests = _requests(MemoryNetwork())
    with pytest.raises(OSError):
        await _send(requests)
    for spu in (AWAY, SpuId(77)):
        with pytest.raises(OSError, match=f"SPU {spu} is offline or not registered"):
            await _send(requests, spu)


def test_the_own_spu_and_those_with_an_address_are_online() -> None:
    requests = _requests(MemoryNetwork())
    assert requests.online() == {HERE, THERE}
    assert [requests.is_online(spu) for spu in (HERE, THERE, AWAY, SpuId(77))] == [True, True, False, False]


def test_only_spus_with_listeners_for_clients_are_online() -> None:
    cluster = Cluster()
    endpoints = (Endpoint("PUBLIC", "spu-1", 9005), Endpoint("PUBLIC_1", "outside", 9092))
    cluster.put_spu(SpuSpec(SpuId(1), endpoints=endpoints))
    cluster.put_spu(SpuSpec(SpuId(2), endpoints=endpoints, online=False))
    cluster.put_spu(SpuSpec(SpuId(3)))
    assert [is_online(cluster, SpuId(spu)) for spu in (1, 2, 3, 4)] == [True, False, False, False]
