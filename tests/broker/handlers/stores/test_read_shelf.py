"""ReadShelf, over the wire."""

from msgspec.structs import replace
from simulation.client import WireClient
from spus import ADDRESS, filled, running_spu

from tailrace.broker.spu_counters import KNOWN
from tailrace.cluster.specs import Endpoint, Shelf, SpuSpec
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.fill_shelf import FillShelfRequest
from tailrace.protocol.internal.read_shelf import ReadShelfRequest, ReadShelfResponse
from tailrace.protocol.internal_apis import InternalApiKey


async def test_a_store_responds_on_the_public_port(autojump_clock: object) -> None:
    async with running_spu() as running:
        running.spu.cluster.put_spu(SpuSpec(SpuId(1), endpoints=(Endpoint("PUBLIC", ADDRESS.host, ADDRESS.port),)))
        spec = replace((await filled(running)).spec, shelves=(Shelf(0, 0, (SpuId(1),)),))
        running.spu.shelf_keeper.copies.apply([spec], (), is_full=False)
        client = WireClient(await running.world.network.connect(ADDRESS), apis=KNOWN)

        async def read(end: int, offset: int = 0, timestamp: int = -1) -> ReadShelfResponse:
            request = ReadShelfRequest(spec.topic_id, 0, 0, end, offset, 1 << 20, timestamp)
            response: ReadShelfResponse = await client.request(InternalApiKey.READ_SHELF, 0, request)
            return response

        assert (await read(4)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await running.spu.shelf_keeper.filling.respond(FillShelfRequest(spec.topic_id, 0, 0, 4, 1))
        found = await read(4, 1)
        assert [header.base_offset for _, header in iterate(found.records)] == [0, 2, 3]
        assert (await read(4, timestamp=-3)).found_offset == 1
