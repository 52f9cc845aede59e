"""DescribeServer, over the wire."""

from running_sc import PUBLIC, running_sc
from simulation.client import WireClient

from tailrace import __version__
from tailrace.controller.public_host import KNOWN
from tailrace.protocol.internal.describe_server import DescribeServerRequest, DescribeServerResponse
from tailrace.protocol.internal_apis import InternalApiKey


async def test_the_sc_describes_itself_and_its_machine(autojump_clock: object) -> None:
    async with running_sc() as running:
        client = WireClient(await running.world.network.connect(PUBLIC), apis=KNOWN)
        response = await client.request(InternalApiKey.DESCRIBE_SERVER, 0, DescribeServerRequest())
        assert isinstance(response, DescribeServerResponse)
        assert (response.spu_id, response.software_version) == (-1, __version__)
        assert response.cluster_id
        assert [(each.name, each.host, each.port) for each in response.listeners] == [
            ("PUBLIC", PUBLIC.host, PUBLIC.port)
        ]
        assert response.now_ms == running.world.clock.now_ms()
