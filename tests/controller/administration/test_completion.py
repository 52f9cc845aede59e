from uuid import UUID

from msgspec.structs import replace

from tailrace.cluster.cluster import Cluster
from tailrace.controller.administration.completion import CompletionConditions
from tailrace.controller.objects.objects import (
    Object,
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    SpuGroupSpec,
    SpuGroupStatus,
    SpuResolution,
    SpuSpec,
    SpuStatus,
    SpuType,
    Topic,
    TopicResolution,
    TopicSpec,
    TopicStatus,
)
from tailrace.controller.state.cluster_mirror import ClusterMirror
from tailrace.controller.state.events import Removed, Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.ids import Epoch, SpuId

TOPIC = UUID(int=7)
ONE = SpuId(1)


class World:
    def __init__(self) -> None:
        self.local = LocalStore()
        self.cluster = Cluster()
        self.mirror = ClusterMirror(self.local, self.cluster)
        self.completion = CompletionConditions(self.local, self.cluster)
        self.version = 0

    def store(self, *objects: Object) -> None:
        for each in objects:
            self.version += 1
            change = self.local.apply(Stored(replace(each, version=self.version)))
            assert change is not None
            self.mirror.on_change(change)
        self.mirror.publish()

    def remove(self, key: str) -> None:
        self.version += 1
        change = self.local.apply(Removed(key, self.version))
        assert change is not None
        self.mirror.on_change(change)
        self.mirror.publish()


def spu(resolution: SpuResolution, spu_id: SpuId = ONE, group: str | None = None) -> Spu:
    spu_type = SpuType.CUSTOM if group is None else SpuType.MANAGED
    return Spu(SpuSpec(spu_id, spu_type, group=group), SpuStatus(resolution, "first"))


def topic(resolution: TopicResolution, rows: int = 2) -> Topic:
    replica_map = dict.fromkeys(range(rows), (ONE,)) if resolution is TopicResolution.PROVISIONED else {}
    return Topic("orders", TOPIC, TopicSpec(rows), TopicStatus(resolution, replica_map))


def partition(number: int, resolution: PartitionResolution) -> Partition:
    status = PartitionStatus(resolution, ONE, Epoch(0), "first", {ONE: "store"})
    return Partition("orders", TOPIC, number, PartitionSpec(ONE, (ONE,)), status)


def test_a_topic_has_settled_when_it_is_served_or_there_is_a_reason_why_not() -> None:
    world = World()
    world.store(spu(SpuResolution.ONLINE), topic(TopicResolution.PENDING))
    settled = world.completion.topic_settled(TOPIC, 2)
    assert not settled()
    world.store(topic(TopicResolution.INSUFFICIENT_RESOURCES))
    assert settled()
    world.store(topic(TopicResolution.PROVISIONED))
    assert not settled()
    world.store(*(partition(number, PartitionResolution.ONLINE) for number in range(2)))
    assert settled()


def test_a_topic_is_served_when_all_its_leaders_have_reported_in() -> None:
    world = World()
    world.store(spu(SpuResolution.ONLINE), topic(TopicResolution.PENDING))
    served = world.completion.topic_served(TOPIC, 2)
    assert not served()
    world.store(topic(TopicResolution.PROVISIONED), partition(0, PartitionResolution.ONLINE))
    assert not served()
    world.store(partition(1, PartitionResolution.CANDIDATE_FOUND))
    assert not served()
    world.store(partition(1, PartitionResolution.ONLINE))
    assert served()


def test_a_partition_whose_spus_are_away_is_not_waited_for() -> None:
    world = World()
    world.store(spu(SpuResolution.OFFLINE), topic(TopicResolution.PROVISIONED, 1))
    world.store(partition(0, PartitionResolution.OFFLINE))
    assert world.completion.topic_served(TOPIC, 1)()


def test_a_topic_that_was_deleted_meanwhile_is_not_waited_for() -> None:
    world = World()
    served, gone = world.completion.topic_served(TOPIC, 1), world.completion.topic_deleted(TOPIC)
    world.store(topic(TopicResolution.PENDING))
    assert not served()
    assert not gone()
    world.remove("topic/orders")
    assert served()
    assert gone()


def test_a_topic_is_decided_when_it_has_rows_or_a_reason() -> None:
    world = World()
    decided = world.completion.topic_decided(TOPIC)
    for resolution, expected in (
        (TopicResolution.NONE, False),
        (TopicResolution.INIT, False),
        (TopicResolution.PENDING, False),
        (TopicResolution.INSUFFICIENT_RESOURCES, True),
        (TopicResolution.INVALID_CONFIG, True),
        (TopicResolution.PROVISIONED, True),
    ):
        world.store(topic(resolution))
        assert decided() == expected, resolution


def test_an_spu_is_waited_for_until_it_is_online_or_gone() -> None:
    world = World()
    online = world.completion.spu_online(ONE)
    world.store(spu(SpuResolution.INIT))
    assert not online()
    world.store(spu(SpuResolution.ONLINE))
    assert online()
    world.remove("spu/1")
    assert online()


def test_a_group_runs_when_all_its_spus_are_online() -> None:
    world = World()
    decided, running = world.completion.group_decided("main"), world.completion.group_running("main")
    init = SpuGroup("main", SpuGroupSpec(2, ONE))
    world.store(init)
    assert not decided()
    world.store(replace(init, status=SpuGroupStatus(SpuGroupResolution.RESERVED)))
    assert decided()
    world.store(spu(SpuResolution.ONLINE, ONE, "main"), spu(SpuResolution.INIT, SpuId(2), "main"))
    assert not running()
    world.store(spu(SpuResolution.ONLINE, SpuId(2), "main"))
    assert running()
    world.store(replace(init, status=SpuGroupStatus(SpuGroupResolution.INVALID, "taken")))
    assert running(), "it will not change"
    world.remove("spu-group/main")
    assert decided()
    assert running()
