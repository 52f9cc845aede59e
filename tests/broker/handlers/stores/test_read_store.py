"""ReadStore, over the wire."""

from simulation.client import WireClient
from spus import ADDRESS, running_spu

from tailrace.broker.spu_counters import KNOWN
from tailrace.protocol.internal.read_store import ReadStoreRequest
from tailrace.protocol.internal_apis import InternalApiKey


async def test_a_store_responds_on_the_public_port(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = WireClient(await running.world.network.connect(ADDRESS), apis=KNOWN)
        request = ReadStoreRequest(running.spu.cluster.topics["t"].id, 0, 0, 1000)
        response = await client.request(InternalApiKey.READ_STORE, 0, request)
        assert (response.error_code, response.replicas, response.log_end, response.records) == (0, [1], 0, b"")
