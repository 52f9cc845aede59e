"""DescribeServer, over the wire."""

from simulation.client import WireClient
from spus import ADDRESS, running_spu

from tailrace import __version__
from tailrace.broker.spu_counters import KNOWN
from tailrace.protocol.internal.describe_server import DescribeServerRequest, DescribeServerResponse
from tailrace.protocol.internal_apis import InternalApiKey


async def test_an_spu_describes_itself_and_its_machine(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = WireClient(await running.world.network.connect(ADDRESS), apis=KNOWN)
        running.spu.storage_limit.use_size(2000)
        response = await client.request(InternalApiKey.DESCRIBE_SERVER, 0, DescribeServerRequest())
        assert isinstance(response, DescribeServerResponse)
        assert (response.spu_id, response.cluster_id) == (running.spu.id, running.spu.cluster.cluster_id)
        assert response.software_version == __version__
        assert [(each.name, each.host, each.port) for each in response.listeners] == [
            ("PUBLIC", ADDRESS.host, ADDRESS.port)
        ]
        assert response.data_directory == running.spu.data_directory
        assert (response.storage_used, response.storage_max) == (0, 2000)
