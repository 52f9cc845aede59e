"""One question to any SPU."""

from typing import Any

import pytest
import trio
from simulation.network import MemoryNetwork
from spus import ADDRESS, running_spu, spus_from

from tailrace.broker.copies.spu_requests import Spus, public_address
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.network import Address, Network

METADATA = API_TABLE[ApiKey.METADATA]
SECONDS = 5.0


HERE, THERE, AWAY = map(SpuId, (9, 1, 3))


def _spus(network: Network) -> Spus:
    cluster = Cluster()
    endpoints = (Endpoint("PUBLIC", ADDRESS.host, ADDRESS.port),)
    cluster.put_spu(SpuSpec(THERE, endpoints=endpoints))
    cluster.put_spu(SpuSpec(AWAY, endpoints=endpoints, online=False))
    return spus_from(HERE, cluster, network)


async def _ask(spus: Spus, spu: SpuId = THERE, version: int | None = None) -> Any:
    return await spus.ask(spu, "me", METADATA, MetadataRequest(None), SECONDS, version)


async def test_the_answer_comes_from_there(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        for version in (None, 5):
            response = await _ask(_spus(running.world.network), version=version)
            assert [topic.name for topic in response.topics] == ["t"]


async def test_the_one_here_answers_itself(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        asked: list[int] = []

        async def answer(api: Api, version: int, request: Any) -> Any:
            asked.append(version)
            return await running.spu.answer(api, version, request)

        spus = spus_from(HERE, Cluster(), MemoryNetwork(), answer)
        for version in (None, 5):
            response = await _ask(spus, HERE, version)
            assert [topic.name for topic in response.topics] == ["t"]
        assert asked == [METADATA.max_version, 5]


async def test_who_says_nothing_is_not_waited_for_any_longer(autojump_clock: object) -> None:
    network = MemoryNetwork()
    await network.listen(ADDRESS)
    for spu, spus in ((THERE, _spus(network)), (HERE, spus_from(HERE, Cluster(), network, _sleep))):
        begun = trio.current_time()
        with pytest.raises(OSError, match="it has not answered within 5 s"):
            await _ask(spus, spu)
        assert trio.current_time() - begun == SECONDS


async def _sleep(*_: object) -> None:
    await trio.sleep_forever()


async def test_who_closes_without_an_answer_has_not_answered(autojump_clock: object) -> None:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)
    async with trio.open_nursery() as nursery:

        async def close_at_once() -> None:
            (await listener.accept()).close()

        nursery.start_soon(close_at_once)
        with pytest.raises(OSError):
            await _ask(_spus(network))


async def test_nobody_is_there(autojump_clock: object) -> None:
    spus = _spus(MemoryNetwork())
    with pytest.raises(OSError):
        await _ask(spus)
    for spu in (AWAY, SpuId(77)):
        with pytest.raises(OSError, match="it is not there"):
            await _ask(spus, spu)


def test_those_are_there_that_take_questions_and_the_one_here() -> None:
    spus = _spus(MemoryNetwork())
    assert spus.there() == {HERE, THERE}
    assert [spus.is_there(spu) for spu in (HERE, THERE, AWAY, SpuId(77))] == [True, True, False, False]


def test_only_spus_that_are_online_have_an_address() -> None:
    cluster = Cluster()
    endpoints = (Endpoint("PUBLIC", "spu-1", 9005), Endpoint("PUBLIC_1", "outside", 9092))
    cluster.put_spu(SpuSpec(SpuId(1), endpoints=endpoints))
    cluster.put_spu(SpuSpec(SpuId(2), endpoints=endpoints, online=False))
    cluster.put_spu(SpuSpec(SpuId(3)))
    assert public_address(cluster, SpuId(1)) == Address("spu-1", 9005)
    assert [public_address(cluster, SpuId(spu)) for spu in (2, 3, 4)] == [None, None, None]
