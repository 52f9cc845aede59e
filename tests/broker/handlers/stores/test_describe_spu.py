"""DescribeSpu, over the wire."""

from simulation.client import WireClient
from spus import ADDRESS, running_spu

from tailrace.broker.spu_counters import KNOWN
from tailrace.protocol.internal.describe_spu import DescribeSpuRequest, DescribeSpuResponse
from tailrace.protocol.internal_apis import InternalApiKey


async def test_an_spu_says_which_controllers_it_has(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = WireClient(await running.world.network.connect(ADDRESS), apis=KNOWN)
        directory = running.spu.data_directory
        response = await client.request(InternalApiKey.DESCRIBE_SPU, 0, DescribeSpuRequest())
        assert response == DescribeSpuResponse(directory, leader_controllers=0)
        await running.create("t", partitions=3)
        response = await client.request(InternalApiKey.DESCRIBE_SPU, 0, DescribeSpuRequest())
        assert response == DescribeSpuResponse(directory, leader_controllers=3)
