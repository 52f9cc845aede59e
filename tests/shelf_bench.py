"""A bench for copies of shelves on one SPU, which are filled from a complete SPU that leads."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import structlog
from msgspec import Struct
from msgspec.structs import replace
from simulation.client import WireClient
from simulation.files import SimulatedFile, SimulatedFiles
from spus import ADDRESS, RunningSpu, batch, running_spu, spu_requests_from

from tailrace.broker.shelves.shelf_copies import ShelfCopies
from tailrace.broker.shelves.shelf_keeper import ShelfKeeper
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import Endpoint, PartitionSpec, Shelf, SpuSpec
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse
from tailrace.protocol.internal.read_shelf import ReadShelfRequest, ReadShelfResponse
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.storage.directory.layout import ShelfKey
from tailrace.storage.log.shelf_logs import ShelfLogs

LEADER, HERE, OTHER = map(SpuId, (1, 5, 6))
NOW = 1_700_000_000_000
BATCHES = 10
"""The number of batches, each with two records."""
END = 2 * BATCHES
BATCH_BYTES = len(batch(b"00", b"00"))


class Bench(Struct):
    running: RunningSpu
    files: SimulatedFiles
    spec: PartitionSpec
    metrics: BrokerMetrics
    logs: ShelfLogs
    keeper: ShelfKeeper

    @property
    def key(self) -> ShelfKey:
        return ShelfKey(self.spec.topic_id, 0, 0)

    def name(
        self,
        *,
        stores: Sequence[SpuId] = (HERE, OTHER),
        filling: Sequence[SpuId] = (),
        base: int = 0,
        end: int = 0,
        shelved_from: int = 0,
    ) -> None:
        """Applies newer specs with one shelf."""
        shelf = Shelf(base, end, tuple(stores), tuple(filling))
        self.spec = replace(self.spec, version=self.spec.version + 1, shelved_from=shelved_from, shelves=(shelf,))
        self.keeper.copies.apply([self.spec], (), is_full=False)

    async def fill(self, end: int = END, base: int = 0) -> FillShelfResponse:
        return await self.keeper.filling.respond(FillShelfRequest(self.spec.topic_id, 0, base, end, LEADER))

    async def read(
        self, offset: int = 0, end: int = END, bytes_max: int = 1 << 20, timestamp: int = -1, base: int = 0
    ) -> ReadShelfResponse:
        request = ReadShelfRequest(self.spec.topic_id, 0, base, end, offset, bytes_max, timestamp)
        return await self.keeper.serving.read(request)

    async def bases(self, offset: int = 0, end: int = END, bytes_max: int = 1 << 20, base: int = 0) -> list[int]:
        response = await self.read(offset, end, bytes_max, base=base)
        assert response.error_code == 0, response.error_message
        return [header.base_offset for _, header in iterate(response.records)]

    def after(self, files: SimulatedFiles) -> "Bench":
        """Returns the bench of another process on the given files."""
        logs = ShelfLogs("/data", files)
        again = replace(self, files=files, logs=logs, keeper=keeper_of(self.running, logs, self.metrics))
        again.keeper.copies.apply([self.spec], (), is_full=True)
        return again

    async def flip(self, position: int, directory: str | None = None) -> None:
        """Flips a bit in the first segment."""
        async with self.logs.using(directory or self.logs.directory(self.key)) as log:
            file = log.read_batches(log.log_start, log.log_end)[0].file
            (byte,) = file.read_at(position, 1)
            assert isinstance(file, SimulatedFile)
            file.write_at(position, bytes([byte ^ 4]))

    @property
    def content(self) -> bytes:
        log = self.running.replica("t").log
        return b"".join(each.read() for each in log.read_batches(0, log.log_end))

    async def content_here(self) -> bytes:
        return b"".join([(await self.read(offset, bytes_max=1)).records for offset in range(0, END, 2)])


def _has_room() -> None:
    pass


def keeper_of(
    running: RunningSpu,
    logs: ShelfLogs,
    metrics: BrokerMetrics,
    here: SpuId = HERE,
    check_room: Callable[[], None] = _has_room,
) -> ShelfKeeper:
    cluster = Cluster()
    if here != LEADER:
        cluster.put_spu(SpuSpec(LEADER, endpoints=(Endpoint("PUBLIC", ADDRESS.host, ADDRESS.port),)))
    configs = BrokerConfigs({"deleted.topic.retention.ms": "60000"})
    spus = spu_requests_from(here, cluster, running.world.network, running.spu.answer)
    logger = structlog.get_logger()
    return ShelfKeeper(ShelfCopies(here, logs, logger), spus, check_room, configs, metrics, logger)


async def produce(running: RunningSpu, numbers: Iterable[int]) -> None:
    client: WireClient = await running.client()
    for number in numbers:
        records = batch(b"%02d" % number, b"%02d" % number, timestamp=NOW + 10 * number)
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, records)])]
        await client.request(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))


@asynccontextmanager
async def shelf_bench() -> AsyncIterator[Bench]:
    async with running_spu() as running:
        await running.create("t")
        await produce(running, range(BATCHES))
        files, metrics = SimulatedFiles(), BrokerMetrics()
        files.make_directories("/data")
        await files.sync_directory("")
        logs = ShelfLogs("/data", files)
        bench = Bench(running, files, running.replica("t").spec, metrics, logs, keeper_of(running, logs, metrics))
        bench.name()
        yield bench
        await bench.logs.close()


def lose_a_segment(bench: Bench) -> None:
    directory = bench.logs.directory(bench.key)
    name = next(each for each in bench.files.list(directory) if each.endswith(".log"))
    bench.files.remove(f"{directory}/{name}")
