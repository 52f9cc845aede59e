"""A complete SPU with its Streaming Controller, on simulated seams."""

import errno
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import structlog
import trio
from msgspec import Struct, field
from msgspec.structs import replace
from simulation.client import WireClient
from simulation.files import Keep, SimulatedFiles
from simulation.network import MemoryNetwork

from tailrace.broker.copies.spu_requests import Dial, RespondLocally, SpuRequests
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.spu import Spu
from tailrace.broker.spu_server import SpuServer
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicSpec
from tailrace.controller.key_value.interface import NO_VERSION, Put
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import PublicEndpoint
from tailrace.controller.objects.objects import Spu as Registered
from tailrace.controller.objects.objects import SpuSpec as RegisteredSpec
from tailrace.controller.public_host import KNOWN
from tailrace.controller.state.object_codec import encode, key_of
from tailrace.controller.streaming_controller import StreamingController
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.batches.record_batch import BatchHeader, assemble
from tailrace.protocol.batches.records import Record, build_batch, encode_records
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.undelete_topic import UndeleteTopicRequest
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address, Connection, Network, receive_some
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, ScSettings, SpuSettings

ADDRESS = Address("spu-1", 9005)
METRICS = Address("spu-1", 9008)
SC_PUBLIC = Address("sc", 9003)
SC_PRIVATE = Address("sc", 9004)


class SteadyClock:
    """Wall-clock time that only moves when a test says so."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms


class World(Struct):
    """Everything that outlives an SPU and its controller. Others on it are a restart."""

    files: SimulatedFiles = field(default_factory=SimulatedFiles)
    network: MemoryNetwork = field(default_factory=MemoryNetwork)
    clock: SteadyClock = field(default_factory=SteadyClock)
    store: MemoryStore = field(default_factory=MemoryStore)
    starts: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def seams(self) -> Seams:
        """The seams of one process. No two processes have the same chance."""
        return Seams(self.network, self.files, self.clock, RandomChance(next(self.starts)))

    def crashed(self, keep: Keep) -> "World":
        """Returns the world after a power failure of the SPU's machine."""
        return replace(self, files=self.files.crash(keep), network=MemoryNetwork())


class RunningSpu(Struct):
    server: SpuServer
    spu: Spu
    world: World

    async def client(self) -> WireClient:
        return WireClient(await self.world.network.connect(ADDRESS))

    def replica(self, topic: str, partition: int = 0) -> Replica:
        found = self.spu.replicas.find(topic, partition)
        assert found is not None
        return found

    async def scraped(self, path: str = "/metrics") -> str:
        """Returns the response of its metrics port, with the head."""
        scraper = await self.world.network.connect(METRICS)
        scraper.send([f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()])
        text = bytearray()
        buffer = memoryview(bytearray(65536))
        while count := await receive_some(scraper, buffer):
            text += buffer[:count]
        return text.decode()

    async def create(
        self, name: str, partitions: int = 1, configs: Mapping[str, str | None] | None = None
    ) -> TopicSpec:
        asked = [CreatableTopicConfig(name=each, value=value) for each, value in (configs or {}).items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=asked)
        request = CreateTopicsRequest(topics=[topic])
        response = await (await self.client()).request(ApiKey.CREATE_TOPICS, newest(ApiKey.CREATE_TOPICS), request)
        assert response.topics[0].error_code == 0, response
        return self.spu.cluster.topics[name]

    async def delete(self, topic: TopicSpec) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic.id)])
        response = await (await self.client()).request(ApiKey.DELETE_TOPICS, newest(ApiKey.DELETE_TOPICS), request)
        assert response.responses[0].error_code == 0, response

    async def undelete(self, topic: TopicSpec) -> None:
        controller = WireClient(await self.world.network.connect(SC_PUBLIC), apis=KNOWN)
        response = await controller.request(InternalApiKey.UNDELETE_TOPIC, 0, UndeleteTopicRequest(str(topic.id)))
        assert response.error_code == 0, response
        await trio.testing.wait_all_tasks_blocked()


async def _never(api: Api, version: int, request: Any) -> Any:
    raise AssertionError("nobody has a question to itself")


def spu_requests_from(
    here: SpuId, cluster: Cluster, network: Network, answer_here: RespondLocally = _never
) -> SpuRequests:
    """Returns the requests as the SPU `here` sends them, to the public ports of other SPUs."""
    return SpuRequests(here, cluster, public_dial(cluster, network), answer_here)


def public_dial(cluster: Cluster, network: Network) -> Dial:
    """Returns a function that connects to the public port of an SPU."""

    async def dial(spu: SpuId) -> Connection:
        endpoint = cluster.spus[spu].endpoints[0]
        return await network.connect(Address(endpoint.host, endpoint.port))

    return dial


@asynccontextmanager
async def running_spu(
    world: World | None = None,
    broker: Mapping[str, str] | None = None,
    rack: str | None = None,
    registered_rack: str | None = None,
) -> AsyncIterator[RunningSpu]:
    """Yields an SPU with its own Streaming Controller, and stops both cleanly at the end.

    Cancelling the task that holds them stops them as kill -9 does.
    """
    world = world or World()
    registered = Registered(RegisteredSpec(SpuId(1), rack=registered_rack, public=PublicEndpoint(port=0)))
    await world.store.write([Put(key_of(registered), encode(registered), NO_VERSION)])
    sc = StreamingController(_sc_settings(broker or {}), world.seams(), world.store, structlog.get_logger())
    server = SpuServer(replace(spu_settings(broker or {}), rack=rack), world.seams(), structlog.get_logger())
    async with trio.open_nursery() as nursery:
        await nursery.start(sc.run)
        async with trio.open_nursery() as serving:
            spu = await serving.start(server.run)
            await trio.testing.wait_all_tasks_blocked()  # the leaders are elected
            yield RunningSpu(server, spu, world)
            server.stop()
        sc.stop()


def _sc_settings(broker: Mapping[str, str]) -> ScSettings:
    return ScSettings(
        "/data/sc",
        (ListenerSettings("PUBLIC", SC_PUBLIC),),
        ListenerSettings("PRIVATE", SC_PRIVATE),
        "memory",
        broker=broker,
    )


def spu_settings(broker: Mapping[str, str]) -> SpuSettings:
    return SpuSettings(
        1,
        "/data/spu-1",
        (ListenerSettings("PUBLIC", ADDRESS),),
        ListenerSettings("METRICS", METRICS),
        broker=broker,
        controllers=(SC_PRIVATE,),
    )


async def filled(running: RunningSpu) -> Replica:
    """Returns a replica that the SPU leads, with batches at the offsets 0, 2 and 3."""
    await running.create("t")
    client = await running.client()
    for records in (batch(b"a", b"b"), batch(b"c"), batch(b"d")):
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, records)])]
        await client.request(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))
    return running.spu.replicas.leading("t", 0)


def led_elsewhere(replica: Replica, leader: int = 2) -> None:
    """Makes the replica a follower of an SPU that does not exist."""
    replica.use_spec(replace(replica.spec, leader=SpuId(leader), live_replicas=(SpuId(leader), SpuId(1))))


def batch(*values: bytes | None, timestamp: int = 1_700_000_000_000, **attributes: Any) -> bytes:
    """Makes a batch as a producer sends it, with a record for each value."""
    records = [Record(offset, timestamp + offset, None, value) for offset, value in enumerate(values)]
    return bytes(build_batch(records, **attributes))


def lack_open_files(*_: object) -> NoReturn:
    """Fails any call, as if no more files could be opened."""
    raise OSError(errno.EMFILE, "Too many open files")


def beyond_time(header_time: int, *records: Record) -> bytes:
    """A batch of which the header names one time, and the records any, also some that no 64 bits hold."""
    header = BatchHeader(0, 0, -1, 2, 0, 0, len(records) - 1, header_time, header_time, -1, -1, -1, len(records))
    return bytes(assemble(header, encode_records(records, 0, header_time)))


def newest(api: ApiKey) -> int:
    return API_TABLE[api].max_version
