"""A Streaming Controller and real SPUs on one simulated network, each with its own files; each can be killed."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import structlog
import trio
from certificates import private_tls
from msgspec import Struct, field
from running_sc import PRIVATE, PUBLIC, ScWorld, sc_settings
from simulation.client import WireClient
from simulation.files import SimulatedFiles
from spus import SteadyClock, batch, newest

from tailrace.broker.spu import Spu
from tailrace.broker.spu_server import SpuServer
from tailrace.controller.streaming_controller import StreamingController
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, SpuSettings
from tailrace.security.identity.server_names import SC_NAME, spu_name

HOST = "spu-{}"
FETCH_VERSION, PRODUCE_VERSION, METADATA_VERSION = 12, 9, 12


class _Running(Struct):
    """A process: cancelling it is a kill, and stopping it is a clean end."""

    server: SpuServer | StreamingController
    process: trio.CancelScope
    ended: trio.Event

    @property
    def spu(self) -> Spu:
        """Returns the SPU of a process that serves."""
        assert isinstance(self.server, SpuServer)
        assert self.server.spu is not None
        return self.server.spu


class ClusterOfSpus(Struct):
    nursery: trio.Nursery
    world: ScWorld = field(default_factory=ScWorld)
    files: dict[int, SimulatedFiles] = field(default_factory=dict)
    clocks: dict[int, SteadyClock] = field(default_factory=dict)
    """Of the SPUs that do not have the one of the world."""
    spus: dict[int, _Running] = field(default_factory=dict)
    sc: _Running | None = None
    starts: int = 0
    traces: bool = False
    is_encrypted: bool = False
    """Whether the private ports use TLS."""
    broker: Mapping[str, str] = field(default_factory=dict)
    """The broker configs of all servers."""

    # processes

    async def start_sc(self, **more: Any) -> None:
        more["broker"] = {**self.broker, **(private_tls(SC_NAME) if self.is_encrypted else {})}
        settings = sc_settings(metrics=None, reconciliation_seconds=10, **more)
        sc = StreamingController(settings, self.world.seams(), self.world.store, structlog.get_logger())
        self.sc = await self._start(sc)

    async def kill_sc(self) -> None:
        assert self.sc is not None
        await _kill(self.sc)

    async def start_spu(self, spu: int) -> None:
        """Starts the SPU, and returns when it serves clients."""
        settings = self.settings_of(spu)
        self.spus[spu] = await self._start(
            SpuServer(settings, self.seams_of(spu), structlog.get_logger(), traces=self.traces)
        )

    def seams_of(self, spu: int) -> Seams:
        self.starts += 1
        files = self.files.setdefault(spu, SimulatedFiles())
        clock = self.clocks.get(spu, self.world.clock)
        return Seams(self.world.network, files, clock, RandomChance(1000 + self.starts))

    def settings_of(self, spu: int) -> SpuSettings:
        return SpuSettings(
            spu,
            f"/data/spu-{spu}",
            (ListenerSettings("PUBLIC", address_of(spu)),),
            controllers=(PRIVATE,),
            private=ListenerSettings("PRIVATE", Address(f"spu-{spu}", 9006)),
            broker={**self.broker, **(private_tls(spu_name(spu)) if self.is_encrypted else {})},
        )

    async def kill_spu(self, spu: int) -> None:
        """Kills the SPU as kill -9 does: the page cache stays."""
        await _kill(self.spus.pop(spu))

    async def stop_spu(self, spu: int) -> None:
        running = self.spus.pop(spu)
        running.server.stop()
        await running.ended.wait()

    async def _start(self, server: SpuServer | StreamingController) -> _Running:
        running = _Running(server, trio.CancelScope(), trio.Event())

        async def run(task_status: trio.TaskStatus[object]) -> None:
            try:
                with running.process:
                    await server.run(task_status)
            finally:
                running.ended.set()

        await self.nursery.start(run)
        return running

    # clients

    async def client_of(self, spu: int) -> WireClient:
        return WireClient(await self.world.network.connect(address_of(spu)))

    async def client_of_sc(self) -> WireClient:
        return WireClient(await self.world.network.connect(PUBLIC))

    async def create(self, spu: int, name: str, partitions: int, replicas: int, **configs: str) -> int:
        """Creates a topic through an SPU; returns the error code."""
        asked = [CreatableTopicConfig(each.replace("_", "."), value) for each, value in configs.items()]
        topic = CreatableTopic(name, partitions, replicas, configs=asked)
        request = CreateTopicsRequest([topic], timeout_ms=20_000)
        client = await self.client_of(spu)
        response = await client.request(ApiKey.CREATE_TOPICS, newest(ApiKey.CREATE_TOPICS), request)
        code: int = response.topics[0].error_code
        return code

    async def metadata(self, spu: int, topic: str) -> MetadataResponse:
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response: MetadataResponse = await (await self.client_of(spu)).request(
            ApiKey.METADATA, METADATA_VERSION, request
        )
        return response

    async def leaders(self, spu: int, topic: str) -> dict[int, tuple[int, int]]:
        """Returns the leader and its epoch for each partition, as an SPU tells clients."""
        (found,) = (await self.metadata(spu, topic)).topics
        return {each.partition_index: (each.leader_id, each.leader_epoch) for each in found.partitions}

    async def produce(
        self,
        spu: int,
        topic: str,
        partition: int,
        value: bytes,
        *,
        acks: int = -1,
        timeout_ms: int = 1000,
        client: WireClient | None = None,
    ) -> int:
        """Produces a record; returns the error code."""
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch(value))])]
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data)
        client = client or await self.client_of(spu)
        response = await client.request(ApiKey.PRODUCE, PRODUCE_VERSION, request)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    async def fetched(
        self,
        spu: int,
        topic: str,
        partition: int,
        offset: int = 0,
        *,
        wait_ms: int = 0,
        client: WireClient | None = None,
    ) -> Any:
        """Fetches from a partition; waits up to the given time for a record."""
        partitions = [FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1_000_000)]
        topics = [FetchTopic(topic=topic, partitions=partitions)]
        request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1_000_000, topics=topics)
        client = client or await self.client_of(spu)
        response = await client.request(ApiKey.FETCH, FETCH_VERSION, request)
        return response.responses[0].partitions[0]


def address_of(spu: int) -> Address:
    return Address(HOST.format(spu), 9005)


async def _kill(running: _Running) -> None:
    running.process.cancel()
    await running.ended.wait()


@asynccontextmanager
async def cluster_of(
    *spus: int, traces: bool = False, is_encrypted: bool = False, broker: Mapping[str, str] | None = None
) -> AsyncIterator[ClusterOfSpus]:
    """Yields a cluster whose SPUs are registered and running, and kills everything at the end."""
    async with trio.open_nursery() as nursery:
        cluster = ClusterOfSpus(nursery, traces=traces, is_encrypted=is_encrypted, broker=broker or {})
        await cluster.world.register(*spus, host=HOST)
        await cluster.start_sc()
        async with trio.open_nursery() as starting:
            for spu in spus:
                starting.start_soon(cluster.start_spu, spu)
        yield cluster
        nursery.cancel_scope.cancel()
