from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
import structlog
import trio
import trio.testing
from msgspec.structs import replace
from scripted_spu import ScriptedSpu
from simulation.network import MemoryNetwork

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Shelf
from tailrace.controller.connections.connection_manager import FORWARDED_BYTES_MAX, FORWARDS_MAX, ConnectionManager
from tailrace.controller.connections.event_queue import EVENTS_WAITING_MAX
from tailrace.controller.connections.private_server import PrivateServer
from tailrace.controller.objects.objects import (
    ClusterIdentity,
    ConfigOverrides,
    Encryption,
    Object,
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    PublicEndpoint,
    PublicListener,
    Spu,
    SpuResolution,
    SpuSpec,
    SpuStatus,
    SpuType,
    Topic,
    TopicResolution,
    TopicSpec,
    TopicStatus,
)
from tailrace.controller.sc_metrics import ScMetrics
from tailrace.controller.state.actions import (
    AddPartition,
    AddSpu,
    DeletePartition,
    DeleteSpu,
    UpdatePartition,
    UpdateSpu,
)
from tailrace.controller.state.cluster_mirror import ClusterMirror
from tailrace.controller.state.events import (
    Event,
    LeaseGracePeriodOver,
    LiveReplicasReported,
    ReplicaFailed,
    ShelvesReported,
    SpuConnected,
    SpuLost,
    StorageReported,
    Stored,
)
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.internal.allocate_producer_ids import AllocateProducerIdsRequest
from tailrace.protocol.internal.apply_specs import Config, PartitionState, RemovedPartition
from tailrace.protocol.internal.apply_specs import Shelf as ToldShelf
from tailrace.protocol.internal.describe_replicas import DescribeReplicasRequest
from tailrace.protocol.internal.forward import ForwardRequest, ForwardResponse
from tailrace.protocol.internal.register_spu import RegisteredListener
from tailrace.protocol.internal.report_live_replicas import Member, ReportedPartition
from tailrace.protocol.internal.report_shelves import ReportedPartition as ReportedShelves
from tailrace.protocol.internal.report_shelves import ReportShelvesRequest
from tailrace.runtime.network import Address
from tailrace.security.settings.security_protocol import SecurityProtocol
from tailrace.server.private_link import LinkClosed

ADDRESS = Address("sc", 9004)
ADDRESSES_OF_SPUS = (Address("spu.example", 9005), Address("spu.private.example", 9006))
"""Where the scripted ones say that they are found."""
TOPIC = UUID(int=7)


def spu(number: int, **spec: Any) -> Spu:
    status = SpuStatus(SpuResolution.ONLINE, "first", "store", (PublicListener("PUBLIC", f"spu-{number}", 9005),))
    return Spu(SpuSpec(SpuId(number), **spec), status)


def partition(number: int, *replicas: int, leader: int | None = None, epoch: int = 3) -> Partition:
    first = replicas[0] if leader is None else leader
    return Partition(
        "orders",
        TOPIC,
        number,
        PartitionSpec(SpuId(replicas[0]), tuple(map(SpuId, replicas))),
        PartitionStatus(PartitionResolution.ONLINE, SpuId(first), Epoch(epoch), "first", {SpuId(first): "store"}),
    )


def topic(*rows: Partition, **configs: str) -> Topic:
    replica_map = {row.number: row.spec.replicas for row in rows}
    return Topic(
        "orders",
        TOPIC,
        TopicSpec(len(rows), configs={name.replace("_", "."): value for name, value in configs.items()}),
        TopicStatus(TopicResolution.PROVISIONED, replica_map),
    )


@dataclass
class _World:
    nursery: trio.Nursery
    network: MemoryNetwork = field(default_factory=MemoryNetwork)
    store: LocalStore = field(default_factory=LocalStore)
    cluster: Cluster = field(default_factory=Cluster)
    metrics: ScMetrics = field(default_factory=lambda: ScMetrics({}))
    events: list[Event] = field(default_factory=list)
    may_hear: trio.Event = field(default_factory=trio.Event)
    unreadable: dict[str, int] = field(default_factory=dict)
    forwarded: list[ForwardRequest] = field(default_factory=list)
    may_answer_forwarded: trio.Event = field(default_factory=trio.Event)
    logged: list[Any] = field(default_factory=list)
    _version: int = 0

    def __post_init__(self) -> None:
        self.mirror = ClusterMirror(self.store, self.cluster)
        self.may_hear.set()
        self.may_answer_forwarded.set()
        self.manager = ConnectionManager(
            self.store,
            self.cluster,
            self.network,
            events=self._hear,
            allocate_producer_ids=self._allocate,
            forward=self._forward,
            metrics=self.metrics,
            logger=structlog.get_logger(),
            lease_seconds=1.5,
            unreadable=self.unreadable,
        )

    async def _hear(self, event: Event) -> None:
        await self.may_hear.wait()
        self.events.append(event)

    async def _allocate(self) -> range:
        return range(1000, 2000)

    async def _forward(self, message: ForwardRequest) -> ForwardResponse:
        self.forwarded.append(message)
        await self.may_answer_forwarded.wait()
        if not message.body:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "nothing")
        if message.body == b"mistake":
            raise ValueError("nobody has thought of this")
        return ForwardResponse(metadata_version=self.cluster.version, body=message.body[::-1])

    def store_objects(self, *objects: Object) -> None:
        """Stores objects as if the KV store had reported them, then publishes the mirror, as at the end of a turn."""
        for found in objects:
            self._version += 1
            change = self.store.apply(Stored(replace(found, version=self._version)))
            assert change is not None
            self.mirror.on_change(change)
            if isinstance(found, Spu):
                self.manager.apply(AddSpu(found) if change.previous is None else UpdateSpu(found))
            elif isinstance(found, Partition):
                self.manager.apply(AddPartition(found) if change.previous is None else UpdatePartition(found))
        change = self.mirror.publish()
        if change:
            self.manager.publish(change)

    async def spu(self, number: int = 1, incarnation: str = "first") -> ScriptedSpu:
        """Connects an SPU that does not register."""
        found = ScriptedSpu(number, incarnation)
        await found.connect(self.network, ADDRESS, self.nursery)
        return found

    async def registered(self, number: int = 1, incarnation: str = "first") -> ScriptedSpu:
        found = await self.spu(number, incarnation)
        answer = await found.register()
        assert answer.error_code == 0, answer.error_message
        await trio.testing.wait_all_tasks_blocked()
        return found

    @property
    def happened(self) -> list[Event]:
        return [event for event in self.events if event != LeaseGracePeriodOver()]

    def logs(self, event: str) -> list[Any]:
        return [entry for entry in self.logged if entry["event"] == event]


@asynccontextmanager
async def _world(*objects: Object) -> AsyncIterator[_World]:
    with structlog.testing.capture_logs() as logged:
        async with trio.open_nursery() as nursery:
            world = _World(nursery, logged=logged)
            world.store_objects(ClusterIdentity("the-cluster"), *objects)
            server = PrivateServer(world.manager, structlog.get_logger())
            nursery.start_soon(server.serve, await world.network.listen(ADDRESS))
            nursery.start_soon(world.manager.run)
            for address in ADDRESSES_OF_SPUS:
                await world.network.listen(address)
            yield world
            nursery.cancel_scope.cancel()


# setting up a stream


async def test_the_whole_sequence(autojump_clock: trio.testing.MockClock) -> None:
    rows = [partition(0, 1, 2), partition(1, 2, 3), partition(2, 3, 1)]
    async with _world(spu(1, size_bytes=500), spu(2), spu(3), topic(*rows, retention_ms="5"), *rows) as world:
        one = await world.spu(1)
        answer = await one.register()
        assert (answer.error_code, answer.cluster_id, answer.lease_ms, answer.heartbeat_ms) == (
            0,
            "the-cluster",
            1500,
            500,
        )
        await trio.testing.wait_all_tasks_blocked()
        assert world.events == [
            SpuConnected(
                SpuId(1),
                "first",
                "store",
                (PublicListener("PUBLIC", "spu.example", 9005),),
                Address("spu.private.example", 9006),
            )
        ]
        specs, metadata = one.heard
        assert (specs.is_full, specs.size_bytes) == (True, 500)
        (held,) = specs.topics
        assert (held.topic_id, held.name, held.configs) == (TOPIC, "orders", [Config("retention.ms", "5")])
        assert [(p.partition, p.leader, p.epoch, p.replicas, _live(p)) for p in held.partitions] == [
            (0, 1, 3, [1, 2], [1]),
            (2, 3, 3, [3, 1], [3]),
        ]
        assert (metadata.is_full, metadata.version) == (True, world.cluster.version)
        assert (metadata.cluster_id, metadata.controller_id) == ("the-cluster", 1)
        assert [(s.id, s.is_online, s.endpoints[0].host) for s in metadata.spus] == [
            (1, True, "localhost"),
            (2, True, "localhost"),
            (3, True, "localhost"),
        ]
        assert [p.partition for p in metadata.topics[0].partitions] == [0, 1, 2]
        (row,) = world.manager.connections()
        assert (row.spu, row.incarnation, row.software_version) == (1, "first", "1.2.3")
        assert (row.metadata_version, row.is_up_to_date) == (world.cluster.version, True)
        assert (row.lease_seconds_left, row.partitions) == (1.5, 2)
        assert (world.metrics.cm_accepted, world.metrics.pushed_specs, world.metrics.pushed_metadata) == (1, 1, 1)


async def test_an_unregistered_spu_is_rejected(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        stranger = await world.spu(9)
        answer = await stranger.register()
        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert answer.error_message == "SPU 9 is not registered"
        await trio.testing.wait_all_tasks_blocked()
        assert stranger.link.closed_because is not None
        assert (world.metrics.cm_rejected, world.happened, stranger.heard) == (1, [], [])
        assert world.logs("spu_rejected")[0]["reason"] == "SPU 9 is not registered"
        world.store_objects(spu(9))
        await world.registered(9)
        assert len(world.happened) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"incarnation": ""},
        {"private_port": 0},
        {"private_port": 70_000},
        {"private_host": "my host"},
        {"private_security_protocol": "ROT13"},
    ],
)
async def test_a_registration_that_cannot_be_is_rejected(
    fields: dict[str, Any], autojump_clock: trio.testing.MockClock
) -> None:
    async with _world(spu(1)) as world:
        one = await world.spu(1)
        assert (await one.register(**fields)).error_code == ErrorCode.INVALID_REGISTRATION
        assert world.happened == []


async def test_an_spu_that_should_be_encrypted_and_is_not_is_rejected(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _world(spu(1, public=PublicEndpoint(encryption=Encryption.TLS))) as world:
        answer = await (await world.spu(1)).register()
        assert answer.error_code == ErrorCode.INVALID_REGISTRATION
        assert answer.error_message.startswith(
            "SPU 1 may not join: its listener PUBLIC uses PLAINTEXT, but publicEndpoint.encryption says TLS: change "
        )
        assert world.happened == []
        listener = RegisteredListener("PUBLIC", "spu.example", 9005, security_protocol="SASL_SSL")
        answer = await (await world.spu(1)).register(listeners=[listener], private_security_protocol="SSL")
        assert answer.error_code == ErrorCode.NONE
        await trio.testing.wait_all_tasks_blocked()
        (connected,) = world.events
        assert isinstance(connected, SpuConnected)
        assert connected.listeners[0].protocol is SecurityProtocol.SASL_SSL
        assert connected.private_protocol is SecurityProtocol.SSL


async def test_nothing_is_answered_before_the_registration(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.spu(1)
        with pytest.raises(LinkClosed):
            await one.renew()
        assert "RenewLeaseRequest" in world.logs("private_request_refused")[0]["reason"]
        large = await world.spu(1)
        with pytest.raises(LinkClosed):
            await large.register(software_version="x" * 70_000)
        twice = await world.registered(1)
        with pytest.raises(LinkClosed):
            await twice.register()


async def test_a_connection_without_a_registration_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        silent = await world.spu(1)
        await trio.sleep(4.9)
        assert silent.link.closed_because is None
        await trio.sleep(0.2)
        assert silent.link.closed_because is not None


# later changes


async def test_changes_are_told_to_whom_they_concern_specs_first(autojump_clock: trio.testing.MockClock) -> None:
    rows = [partition(0, 1), partition(1, 2)]
    async with _world(spu(1), spu(2), spu(3), topic(*rows), *rows) as world:
        one, two, three = [await world.registered(number) for number in (1, 2, 3)]
        for each in (one, two, three):
            each.heard.clear()
        world.store_objects(partition(1, 2, 1, leader=2, epoch=4))
        await trio.testing.wait_all_tasks_blocked()
        for each in (one, two):
            specs, metadata = each.heard
            assert not specs.is_full
            assert [(t.name, [(p.partition, p.epoch) for p in t.partitions]) for t in specs.topics] == [
                ("orders", [(1, 4)])
            ]
            assert (specs.removed, metadata.is_full) == ([], False)
        (metadata,) = three.heard
        assert [(t.name, [p.partition for p in t.partitions], t.is_whole) for t in metadata.topics] == [
            ("orders", [1], False)
        ]
        assert (metadata.spus, metadata.removed_spus, metadata.removed_topics) == ([], [], [])
        assert metadata.version == world.cluster.version


async def test_a_partition_that_is_held_no_more_is_named_as_removed(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1), spu(2), partition(0, 1, 2), partition(1, 1)) as world:
        one = await world.registered(1)
        one.heard.clear()
        world.store_objects(partition(0, 2))
        await trio.testing.wait_all_tasks_blocked()
        world.manager.apply(DeletePartition(TOPIC, 1))
        await trio.testing.wait_all_tasks_blocked()
        assert [message.removed for message in one.specs] == [
            [RemovedPartition(TOPIC, 0)],
            [RemovedPartition(TOPIC, 1)],
        ]
        assert all(message.topics == [] for message in one.specs)


async def test_an_offline_partition_is_sent_without_a_leader(autojump_clock: trio.testing.MockClock) -> None:
    offline = replace(partition(0, 1), status=replace(partition(0, 1).status, resolution=PartitionResolution.OFFLINE))
    async with _world(spu(1), offline) as world:
        one = await world.registered(1)
        assert one.specs[0].topics[0].partitions[0].leader == -1


async def test_configs_of_a_topic_reach_its_holders_before_the_metadata(
    autojump_clock: trio.testing.MockClock,
) -> None:
    row = partition(0, 1)
    async with _world(spu(1), spu(2), topic(row), row) as world:
        one, two = await world.registered(1), await world.registered(2)
        one.heard.clear()
        two.heard.clear()
        world.store_objects(topic(row, retention_ms="9"))
        await trio.testing.wait_all_tasks_blocked()
        specs, metadata = one.heard
        assert specs.topics[0].configs == [Config("retention.ms", "9")]
        assert [(config.name, config.value) for config in metadata.topics[0].configs] == [("retention.ms", "9")]
        assert two.specs == []


async def test_broker_configs_reach_every_spu_and_the_version_rises_with_them(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _world(spu(1), spu(2)) as world:
        both = [await world.registered(1), await world.registered(2)]
        before = world.cluster.version
        for each in both:
            each.heard.clear()
        world.store_objects(
            ConfigOverrides("", {"log.retention.ms": "7"}), ConfigOverrides("2", {"log.segment.bytes": "8"})
        )
        await trio.testing.wait_all_tasks_blocked()
        for each in both:
            specs, metadata = each.heard
            assert specs.default_configs == [Config("log.retention.ms", "7")]
            assert specs.own_configs == ([Config("log.segment.bytes", "8")] if each.id == 2 else [])
            assert not specs.is_full
            assert metadata.version == world.cluster.version > before


async def test_a_new_size_is_told_and_a_new_status_is_not(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1, size_bytes=10)) as world:
        one = await world.registered(1)
        one.heard.clear()
        world.store_objects(replace(spu(1, size_bytes=10), status=SpuStatus(reason="new")))
        await trio.testing.wait_all_tasks_blocked()
        assert one.specs == []
        world.store_objects(spu(1, size_bytes=20))
        await trio.testing.wait_all_tasks_blocked()
        assert [specs.size_bytes for specs in one.specs] == [20]


async def test_a_stalled_spu_delays_no_other_and_then_gets_the_newest_state_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    row = partition(0, 1, 2)
    async with _world(spu(1), spu(2), topic(row), row) as world:
        one, two = await world.registered(1), await world.registered(2)
        world.nursery.start_soon(one.stay)
        world.nursery.start_soon(two.stay)
        one.may_answer = trio.Event()
        for epoch in range(4, 30):
            world.store_objects(partition(0, 1, 2, epoch=epoch))
            await trio.sleep(0.3)
        assert len(two.specs) == 27
        assert len(one.specs) == 2  # the full one, and the one without a response
        stalled, well = world.manager.connections()
        assert (stalled.is_up_to_date, well.is_up_to_date) == (False, True)
        one.may_answer.set()
        await trio.sleep(0.1)
        assert [specs.topics[0].partitions[0].epoch for specs in one.specs] == [3, 4, 29]
        assert one.metadata[-1].version == world.cluster.version
        assert world.manager.connections()[0].is_up_to_date


async def test_reconciliation_tells_everyone_everything_again(autojump_clock: trio.testing.MockClock) -> None:
    row = partition(0, 1)
    async with _world(spu(1), spu(2), topic(row), row) as world:
        both = [await world.registered(1), await world.registered(2)]
        world.manager.reconcile()
        await trio.testing.wait_all_tasks_blocked()
        for each in both:
            first, again = each.specs
            assert again == first
            assert [metadata.is_full for metadata in each.metadata] == [True, True]


async def test_no_log_and_no_topic_is_given_up_because_an_object_was_damaged(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _world(spu(1), partition(0, 1)) as world:
        world.unreadable["partition/x/1"] = 5
        one = await world.registered(1)
        assert not one.specs[0].is_full
        assert one.metadata[0].hidden_topics == [partition(0, 1).topic_id]
        world.unreadable.clear()
        world.manager.reconcile()
        await trio.testing.wait_all_tasks_blocked()
        assert one.specs[1].is_full
        assert one.metadata[1].hidden_topics == []


async def test_ten_thousand_partitions_go_over_whole(autojump_clock: trio.testing.MockClock) -> None:
    rows = [partition(number, 1, 2, 3) for number in range(10_000)]
    async with _world(spu(1), topic(*rows), *rows) as world:
        one = await world.registered(1)
        assert len(one.specs[0].topics[0].partitions) == len(one.metadata[0].topics[0].partitions) == 10_000


# leases


async def test_a_lease_that_is_renewed_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        world.nursery.start_soon(one.stay)
        await trio.sleep(20)
        assert len(world.happened) == 1
        assert one.link.closed_because is None


async def test_a_silent_spu_is_lost_when_its_lease_ends(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        await trio.sleep(1.4)
        assert len(world.happened) == 1
        await trio.sleep(0.2)
        assert world.happened[1:] == [SpuLost(SpuId(1), "first", "its lease has expired")]
        assert [log["log_level"] for log in world.logs("spu_lost")] == ["warning"]
        await trio.testing.wait_all_tasks_blocked()
        assert one.link.closed_because is not None
        assert (world.manager.connections(), world.metrics.cm_lost) == ([], 1)


async def test_a_process_that_comes_back_within_its_lease_was_never_away(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _world(spu(1), partition(0, 1)) as world:
        one = await world.registered(1)
        one.link.close()
        await trio.sleep(1)
        assert world.manager.connections() == []
        again = await world.registered(1)
        world.nursery.start_soon(again.stay)
        await trio.sleep(3)
        assert world.happened == [world.happened[0]] * 2
        assert [specs.is_full for specs in again.specs] == [True]
        assert again.specs[0] == one.specs[0]


async def test_a_process_that_does_not_come_back_is_lost(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        one.link.close()
        await trio.sleep(1.4)
        assert len(world.happened) == 1
        await trio.sleep(0.2)
        assert isinstance(world.happened[1], SpuLost)


async def test_a_killed_process_is_succeeded_by_the_next_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1, "first")
        one.link.close()
        await trio.testing.wait_all_tasks_blocked()
        world.nursery.start_soon((await world.registered(1, "second")).stay)
        await trio.sleep(5)
        assert [type(event) for event in world.happened] == [SpuConnected, SpuConnected]
        assert world.manager.connections()[0].incarnation == "second"


@pytest.mark.parametrize("addresses", [ADDRESSES_OF_SPUS, ADDRESSES_OF_SPUS[::-1]])
async def test_a_process_whose_addresses_refuse_is_lost_at_once(
    addresses: tuple[Address, ...], autojump_clock: trio.testing.MockClock
) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        one.link.close()
        for address in addresses:
            await trio.sleep(0.1)
            assert len(world.happened) == 1, "clients, or other SPUs, may still reach it"
            world.network.listeners[address].close()
        await trio.sleep(0.1)
        assert world.happened[1:] == [SpuLost(SpuId(1), "first", "its process has ended")]
        await trio.sleep(5)
        assert len(world.happened) == 2


async def test_a_connected_process_is_alive_although_its_addresses_refuse(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        one.link.close()
        await trio.testing.wait_all_tasks_blocked()
        again = await world.registered(1)
        for address in ADDRESSES_OF_SPUS:
            world.network.listeners[address].close()
        await trio.sleep(1.4)
        assert [type(event) for event in world.happened] == [SpuConnected, SpuConnected]
        assert again.link.closed_because is None


async def test_the_second_of_two_processes_with_one_id_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1, "first")
        world.nursery.start_soon(one.stay)
        await trio.sleep(3.2)
        answer = await (await world.spu(1, "second")).register()
        assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert "another process is SPU 1" in (answer.error_message or "")
        assert answer.lease_ms == 1500
        await trio.sleep(3)
        assert len(world.happened) == 1
        assert one.link.closed_because is None


async def test_a_new_connection_of_the_same_process_takes_over_from_the_old(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _world(spu(1)) as world:
        old = await world.registered(1)
        new = await world.registered(1)
        assert old.link.closed_because is not None
        world.nursery.start_soon(new.stay)
        await trio.sleep(5)
        assert [type(event) for event in world.happened] == [SpuConnected, SpuConnected]
        assert len(world.manager.connections()) == 1


async def test_a_clean_stop_gives_the_lease_back_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        await one.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert world.happened[1:] == [SpuLost(SpuId(1), "first", "it stopped")]
        assert [log["log_level"] for log in world.logs("spu_left")] == ["info"]
        assert not world.logs("spu_lost")
        assert one.link.closed_because is not None
        await trio.sleep(5)
        assert len(world.happened) == 2


async def test_an_spu_that_is_deleted_is_sent_away_and_not_let_in_again(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        world.manager.apply(DeleteSpu(SpuId(1)))
        await trio.testing.wait_all_tasks_blocked()
        assert one.link.closed_because is not None
        assert world.happened[1:] == [SpuLost(SpuId(1), "first", "it is not registered any more")]
        again = await world.spu(1)
        assert (await again.register()).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_the_process_of_an_unregistered_custom_spu_does_not_become_the_spu_of_a_group(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _world(spu(1)) as world:
        await world.registered(1)
        world.manager.apply(DeleteSpu(SpuId(1)))
        world.store_objects(spu(1, type=SpuType.MANAGED, group="edge"))
        refused = await (await world.spu(1)).register()
        assert refused.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert refused.error_message == (
            "this process is the custom SPU 1, which was unregistered, and SPU 1 belongs to the SPU group edge now; "
            "stop this process"
        )
        assert (await (await world.spu(1, "another")).register()).error_code == ErrorCode.NONE


async def test_a_custom_spu_that_is_registered_again_is_admitted_again(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        await world.registered(1)
        world.manager.apply(DeleteSpu(SpuId(1)))
        world.store_objects(spu(1))
        assert (await (await world.spu(1)).register()).error_code == ErrorCode.NONE


async def test_the_first_lease_does_not_run_while_the_sc_stands_still(mock_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        mock_clock.jump(100)
        await trio.testing.wait_all_tasks_blocked()
        assert world.events == []
        await world.registered(1)
        mock_clock.jump(0.6)
        await trio.testing.wait_all_tasks_blocked()
        assert [type(event) for event in world.events] == [SpuConnected, LeaseGracePeriodOver]


async def test_an_spu_owes_an_answer_until_it_knows_its_specs_and_the_metadata() -> None:
    async with _world(spu(1)) as world:
        assert not world.manager.owes_response(SpuId(1)), "it is not here"
        one = await world.registered(1)
        assert not world.manager.owes_response(SpuId(1))
        one.may_answer = trio.Event()
        world.manager.reconcile()
        await trio.testing.wait_all_tasks_blocked()
        assert world.manager.owes_response(SpuId(1)) and world.manager.is_carrying_out_specs(SpuId(1))
        applied, one.may_answer = one.may_answer, trio.Event()
        applied.set()
        await trio.testing.wait_all_tasks_blocked()
        assert world.manager.owes_response(SpuId(1)) and not world.manager.is_carrying_out_specs(SpuId(1))
        one.may_answer.set()
        await trio.testing.wait_all_tasks_blocked()
        assert not world.manager.owes_response(SpuId(1))


async def test_spus_that_do_not_connect_within_a_lease_are_offline(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        await trio.sleep(1.4)
        assert world.events == []
        await trio.sleep(0.2)
        assert world.events == [LeaseGracePeriodOver()]
        await trio.sleep(10)
        assert world.events == [LeaseGracePeriodOver()]


async def test_after_all_spus_were_lost_another_grace_period_begins(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _world(spu(1), spu(2)) as world:
        await trio.sleep(0.5)
        await world.registered(1)
        await trio.sleep(1.4)
        two = await world.registered(2)
        await trio.sleep(1.4)
        assert world.happened[-1] == SpuLost(SpuId(1), "first", "its lease has expired")
        assert world.events.count(LeaseGracePeriodOver()) == 1, "there was always somebody"
        await two.leave()
        await trio.sleep(10)
        assert world.events.count(LeaseGracePeriodOver()) == 1, "there is nobody yet"
        two = await world.registered(2, "second")
        await trio.sleep(1)
        await two.leave()
        await world.registered(1, "second")
        await trio.sleep(1.4)
        assert world.events.count(LeaseGracePeriodOver()) == 1
        await trio.sleep(0.2)
        assert world.events.count(LeaseGracePeriodOver()) == 2
        await trio.sleep(10)
        assert world.events.count(LeaseGracePeriodOver()) == 2


async def test_when_none_came_in_the_first_lease_another_passes_after_the_first_spu(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _world(spu(1), spu(2)) as world:
        await trio.sleep(10)
        assert world.events == [LeaseGracePeriodOver()]
        await world.registered(1)
        await trio.sleep(1.2)
        await world.registered(2)
        await trio.sleep(0.2)
        assert world.events.count(LeaseGracePeriodOver()) == 1
        await trio.sleep(0.2)
        assert world.events.count(LeaseGracePeriodOver()) == 2
        await trio.sleep(0.5)
        assert world.events.count(LeaseGracePeriodOver()) == 2


async def test_leases_do_not_run_while_the_sc_stands_still(mock_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        mock_clock.jump(100)
        await trio.testing.wait_all_tasks_blocked()
        assert world.happened[1:] == []
        assert await one.renew() == 0
        assert world.logs("sc_stalled")[0]["seconds"] == pytest.approx(98.5)


def _live(partition: PartitionState) -> list[int]:
    return [each.spu_id for each in partition.live_replicas]


# reports and requests of SPUs


def _reported(number: int) -> ReportedPartition:
    return ReportedPartition(TOPIC, number, 3, 5, [Member(1, "store of 1")])


async def test_reports_of_spus_reach_the_controllers(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1), partition(0, 1)) as world:
        one = await world.registered(1)
        assert await one.report(_reported(0)) == 0
        assert await one.renew(5, 5) == ErrorCode.NONE
        assert await one.report(ReportedPartition(TOPIC, 0, 3, has_failed=True)) == 0
        await trio.testing.wait_all_tasks_blocked()
        happened = [type(event) for event in world.happened[1:]]
        assert happened == [LiveReplicasReported, StorageReported, ReplicaFailed]
        assert world.manager.reports.failed(0) == {(TOPIC, 0, SpuId(1))}
        one.link.close("a test wants it")
        await trio.testing.wait_all_tasks_blocked()
        assert world.manager.reports.failed(0) == frozenset(), "it is known for as long as its process is there"


async def test_reports_about_shelves_reach_the_controllers(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1), partition(0, 1)) as world:
        one = await world.registered(1)
        for epoch, code in ((3, ErrorCode.NONE), (2, ErrorCode.FENCED_LEADER_EPOCH)):
            answer = await one.link.ask(ReportShelvesRequest([ReportedShelves(TOPIC, 0, epoch)]))
            assert answer.error_code == code
        await trio.testing.wait_all_tasks_blocked()
        assert world.happened[1:] == [ShelvesReported(SpuId(1), "first", TOPIC, 0, Epoch(3), 0)]


async def test_a_store_of_a_shelf_gets_the_partition_until_it_loses_the_shelf(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shelved = partition(0, 1)
    shelf = Shelf(0, 5, (SpuId(2),))
    shelved = replace(shelved, spec=replace(shelved.spec, shelves=(shelf,)))
    async with _world(spu(1), spu(2), spu(3), shelved) as world:
        two, three = await world.registered(2), await world.registered(3)
        assert [[each.partition for each in topic.partitions] for topic in two.specs[0].topics] == [[0]]
        assert three.specs[0].topics == []
        assert [(each.spu, each.partitions) for each in world.manager.connections()] == [(2, 0), (3, 0)], (
            "it is no replica"
        )
        moved = replace(shelved, spec=replace(shelved.spec, shelves=(replace(shelf, stores=(SpuId(3),)),)))
        world.manager.apply(UpdatePartition(moved))
        await trio.testing.wait_all_tasks_blocked()
        assert two.specs[-1].removed == [RemovedPartition(TOPIC, 0)]
        (told,) = three.specs[-1].topics[0].partitions
        assert (told.replicas, told.shelves) == ([1], [ToldShelf(0, 5, [3])])


async def test_when_the_controllers_are_busy_reports_wait_and_leases_do_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    rows = [partition(number, 1) for number in range(EVENTS_WAITING_MAX + 50)]
    async with _world(spu(1), *rows) as world:
        one = await world.registered(1)
        world.nursery.start_soon(one.stay)
        await trio.sleep(2)
        world.may_hear = trio.Event()
        world.nursery.start_soon(one.report, *[_reported(row.number) for row in rows])
        await trio.sleep(10)
        assert one.link.closed_because is None
        assert EVENTS_WAITING_MAX - 1 <= len(world.manager._events._waiting) <= EVENTS_WAITING_MAX
        world.may_hear.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(world.happened) == 1 + len(rows)


async def test_producer_ids_and_forwarded_requests(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        block = await one.link.ask(AllocateProducerIdsRequest())
        assert (block.error_code, block.first_id, block.count) == (0, 1000, 1000)
        answer = await one.link.ask(ForwardRequest(19, 7, b"abc"))
        assert (answer.error_code, answer.body, answer.metadata_version) == (0, b"cba", world.cluster.version)
        assert (world.forwarded[0].api_key, world.forwarded[0].api_version) == (19, 7)
        refused = await one.link.ask(ForwardRequest(19, 7, b""))
        assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, "nothing")


async def test_a_request_that_cannot_be_answered_costs_its_spu_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        answer = await one.link.ask(ForwardRequest(19, 7, b"mistake"))
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await one.link.ask(ForwardRequest(19, 7, b"abc"))).body == b"cba"
        assert one.link.closed_because is None


@pytest.mark.parametrize(("count", "size"), [(FORWARDS_MAX, 1), (8, FORWARDED_BYTES_MAX // 8)])
async def test_changes_that_take_long_do_not_cost_the_lease(
    count: int, size: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with _world(spu(1)) as world:
        one = await world.registered(1)
        world.nursery.start_soon(one.stay)
        world.may_answer_forwarded = trio.Event()
        for _ in range(count):
            world.nursery.start_soon(one.link.ask, ForwardRequest(19, 7, bytes(size)))
        await trio.sleep(10)
        assert one.link.closed_because is None
        assert len(world.forwarded) == count
        answer = await one.link.ask(ForwardRequest(19, 7, bytes(size)))
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        world.may_answer_forwarded.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (await one.link.ask(ForwardRequest(19, 7, bytes(size)))).error_code == 0


async def test_the_sc_asks_an_spu(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1), spu(2)) as world:
        await world.registered(1)
        await world.registered(2)
        for number in (1, 2):
            answer = await world.manager.ask_spu(SpuId(number), DescribeReplicasRequest())
            assert answer.replicas[0].size_bytes == number
        with pytest.raises(LinkClosed, match="SPU 3 is not connected"):
            await world.manager.ask_spu(SpuId(3), DescribeReplicasRequest())


async def test_spus_that_were_offline_for_some_time(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(spu(1), spu(2)) as world:
        one = await world.registered(1)
        world.nursery.start_soon(one.stay)
        await trio.sleep(10)
        assert world.manager.away(9) == {SpuId(2)}, "it has not been heard of since the SC began"
        assert world.manager.away(11) == set()
        one.link.close("test")
        await trio.sleep(5)
        assert world.manager.away(5) == {SpuId(2)}, "its lease went on for a while"
        assert world.manager.away(3) == {SpuId(1), SpuId(2)}
