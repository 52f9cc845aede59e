from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import structlog
import trio
import trio.testing
from scripted_spu import ScriptedSpu
from security_samples import ALICE
from simulation.network import MemoryNetwork

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import NO_LEADER, SpuSpec, TopicSpec
from tailrace.cluster.specs import PartitionSpec as MirroredPartition
from tailrace.controller.connections.spec_cache import SpecCache
from tailrace.controller.connections.spu_stream import Registered, SpuStream
from tailrace.controller.objects.objects import Partition, PartitionResolution, PartitionSpec, PartitionStatus, Spu
from tailrace.controller.objects.objects import SpuSpec as StoredSpec
from tailrace.controller.sc_metrics import ScMetrics
from tailrace.controller.state.cluster_mirror import MirrorChange
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, SPU_PRIVATE_APIS
from tailrace.runtime.network import Address
from tailrace.server.private_link import PrivateLink

ONE, TWO = SpuId(1), SpuId(2)
ADDRESS = Address("sc", 9004)


@dataclass
class _World:
    spu: ScriptedSpu
    cache: SpecCache = field(default_factory=SpecCache)
    cluster: Cluster = field(default_factory=Cluster)
    stream: SpuStream = field(init=False)
    link: PrivateLink = field(init=False)

    def accept(self) -> None:
        self.stream.accept(Registered(ONE, "first", "1", 0.0))

    def change(self) -> None:
        spec = SpuSpec(TWO, rack=str(self.cluster.version))
        self.cluster.put_spu(spec)
        self.stream.queue_metadata(MirrorChange(spus=(spec,)))


async def _nothing(_: object, __: object) -> object:
    raise NotImplementedError


@asynccontextmanager
async def _world() -> AsyncIterator[_World]:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)
    async with trio.open_nursery() as nursery:
        world = _World(ScriptedSpu())
        await world.spu.connect(network, ADDRESS, nursery)
        world.cache.spus[ONE] = Spu(StoredSpec(ONE))
        world.stream = SpuStream(world.cache, LocalStore(), world.cluster, {}, ScMetrics({}), structlog.get_logger())
        world.link = PrivateLink(
            await listener.accept(),
            serves=SC_PRIVATE_APIS,
            asks=SPU_PRIVATE_APIS,
            handle=_nothing,
            concurrent=frozenset(),
            logger=structlog.get_logger(),
        )
        nursery.start_soon(world.link.run)
        nursery.start_soon(world.stream.push, world.link)
        await trio.testing.wait_all_tasks_blocked()
        yield world
        nursery.cancel_scope.cancel()


async def test_nothing_is_told_before_the_spu_was_accepted() -> None:
    async with _world() as world:
        world.stream.queue_everything()
        world.stream.queue_configs()
        world.change()
        await trio.testing.wait_all_tasks_blocked()
        assert world.spu.heard == []
        world.accept()
        await trio.testing.wait_all_tasks_blocked()
        assert [type(message).__name__ for message in world.spu.heard] == ["ApplySpecsRequest", "ApplyMetadataRequest"]
        assert (world.stream.sent_version, world.stream.is_up_to_date) == (world.cluster.version, True)


async def test_changes_during_a_message_are_sent_next() -> None:
    async with _world() as world:
        world.spu.may_answer = trio.Event()
        world.accept()
        await trio.testing.wait_all_tasks_blocked()
        before = world.cluster.version
        for _ in range(3):
            world.change()
        assert not world.stream.is_up_to_date
        world.spu.may_answer.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [(each.is_full, each.version) for each in world.spu.metadata] == [(True, before), (False, before + 3)]
        assert [spu.rack for spu in world.spu.metadata[1].spus] == [str(before + 2)]
        assert len(world.spu.specs) == 1


async def test_a_group_that_sets_something_is_told_once() -> None:
    async with _world() as world:
        world.accept()
        await trio.testing.wait_all_tasks_blocked()
        for topic_less_change in range(2):
            world.cluster.put_group_configs("g", {"consumer.session.timeout.ms": "50000"})
            world.stream.queue_metadata(MirrorChange(groups=("g",) if topic_less_change == 0 else ()))
            await trio.testing.wait_all_tasks_blocked()
        assert [[group.group for group in each.groups] for each in world.spu.metadata[1:]] == [["g"], []]


async def test_a_version_that_rose_for_nothing_is_told_too() -> None:
    async with _world() as world:
        world.accept()
        await trio.testing.wait_all_tasks_blocked()
        world.cluster.identify("", SpuId(-1))
        world.stream.queue_metadata(MirrorChange(are_overrides_changed=True))
        await trio.testing.wait_all_tasks_blocked()
        assert world.spu.metadata[1].version == world.cluster.version


async def test_more_than_can_travel_costs_the_stream_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.server.private_link.FRAME_BYTES_MAX", 1000)
    with structlog.testing.capture_logs() as logged:
        async with _world() as world:
            world.cluster.put_spu(SpuSpec(TWO, rack="r" * 1000))
            world.accept()
            await trio.testing.wait_all_tasks_blocked()
            assert world.link.closed_because is not None
    assert "push_failed" in [entry["event"] for entry in logged]


@pytest.mark.parametrize(("elected", "leader"), [("first", ONE), ("earlier", NO_LEADER)])
async def test_a_process_leads_only_what_it_was_elected_for_itself(elected: str, leader: SpuId) -> None:
    """The process before may have lost records with the page cache, so nothing more may be written in its epoch."""
    async with _world() as world:
        status = PartitionStatus(PartitionResolution.ONLINE, ONE, Epoch(5), elected, {ONE: "store"})
        world.cache.put_partition(Partition("t", TopicId(int=7), 0, PartitionSpec(ONE, (ONE, TWO)), status))
        world.accept()
        await trio.testing.wait_all_tasks_blocked()
        (topic,) = world.spu.specs[0].topics
        assert [(each.leader, each.epoch) for each in topic.partitions] == [(leader, 5)]


async def test_only_changed_partitions_of_a_topic_are_sent_unless_everything_is_due() -> None:
    async with _world() as world:
        rows = tuple(MirroredPartition(TopicId(int=7), "t", n, ONE, Epoch(0), (ONE,), (ONE,)) for n in range(4))
        topic = TopicSpec(TopicId(int=7), "t", {}, rows)
        world.cluster.put_topic(topic)
        world.accept()
        await trio.testing.wait_all_tasks_blocked()

        def told() -> list[tuple[list[int], bool]]:
            (found,) = world.spu.metadata[-1].topics
            return [([each.partition for each in found.partitions], found.is_whole)]

        assert told() == [([0, 1, 2, 3], True)]
        world.spu.may_answer = trio.Event()
        for changed in (frozenset({1}), frozenset({3}), frozenset({2})):
            world.cluster.put_topic(topic)
            world.stream.queue_metadata(MirrorChange(topics=(topic,), partitions={topic.id: changed}))
            await trio.testing.wait_all_tasks_blocked()
        world.spu.may_answer.set()
        await trio.testing.wait_all_tasks_blocked()
        assert told() == [([2, 3], False)]
        world.spu.may_answer = trio.Event()
        world.change()
        await trio.testing.wait_all_tasks_blocked()
        world.stream.queue_metadata(MirrorChange(topics=(topic,), partitions={topic.id: frozenset({1})}))
        world.stream.queue_metadata(MirrorChange(topics=(topic,)))
        world.stream.queue_metadata(MirrorChange(topics=(topic,), partitions={topic.id: frozenset({2})}))
        world.spu.may_answer.set()
        await trio.testing.wait_all_tasks_blocked()
        assert told() == [([0, 1, 2, 3], True)]


async def test_a_changed_user_is_told_once() -> None:
    async with _world() as world:
        world.accept()
        await trio.testing.wait_all_tasks_blocked()
        world.cluster.put_security(ALICE)
        world.stream.queue_metadata(MirrorChange(security=(("user", "alice"),)))
        await trio.testing.wait_all_tasks_blocked()
        world.cluster.identify("", SpuId(-1))
        world.stream.queue_metadata(MirrorChange(are_overrides_changed=True))
        await trio.testing.wait_all_tasks_blocked()
        assert [[each.key for each in message.security] for message in world.spu.metadata[1:]] == [["alice"], []]
