"""A complete SC on simulated seams, with SPUs over the network that do exactly what they are told, at once."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import Any

import structlog
import trio
from msgspec import Struct, field
from simulation.client import WireClient
from simulation.files import SimulatedFiles
from simulation.network import MemoryNetwork
from spus import SteadyClock

from tailrace.controller.key_value import interface as key_value
from tailrace.controller.key_value.interface import KeyValueStore
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import PublicEndpoint, Spu, SpuSpec
from tailrace.controller.state.object_codec import encode, key_of
from tailrace.controller.streaming_controller import StreamingController
from tailrace.controller.workflow.replica_provisioning import ReplicaProvisioner
from tailrace.controller.workflow.updaters import Provisioner
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest, ApplyMetadataResponse
from tailrace.protocol.internal.apply_specs import ApplySpecsRequest, ApplySpecsResponse, PartitionState
from tailrace.protocol.internal.describe_replicas import (
    DescribedReplica,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from tailrace.protocol.internal.forward import ForwardRequest, ForwardResponse
from tailrace.protocol.internal.register_spu import RegisteredListener, RegisterSpuRequest, RegisterSpuResponse
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest
from tailrace.protocol.internal.report_live_replicas import ReportedPartition, ReportLiveReplicasRequest
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, SPU_PRIVATE_APIS, InternalApiKey
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, ScSettings
from tailrace.server.private_link import LinkClosed, PrivateLink

PUBLIC = Address("sc", 9003)
PRIVATE = Address("sc", 9004)
METRICS = Address("sc", 9005)


class ScWorld(Struct):
    """Everything that outlives an SC. Another SC on it is a restart."""

    store: KeyValueStore = field(default_factory=MemoryStore)
    network: MemoryNetwork = field(default_factory=MemoryNetwork)
    clock: SteadyClock = field(default_factory=SteadyClock)
    chance_seed: int = 0

    def seams(self) -> Seams:
        self.chance_seed += 1
        return Seams(self.network, SimulatedFiles(), self.clock, RandomChance(self.chance_seed))

    async def register(self, *spus: int, host: str = "localhost") -> None:
        """Into the store, as it was before the SC began. `host` is that of each, with its number put in."""
        objects = [Spu(SpuSpec(SpuId(spu), public=PublicEndpoint(ingress=(host.format(spu),)))) for spu in spus]
        written = await self.store.write([key_value.Put(key_of(each), encode(each), 0) for each in objects])
        assert None not in written


class RunningSc(Struct):
    sc: StreamingController
    world: ScWorld

    async def client(self) -> WireClient:
        return WireClient(await self.world.network.connect(PUBLIC))


def sc_settings(**changes: Any) -> ScSettings:
    settings: Mapping[str, Any] = {
        "data_directory": "/data/sc",
        "listeners": (ListenerSettings("PUBLIC", PUBLIC),),
        "private": ListenerSettings("PRIVATE", PRIVATE),
        "store": "memory",
        "metrics": ListenerSettings("METRICS", METRICS),
    }
    return ScSettings(**{**settings, **changes})


@asynccontextmanager
async def running_sc(
    world: ScWorld | None = None,
    provisioner: Provisioner | None = None,
    replicas: ReplicaProvisioner | None = None,
    **settings: Any,
) -> AsyncIterator[RunningSc]:
    """Stopped cleanly at the end; cancel the task that holds it to stop it as kill -9 does."""
    world = world or ScWorld()
    sc = StreamingController(
        sc_settings(**settings), world.seams(), world.store, structlog.get_logger(), provisioner, replicas
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(sc.run)
        yield RunningSc(sc, world)
        sc.stop()


class ObedientSpu:
    """Registers, stays, and reports in as the leader of what it is told to lead. Comes back when the SC does."""

    def __init__(self, network: MemoryNetwork, spu: int, incarnation: str = "first") -> None:
        self.id = spu
        self.incarnation = incarnation
        self.held: dict[tuple[TopicId, int], PartitionState] = {}
        self.names: dict[TopicId, str] = {}
        self.metadata: list[ApplyMetadataRequest] = []
        self.full_specs = 0
        self.online = trio.Event()
        """Set when the SPU has been told that it is online."""
        self.link: PrivateLink
        self.accepted: RegisterSpuResponse
        self.mute = False
        """Whether it does not respond to requests that describe replicas."""
        self._network = network
        self._nursery: trio.Nursery

    async def run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            while True:
                try:
                    connection = await self._network.connect(PRIVATE)
                except OSError:
                    await trio.sleep(0.1)
                    continue
                self.link = PrivateLink(
                    connection,
                    serves=SPU_PRIVATE_APIS,
                    asks=SC_PRIVATE_APIS,
                    handle=self._handle,
                    concurrent=frozenset({InternalApiKey.DESCRIBE_REPLICAS}),
                    logger=structlog.get_logger(),
                )
                async with trio.open_nursery() as connected:
                    connected.start_soon(self._stay)
                    await self.link.run()
                    connected.cancel_scope.cancel()
                await trio.sleep(0.1)

    async def started(self, nursery: trio.Nursery) -> "ObedientSpu":
        nursery.start_soon(self.run)
        await self.online.wait()
        return self

    async def forward(self, api_key: int, version: int, body: bytes) -> ForwardResponse:
        response: ForwardResponse = await self.link.ask(ForwardRequest(api_key, version, body))
        return response

    async def _stay(self) -> None:
        listeners = [RegisteredListener("PUBLIC", f"spu-{self.id}", 9005)]
        request = RegisterSpuRequest(
            self.id,
            self.incarnation,
            self.incarnation,
            True,
            "1.0",
            listeners,
            private_host=f"spu-{self.id}",
            private_port=9006,
        )
        try:
            answer: RegisterSpuResponse = await self.link.ask(request)
            if answer.error_code:
                return
            self.accepted = answer
            while True:
                await trio.sleep(0.5)
                await self.link.ask(RenewLeaseRequest())
        except LinkClosed:
            return

    async def _handle(self, _: IntEnum, message: Any) -> object:
        match message:
            case ApplySpecsRequest():
                self._apply(message)
                return ApplySpecsResponse()
            case ApplyMetadataRequest():
                self.metadata.append(message)
                if any(spu.id == self.id and spu.is_online for spu in message.spus):
                    self.online.set()
                return ApplyMetadataResponse()
            case DescribeReplicasRequest():
                if self.mute:
                    await trio.sleep_forever()
                return DescribeReplicasResponse(
                    [
                        DescribedReplica(topic_id, number, state.leader == self.id, 0, 7, 7, 70)
                        for (topic_id, number), state in self.held.items()
                    ]
                )
        raise NotImplementedError(message)

    def _apply(self, specs: ApplySpecsRequest) -> None:
        if specs.is_full:
            self.full_specs += 1
            self.held.clear()
        for removed in specs.removed:
            self.held.pop((removed.topic_id, removed.partition), None)
        led = []
        for topic in specs.topics:
            self.names[topic.topic_id] = topic.name
            for state in topic.partitions:
                self.held[topic.topic_id, state.partition] = state
                if state.leader == self.id:
                    led.append(ReportedPartition(topic.topic_id, state.partition, state.epoch))
        if led:
            self._nursery.start_soon(self._report, self.link, led)

    async def _report(self, link: PrivateLink, led: list[ReportedPartition]) -> None:
        try:
            await link.ask(ReportLiveReplicasRequest(led))
        except LinkClosed:
            return  # it will be told again by the next one
