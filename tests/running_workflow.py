"""The SC's workflow on a store in memory, with SPUs that do exactly what they are told, at once."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import structlog
import trio
from controller_model import reported
from msgspec import Struct, field
from msgspec.structs import replace
from simulation.files import SimulatedFiles
from spus import SteadyClock

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import Shelf
from tailrace.controller.administration.admin_requests import AdminRequests
from tailrace.controller.administration.archive_requests import ArchiveRequests
from tailrace.controller.administration.completion import CompletionConditions
from tailrace.controller.administration.object_administration import ObjectAdministration
from tailrace.controller.administration.planned_changes import ChangeWriter
from tailrace.controller.administration.trigger_requests import TriggerRequests
from tailrace.controller.connections.connection_documents import ConnectionRow
from tailrace.controller.inspection.controller_documents import controller_rows
from tailrace.controller.key_value import interface as key_value
from tailrace.controller.key_value.interface import KeyValueStore
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import Object, Partition, PublicListener, Spu, SpuSpec, Topic
from tailrace.controller.public_host import PublicHost
from tailrace.controller.state.actions import (
    AddPartition,
    ConnectionAction,
    DeletePartition,
    KeepReplica,
    Put,
    UpdatePartition,
)
from tailrace.controller.state.cluster_mirror import MirrorChange
from tailrace.controller.state.events import Event, SpuConnected, SpuLost
from tailrace.controller.state.object_codec import encode, key_of
from tailrace.controller.triggers.bounded_log import LogPart
from tailrace.controller.workflow.replica_provisioning import ReplicaProvisioner
from tailrace.controller.workflow.updaters import NoProvisioner, Provisioner
from tailrace.controller.workflow.workflow import Workflow
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.describe_replica_segments import (
    DescribeReplicaSegmentsRequest,
    DescribeReplicaSegmentsResponse,
)
from tailrace.protocol.internal.describe_replicas import (
    DescribedReplica,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address
from tailrace.server.private_link import LinkClosed
from tailrace.server.server_description import describe_server
from tailrace.server.throttling.server_quotas import ServerQuotas
from tailrace.server.throttling.throttle_metrics import ThrottleMetrics


class ObedientSpus(Struct):
    """Connected SPUs that report as soon as they are told to lead; silent ones never do."""

    silent: set[int] = field(default_factory=set)
    connected: set[int] = field(default_factory=set)
    partitions: dict[tuple[TopicId, int], Partition] = field(default_factory=dict)
    applied: list[ConnectionAction] = field(default_factory=list)
    published: list[MirrorChange] = field(default_factory=list)
    reports: list[Event] = field(default_factory=list)
    reporting: trio.Event = field(default_factory=trio.Event)
    segments: dict[int, DescribeReplicaSegmentsResponse] = field(default_factory=dict)
    """What each says of whichever replica it is asked for, with the contents that it could be asked for."""
    asked_for_segments: list[tuple[SpuId, DescribeReplicaSegmentsRequest]] = field(default_factory=list)

    def apply(self, action: ConnectionAction) -> None:
        self.applied.append(action)
        if isinstance(action, AddPartition | UpdatePartition):
            partition = action.partition
            self.partitions[partition.topic_id, partition.number] = partition
            self._report(partition)
        elif isinstance(action, DeletePartition):
            self.partitions.pop((action.topic_id, action.number), None)

    def connections(self) -> list[ConnectionRow]:
        return [
            ConnectionRow(SpuId(spu), f"incarnation-{spu}", "1.2.3", f"spu-{spu}:40000", 61.0, 1.2, spu, 7, True)
            for spu in sorted(self.connected)
        ]

    async def ask_spu(self, spu: SpuId, message: Any) -> Any:
        if isinstance(message, DescribeReplicaSegmentsRequest):
            return await self._describe_segments(spu, message)
        return await self.describe(spu, message)

    def is_connected(self, spu: SpuId, incarnation: str) -> bool:
        return spu in self.connected and incarnation == f"incarnation-{spu}"

    def is_carrying_out_specs(self, spu: SpuId) -> bool:
        return False

    def owes_response(self, spu: SpuId) -> bool:
        return False

    def publish(self, change: MirrorChange) -> None:
        self.published.append(change)

    async def describe(self, spu: SpuId, request: DescribeReplicasRequest) -> DescribeReplicasResponse:
        if spu in self.silent:
            await trio.sleep_forever()
        if spu not in self.connected:
            raise LinkClosed(f"SPU {spu} is not connected")
        replicas = [
            DescribedReplica(each.topic_id, number, log_end=int(spu))
            for each in request.topics
            for number in each.partitions
        ]
        return DescribeReplicasResponse(replicas)

    async def _describe_segments(
        self, spu: SpuId, request: DescribeReplicaSegmentsRequest
    ) -> DescribeReplicaSegmentsResponse:
        self.asked_for_segments.append((spu, request))
        if spu in self.silent:
            await trio.sleep_forever()
        if spu not in self.connected:
            raise LinkClosed(f"SPU {spu} is not connected")
        held = self.segments.get(spu, DescribeReplicaSegmentsResponse("this SPU does not have the replica"))
        asked = {(each.base, each.end) for each in request.ranges}
        shown = len(held.segments) if request.segments_max else 0
        contents = [each for each in held.contents if (each.base, each.end) in asked]
        return replace(held, segments=held.segments[:shown], contents=contents)

    def on_connected(self, spu: int) -> None:
        self.connected.add(spu)
        for partition in self.partitions.values():
            self._report(partition)

    def _report(self, partition: Partition) -> None:
        leader = partition.status.leader
        if leader in self.connected and leader not in self.silent:
            self.reports.append(reported(partition))
            self.reporting.set()


class RunningWorkflow(Struct):
    workflow: Workflow
    spus: ObedientSpus
    administration: AdminRequests
    objects: ObjectAdministration
    host: PublicHost
    broker_configs: BrokerConfigs
    clock: SteadyClock

    async def connect(self, *spus: int) -> None:
        """Registers SPUs, and returns when the store has them online."""
        for spu in spus:
            await self.workflow.events.send(
                SpuConnected(
                    SpuId(spu),
                    f"incarnation-{spu}",
                    f"store-{spu}",
                    (PublicListener("PUBLIC", f"spu-{spu}", 9005),),
                    Address(f"spu-{spu}", 9006),
                )
            )
            self.spus.on_connected(spu)
        local = self.workflow.local
        await self.workflow.writes.wait_until(
            lambda: all(spu in local.spus and local.spus[SpuId(spu)].is_online for spu in map(SpuId, spus))
        )

    async def create_topic(self, name: str, partitions: int = 1) -> Topic:
        """Creates a topic, which may wait for SPUs."""
        document = json.dumps({"name": name, "partitions": partitions})
        created = await self.objects.create("topic", document, 0)
        assert isinstance(created, Topic)
        return created

    async def lose(self, spu: int) -> None:
        self.spus.connected.discard(spu)
        await self.workflow.events.send(SpuLost(SpuId(spu), f"incarnation-{spu}", "its lease has expired"))
        await self.workflow.writes.wait_until(lambda: not self.workflow.local.spus[SpuId(spu)].is_online)

    async def shelve(self, *shelves: Shelf, shelved_from: int = 0) -> None:
        """Old segments of the only partition are there, as if its leader had said so."""
        (partition,) = self.workflow.local.partitions.values()
        spec = replace(partition.spec, shelved_from=shelved_from, shelves=shelves)
        assert await self.workflow.writes.write([Put(replace(partition, spec=spec))]) == [True]


async def put(store: KeyValueStore, *objects: Object) -> None:
    written = await store.write([key_value.Put(key_of(each), encode(each), each.version) for each in objects])
    assert None not in written


class RecordedReplicas:
    """Keeps which replicas should run, and starts none."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], KeepReplica] = {}

    def keep(self, wanted: KeepReplica) -> None:
        self.kept[wanted.trigger, wanted.replica] = wanted

    def drop(self, trigger: str, replica: str) -> None:
        self.kept.pop((trigger, replica), None)

    def forget(self, trigger: str) -> None:
        assert not any(name == trigger for name, _ in self.kept)

    def states(self, trigger: str) -> Mapping[str, str]:
        return {replica: "running" for name, replica in self.kept if name == trigger}

    def read_log(self, trigger: str, replica: str, after: int, bytes_max: int) -> LogPart | None:
        return None


def registered(*spus: int) -> list[Spu]:
    return [Spu(SpuSpec(SpuId(spu))) for spu in spus]


@asynccontextmanager
async def running_workflow(
    store: KeyValueStore | None = None,
    provisioner: Provisioner | None = None,
    broker: Mapping[str, str] | None = None,
    chance_seed: int = 1,
    replicas: ReplicaProvisioner | None = None,
) -> AsyncIterator[RunningWorkflow]:
    logger = structlog.get_logger()
    broker_configs = BrokerConfigs(broker or {})
    clock, chance = SteadyClock(), RandomChance(chance_seed)
    provisioner = provisioner or NoProvisioner(logger)
    workflow = Workflow(store or MemoryStore(), provisioner, broker_configs, clock, logger, replicas=replicas)
    changes = ChangeWriter(workflow.writes)
    completion = CompletionConditions(workflow.local, workflow.cluster)
    administration = AdminRequests(
        changes, completion, workflow.local, workflow.observed, broker_configs, clock, chance, logger
    )
    objects = ObjectAdministration(
        administration, changes, completion, workflow.local, workflow.observed, chance, logger, provisioner
    )
    spus = ObedientSpus()
    host = PublicHost(
        workflow.cluster,
        broker_configs,
        ServerQuotas.of_server(workflow.cluster, broker_configs, ThrottleMetrics()),
        administration,
        objects,
        workflow.local,
        workflow.status_changes,
        spus.ask_spu,
        spus.connections,
        lambda: controller_rows(workflow.local, workflow.decisions),
        lambda: describe_server(-1, "cluster", [], "", SimulatedFiles(), clock),
        lambda: TriggerRequests(changes, workflow, trio.current_time),
        lambda: ArchiveRequests(changes, workflow.local),
    )

    async def report() -> None:
        while True:
            await spus.reporting.wait()
            spus.reporting = trio.Event()
            while spus.reports:
                await workflow.events.send(spus.reports.pop(0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(report)
        await nursery.start(workflow.run, spus)
        yield RunningWorkflow(workflow, spus, administration, objects, host, broker_configs, clock)
        nursery.cancel_scope.cancel()
