"""One question to another SPU."""

import pytest
import trio
from simulation.network import MemoryNetwork
from spus import ADDRESS, running_spu

from tailrace.broker.spu_question import ask, public_address
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.network import Address

METADATA = API_TABLE[ApiKey.METADATA]


async def test_the_answer_comes_from_there(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        for version in (None, 5):
            response = await ask(running.world.network, ADDRESS, "me", METADATA, MetadataRequest(None), version)
            assert [topic.name for topic in response.topics] == ["t"]


async def test_who_closes_without_an_answer_has_not_answered(autojump_clock: object) -> None:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)
    async with trio.open_nursery() as nursery:

        async def close_at_once() -> None:
            (await listener.accept()).close()

        nursery.start_soon(close_at_once)
        with pytest.raises(OSError):
            await ask(network, ADDRESS, "me", METADATA, MetadataRequest(None))


async def test_nobody_is_there(autojump_clock: object) -> None:
    with pytest.raises(OSError):
        await ask(MemoryNetwork(), ADDRESS, "me", METADATA, MetadataRequest(None))


def test_only_spus_that_are_online_have_an_address() -> None:
    cluster = Cluster()
    endpoints = (Endpoint("PUBLIC", "spu-1", 9005), Endpoint("PUBLIC_1", "outside", 9092))
    cluster.put_spu(SpuSpec(SpuId(1), endpoints=endpoints))
    cluster.put_spu(SpuSpec(SpuId(2), endpoints=endpoints, online=False))
    cluster.put_spu(SpuSpec(SpuId(3)))
    assert public_address(cluster, SpuId(1)) == Address("spu-1", 9005)
    assert [public_address(cluster, SpuId(spu)) for spu in (2, 3, 4)] == [None, None, None]
