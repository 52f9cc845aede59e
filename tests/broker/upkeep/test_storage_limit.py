"""The storage limit: what producers are told when it is reached, what makes room, and who is informed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
import trio
from msgspec import Struct
from scripted_sc import HEARTBEAT_MS, SC_ADDRESS, ScriptedSc, scripted_sc, topic_state
from simulation.client import WireClient
from simulation.files import SimulatedFiles
from spus import ADDRESS, World, batch
from structlog.testing import capture_logs

from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.spu import Spu
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.broker.spu_server import SpuServer
from tailrace.broker.upkeep.storage_limit import MEASURED_EVERY_SECONDS, StorageLimit
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.apply_specs import ApplySpecsRequest, RemovedPartition
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest, RenewLeaseResponse
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.runtime.settings import ListenerSettings, SpuSettings
from tailrace.storage.directory.layout import log_bytes

TOPIC = TopicId(int=7)
SETTINGS = SpuSettings(1, "/data/spu-1", (ListenerSettings("PUBLIC", ADDRESS),), controllers=(SC_ADDRESS,))
RECORD = batch(b"a")
ROOM_FOR_TWO = len(RECORD) + 1
"""An SPU that is not full yet accepts one more batch of any size."""


class _Running(Struct):
    sc: ScriptedSc
    spu: Spu
    client: WireClient

    async def use_size(self, size_bytes: int | None) -> None:
        await self.sc.ask(ApplySpecsRequest(size_bytes=-1 if size_bytes is None else size_bytes))

    async def produce(self, records: bytes = RECORD) -> PartitionProduceResponse:
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, records)])]
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data)
        response = await self.client.request(ApiKey.PRODUCE, 9, request)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    async def fill(self) -> None:
        await self.use_size(ROOM_FOR_TWO)
        for _ in range(2):
            assert (await self.produce()).error_code == ErrorCode.NONE
        assert (await self.produce()).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    async def can_produce(self) -> bool:
        return (await self.produce()).error_code == ErrorCode.NONE


@asynccontextmanager
async def _running() -> AsyncIterator[_Running]:
    """An SPU that leads a topic with one partition."""
    world = World()
    server = SpuServer(SETTINGS, world.seams(), structlog.get_logger())
    async with scripted_sc(world.network) as sc, trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        await sc.introduce(1, topic_state(TOPIC, "t"))
        await trio.testing.wait_all_tasks_blocked()
        assert server.spu is not None
        yield _Running(sc, server.spu, WireClient(await world.network.connect(ADDRESS)))
        server.stop()


async def test_a_full_spu_refuses_batches_and_says_why(autojump_clock: object) -> None:
    async with _running() as running:
        await running.use_size(ROOM_FOR_TWO)
        assert await running.can_produce()
        assert await running.can_produce()
        refused = await running.produce()
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        used = 2 * len(RECORD)
        assert refused.error_message == (
            f"the storage of this SPU is full: its logs hold {used} of {ROOM_FOR_TWO} bytes"
        )
        assert running.spu.replicas.leading("t", 0).log.log_end == 2
        assert running.spu.metrics.produce_errors == 1


async def test_without_a_limit_nothing_is_refused(autojump_clock: object) -> None:
    async with _running() as running:
        await running.fill()
        await running.use_size(None)
        assert await running.can_produce()


async def test_a_full_spu_still_serves_consumers(autojump_clock: object) -> None:
    async with _running() as running:
        await running.fill()
        wanted = FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=2**20)])
        response = await running.client.request(ApiKey.FETCH, 12, FetchRequest(topics=[wanted]))
        (data,) = response.responses[0].partitions
        assert data.error_code == ErrorCode.NONE
        assert len(data.records) == 2 * len(RECORD)


async def test_a_repeated_batch_is_acknowledged_by_a_full_spu(autojump_clock: object) -> None:
    """The producer may have missed the first acknowledgement."""
    async with _running() as running:
        mine = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
        await running.use_size(len(mine))
        first = await running.produce(mine)
        assert not await running.can_produce()
        again = await running.produce(mine)
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, first.base_offset)


async def test_deleting_records_makes_room_at_once(autojump_clock: object) -> None:
    async with _running() as running:
        await running.fill()
        topic = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])
        await running.client.request(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest([topic], 1000))
        assert await running.can_produce()


async def test_deleting_a_topic_makes_room_at_once(autojump_clock: object) -> None:
    async with _running() as running:
        await running.fill()
        await running.sc.ask(ApplySpecsRequest(size_bytes=ROOM_FOR_TWO, removed=[RemovedPartition(TOPIC, 0)]))
        assert not running.spu.storage_limit.is_full
        await running.sc.introduce(1, topic_state(TopicId(int=8), "t"))
        assert await running.can_produce()


async def test_a_larger_size_makes_room_at_once(autojump_clock: object) -> None:
    async with _running() as running:
        await running.fill()
        await running.use_size(3 * len(RECORD))
        assert await running.can_produce()
        assert not await running.can_produce()


async def test_room_that_retention_makes_is_found_soon(autojump_clock: object) -> None:
    async with _running() as running:
        await running.fill()
        await running.spu.replicas.leading("t", 0).log.advance_log_start(2)
        assert not await running.can_produce()
        await trio.sleep(MEASURED_EVERY_SECONDS)
        assert await running.can_produce()


async def test_room_made_before_the_limit_is_reached_is_found_then(autojump_clock: object) -> None:
    async with _running() as running:
        await running.use_size(ROOM_FOR_TWO)
        await running.produce()
        await running.spu.replicas.leading("t", 0).log.advance_log_start(1)
        assert [await running.can_produce() for _ in range(3)] == [True, True, False]


async def test_each_change_is_logged_once(autojump_clock: object) -> None:
    with capture_logs() as logs:
        async with _running() as running:
            await running.fill()
            await running.produce()
            await trio.sleep(3 * MEASURED_EVERY_SECONDS)
            await running.use_size(None)
            await trio.sleep(3 * MEASURED_EVERY_SECONDS)
    said = [entry for entry in logs if entry["event"].startswith("storage_limit")]
    used = 2 * len(RECORD)
    assert [(each["event"], each["log_level"], each["used_bytes"], each["size_bytes"]) for each in said] == [
        ("storage_limit_reached", "warning", used, ROOM_FOR_TWO),
        ("storage_limit_left", "info", used, None),
    ]


async def test_shelves_that_cannot_be_measured_count_with_their_last_size() -> None:
    """The disk fails, or no descriptor is free, where a shelf is measured for the first time."""
    files = SimulatedFiles()
    files.make_directories("/shelf")
    files.open("/shelf/0.log", create=True).append(b"records")
    limit = StorageLimit(
        ReplicaRegistry(SpuId(1), Cluster()),
        BrokerMetrics(),
        structlog.get_logger(),
        lambda: log_bytes(files, "/shelf"),
    )
    limit.use_size(7)
    assert limit.is_full
    files.opens_left = 0
    with capture_logs() as logs:
        limit.measure()
    assert [each["event"] for each in logs] == ["shelves_not_measured"]
    assert (limit.used_bytes, limit.is_full) == (7, True)


async def test_the_controller_is_informed_with_the_next_heartbeat(autojump_clock: object) -> None:
    async with _running() as running:
        heard: list[RenewLeaseRequest] = []

        def answer(request: RenewLeaseRequest) -> RenewLeaseResponse:
            heard.append(request)
            return RenewLeaseResponse()

        running.sc.answers[InternalApiKey.RENEW_LEASE] = answer
        await trio.sleep(HEARTBEAT_MS / 1000)
        await running.fill()
        await trio.sleep(2 * HEARTBEAT_MS / 1000)
        assert heard[0] == RenewLeaseRequest(0, -1)
        assert heard[-1] == RenewLeaseRequest(2 * len(RECORD), ROOM_FOR_TWO)
