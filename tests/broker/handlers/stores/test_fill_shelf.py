"""FillShelf, over the wire: there is one SPU, so that it fills a shelf of the partition that it leads from itself."""

import pytest
import trio
from msgspec.structs import replace
from simulation.client import WireClient
from spus import ADDRESS, RunningSpu, World, filled, running_spu

from tailrace.broker.spu_counters import KNOWN
from tailrace.cluster.specs import Endpoint, PartitionSpec, Shelf, SpuSpec
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse, ShelvedSegment
from tailrace.protocol.internal_apis import InternalApiKey

HERE, OTHER = SpuId(1), SpuId(2)


async def _asked(running: RunningSpu, spec: PartitionSpec, end: int = 4) -> FillShelfResponse:
    client = WireClient(await running.world.network.connect(ADDRESS), apis=KNOWN)
    request = FillShelfRequest(spec.topic_id, 0, 0, end, HERE)
    response: FillShelfResponse = await client.request(InternalApiKey.FILL_SHELF, 0, request)
    return response


async def _with_shelf(running: RunningSpu) -> PartitionSpec:
    """Returns the shelf of topic `t`, without an end yet."""
    running.spu.cluster.put_spu(SpuSpec(HERE, endpoints=(Endpoint("PUBLIC", ADDRESS.host, ADDRESS.port),)))
    spec = replace((await filled(running)).spec, shelves=(Shelf(0, 0, (HERE, OTHER)),))
    running.spu.shelf_keeper.copies.apply([spec], (), is_full=False)
    return spec


async def test_a_store_responds_on_the_public_port(autojump_clock: object) -> None:
    async with running_spu() as running:
        spec = await _with_shelf(running)
        log = running.replica("t").log
        time_ms = log.segments()[0].max_timestamp
        response = await _asked(running, spec)
        segment = ShelvedSegment(0, 4, log.size_bytes, time_ms, time_ms)
        assert response == FillShelfResponse(0, "", 4, [replace(segment, first_timestamp=time_ms)])
        running.spu.shelf_keeper.copies.apply((), [(spec.topic_id, 0)], is_full=False)
        assert (await _asked(running, spec)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_shelf_counts_as_stored_bytes_and_is_in_the_metrics(autojump_clock: object) -> None:
    async with running_spu() as running:
        spec = await _with_shelf(running)
        await _asked(running, spec)
        size = running.replica("t").log.size_bytes
        scraped = await running.scraped()
        for name, value in (("storage_used_bytes", 2 * size), ("shelved_bytes", size), ("shelves", 1)):
            assert f"tailrace_{name} {float(value)}" in scraped
        assert f"tailrace_shelf_filled_bytes_total {float(size)}" in scraped
        running.spu.storage_limit.use_size(2 * size)
        response = await _asked(running, spec, end=5)
        assert (response.error_code, response.end) == (ErrorCode.KAFKA_STORAGE_ERROR, 4)


@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_shelf_survives_a_restart_and_disturbs_nothing_else(autojump_clock: object, is_clean: bool) -> None:
    world = World()
    async with trio.open_nursery() as nursery, running_spu(world) as running:
        spec = await _with_shelf(running)
        await _asked(running, spec)
        files = world.files.crash("all")
        if is_clean:
            running.server.stop()
        nursery.cancel_scope.cancel()
    after = replace(world, files=world.files if is_clean else files)
    async with running_spu(after) as running:
        assert running.replica("t").offline_reason is None
        running.spu.shelf_keeper.copies.apply([spec], (), is_full=False)
        assert running.spu.shelf_keeper.copies.size_bytes == running.replica("t").log.size_bytes
        assert (await _asked(running, spec)).end == 4
        assert running.spu.metrics.shelf_filled_bytes == 0


async def test_a_shelf_is_scrubbed_like_a_replica(autojump_clock: object) -> None:
    async with running_spu() as running:
        spec = await _with_shelf(running)
        await _asked(running, spec)
        before = running.spu.metrics.scrubbed_bytes
        await running.spu.scrubbing.scrub_all()
        assert running.spu.metrics.scrubbed_bytes - before == 2 * running.replica("t").log.size_bytes


async def test_a_shelf_is_deleted_when_its_topic_cannot_come_back(autojump_clock: object) -> None:
    async with running_spu(broker={"deleted.topic.retention.ms": "60000"}) as running:
        spec = await _with_shelf(running)
        await _asked(running, spec)
        running.spu.shelf_keeper.copies.apply((), (), is_full=True)
        await trio.sleep(1000)
        assert running.world.files.list(f"{running.spu.data_directory}/shelves") == []
        assert running.replica("t").log.log_end == 4
