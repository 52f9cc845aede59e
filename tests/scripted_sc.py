"""A Streaming Controller that says what a test tells it to, over the simulated network: for what a real one never does.

It admits every SPU, remembers all that it is told, and answers with what stands in `answers`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import Any, TypeVar

import structlog
import trio
from msgspec import Struct, field
from simulation.network import MemoryConnection, MemoryNetwork

from tailrace.protocol.ids import TopicId
from tailrace.protocol.internal import apply_specs
from tailrace.protocol.internal.allocate_producer_ids import AllocateProducerIdsResponse
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest, PartitionState, SpuState, TopicState
from tailrace.protocol.internal.apply_specs import ApplySpecsRequest
from tailrace.protocol.internal.leave import LeaveResponse
from tailrace.protocol.internal.register_spu import RegisterSpuRequest, RegisterSpuResponse
from tailrace.protocol.internal.renew_lease import RenewLeaseResponse
from tailrace.protocol.internal.report_live_replicas import ReportLiveReplicasResponse
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, SPU_PRIVATE_APIS, InternalApiKey
from tailrace.runtime.network import Address
from tailrace.server.private_link import PrivateLink

SC_ADDRESS = Address("sc", 9004)
LEASE_MS, HEARTBEAT_MS = 1500, 500
CONCURRENT = frozenset({InternalApiKey.RENEW_LEASE, InternalApiKey.FORWARD, InternalApiKey.ALLOCATE_PRODUCER_IDS})
M = TypeVar("M")


def accepted() -> RegisterSpuResponse:
    return RegisterSpuResponse(cluster_id="cluster", lease_ms=LEASE_MS, heartbeat_ms=HEARTBEAT_MS)


class ScriptedSc(Struct):
    network: MemoryNetwork
    address: Address = SC_ADDRESS
    heard: list[Any] = field(default_factory=list)
    """The requests in order, without the many heartbeats."""
    heartbeats: int = 0
    renewal_seconds: float = 0
    """The delay of the response to a heartbeat."""
    answers: dict[IntEnum, Callable[[Any], Any]] = field(default_factory=dict)
    """By API; None as an answer is never given. Without an entry the answer is that all is well."""
    version: int = 0
    """Of the metadata that were said last."""
    link: PrivateLink | None = None
    """The latest link on which an SPU is registered."""
    connections: list[MemoryConnection] = field(default_factory=list)
    _registered: trio.Event = field(default_factory=trio.Event)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        listener = await self.network.listen(self.address)
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    connection = await listener.accept()
                    self.connections.append(connection)
                    nursery.start_soon(self._serve, connection)
        finally:
            listener.close()

    async def registered(self) -> PrivateLink:
        """Returns the link of the registered SPU."""
        while self.link is None or self.link.closed_because is not None:
            await self._registered.wait()
        return self.link

    async def ask(self, message: Any) -> Any:
        return await (await self.registered()).ask(message)

    async def introduce(self, spu: int, *topics: TopicState) -> None:
        """Sends full specs: this SPU, which is online, and topics that it holds completely."""
        await self.registered()
        registered = self.heard_of(RegisterSpuRequest)[-1]
        held = [
            apply_specs.TopicState(
                topic.topic_id,
                topic.name,
                partitions=[
                    apply_specs.PartitionState(
                        each.partition,
                        each.leader,
                        each.epoch,
                        leader_incarnation=registered.incarnation if each.leader == spu else "another process",
                        replicas=each.replicas,
                        live_replicas=[
                            apply_specs.LiveReplica(live, registered.store_incarnation if live == spu else "store")
                            for live in each.live_replicas
                        ],
                    )
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ]
        await self.ask(ApplySpecsRequest(is_full=True, topics=held))
        self.version += 1
        await self.ask(
            ApplyMetadataRequest(True, self.version, "cluster", spu, [SpuState(spu, None, True)], topics=list(topics))
        )

    def heard_of(self, kind: type[M]) -> list[M]:
        return [message for message in self.heard if isinstance(message, kind)]

    def drop(self) -> None:
        """Breaks all connections, as a crash does."""
        for connection in self.connections:
            connection.reset()
        self.connections.clear()
        self.link = None

    async def _serve(self, connection: MemoryConnection) -> None:
        async def handle(api_key: IntEnum, message: Any) -> object:
            if api_key == InternalApiKey.RENEW_LEASE:
                self.heartbeats += 1
                await trio.sleep(self.renewal_seconds)
            else:
                self.heard.append(message)
            answer = self._answer(api_key, message)
            if answer is None:
                await trio.sleep_forever()
            if isinstance(message, RegisterSpuRequest) and not answer.error_code:
                self.link = link
                self._registered.set()
                self._registered = trio.Event()
            return answer

        link = PrivateLink(
            connection,
            serves=SC_PRIVATE_APIS,
            asks=SPU_PRIVATE_APIS,
            handle=handle,
            concurrent=CONCURRENT,
            logger=structlog.get_logger(),
        )
        try:
            await link.run()
        except* trio.ClosedResourceError:
            pass  # dropped

    def _answer(self, api_key: IntEnum, message: Any) -> Any:
        if api_key in self.answers:
            return self.answers[api_key](message)
        match api_key:
            case InternalApiKey.REGISTER_SPU:
                return accepted()
            case InternalApiKey.RENEW_LEASE:
                return RenewLeaseResponse()
            case InternalApiKey.LEAVE:
                return LeaveResponse()
            case InternalApiKey.REPORT_LIVE_REPLICAS:
                return ReportLiveReplicasResponse()
            case InternalApiKey.ALLOCATE_PRODUCER_IDS:
                return AllocateProducerIdsResponse(first_id=1000, count=1000)
        raise AssertionError(f"no answer to {api_key!r} was set up")


def topic_state(
    topic_id: TopicId,
    name: str,
    partitions: int = 1,
    *,
    leader: int = 1,
    epoch: int = 0,
    replicas: tuple[int, ...] = (1,),
    live: tuple[int, ...] = (1,),
) -> TopicState:
    """Makes a topic whose partitions are all on SPU 1."""
    states = [PartitionState(number, leader, epoch, list(replicas), list(live)) for number in range(partitions)]
    return TopicState(topic_id, name, partitions=states)


@asynccontextmanager
async def scripted_sc(network: MemoryNetwork, address: Address = SC_ADDRESS) -> AsyncIterator[ScriptedSc]:
    sc = ScriptedSc(network, address)
    async with trio.open_nursery() as nursery:
        await nursery.start(sc.run)
        yield sc
        nursery.cancel_scope.cancel()
