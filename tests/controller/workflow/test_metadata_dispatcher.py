"""All decisions of the SC together: events become actions, and actions become events, in any order."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from random import Random
from uuid import UUID

import pytest
from controller_model import Brain, ModelSc, connected, custom, group, model, topic, topic_id
from hypothesis import given, settings
from hypothesis import strategies as st
from seeds import seeds

from tailrace.cluster.specs import NO_LEADER
from tailrace.controller.objects.objects import (
    ConfigOverrides,
    DeletedTopic,
    Object,
    Partition,
    PartitionResolution,
    PartitionSpec,
    ProducerIdBlock,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    Topic,
    TopicResolution,
    keepers_of,
)
from tailrace.controller.objects.partition_states import TRANSITIONS, Transition
from tailrace.controller.partitions.copy_sets import is_changing
from tailrace.controller.state.actions import AddSpu, Delete, Put
from tailrace.controller.state.events import LeaseGracePeriodOver, ReconciliationDue, Removed, Stored
from tailrace.protocol.ids import NO_EPOCH, SpuId

CUSTOM = (1, 2, 3)
SPUS = range(1, 20)
"""Those of the groups as well."""
TOPICS = (1, 2, 3)


class World:
    """A cluster of three custom SPUs and two groups, in which drawn numbers choose the next event."""

    def __init__(self) -> None:
        self.sc = ModelSc()
        self.starts = 0

    def step(self, choice: int) -> None:
        """Makes one step. Usually something that waits goes on, and sometimes something happens outside."""
        steps = self.sc.enabled()
        if not steps or choice % 8 == 0:
            steps = self._possible(choice // 8 % 13)
        if steps:
            steps[choice // 128 % len(steps)]()

    def _possible(self, kind: int) -> list[Callable[[], None]]:
        sc, stored = self.sc, self.sc.kv.objects
        if kind == 0:
            lose = [sc.lose_a_write] * 2 if sc.writes else []
            reconcile = [self._reconcile] if sc.listing_left <= 0 else []
            return [*lose, *reconcile, sc.end_first_lease, sc.crash]
        if kind == 1:
            return [lambda key=key: sc.touch(key) for key in stored if key.startswith(("partition", "topic", "spu"))]
        if kind in (2, 3):
            return self._of_spus()
        if kind == 4:
            return self._of_groups()
        if kind == 5:
            return [lambda key=key: self._report(sc.told[key]) for key in sc.told]
        if kind in (6, 7):
            return self._of_elections()
        if kind in (8, 9, 10):
            reports = [self._begin_shelf, self._fill_shelves, self._fill_shelves, self._delete_shelf]
            return [lambda report=report, key=key: report(sc.told[key]) for report in reports for key in sc.told]
        return self._of_topics()

    def _of_spus(self) -> list[Callable[[], None]]:
        sc = self.sc
        steps: list[Callable[[], None]] = []
        for spu in (*CUSTOM, *(spu for spu in sc.provisioned if spu not in CUSTOM)):
            if f"spu/{spu}" not in sc.kv.objects:
                steps += [lambda spu=spu: sc.write(custom(spu))] if spu in CUSTOM else []
            elif spu in sc.running:
                steps += [lambda spu=spu: sc.stop_spu(spu), lambda spu=spu: self._start(spu)]
            else:
                steps.append(lambda spu=spu: self._start(spu))
                steps.append(lambda spu=spu: self._start_with_what_it_had(spu))
        return steps

    def _of_elections(self) -> list[Callable[[], None]]:
        sc = self.sc
        silence = [lambda who=who, spu=spu: who.add(spu) for who in (sc.mute, sc.mute_elected) for spu in CUSTOM]
        speech = [sc.mute.clear, sc.mute_elected.clear]
        ends = [lambda spu=spu: sc.log_ends.update({spu: sc.log_ends.get(spu, 0) + 1}) for spu in CUSTOM]
        return [sc.wait_for_leaders, sc.wait_for_leaders, *silence, *speech, *ends]

    def _of_groups(self) -> list[Callable[[], None]]:
        sc = self.sc
        steps: list[Callable[[], None]] = []
        for name, min_id in (("a", 11), ("b", 12)):
            if f"spu-group/{name}" not in sc.kv.objects:
                steps.append(lambda name=name, min_id=min_id: sc.write(group(name, 2, min_id)))
            else:
                steps.append(lambda name=name: sc.scale(name, 1 + sc.group(name).spec.replicas % 3))
                steps.append(lambda name=name: sc.remove(sc.group(name)))
        return steps

    def _of_topics(self) -> list[Callable[[], None]]:
        sc = self.sc
        steps: list[Callable[[], None]] = []
        for number in TOPICS:
            name = f"t{number}"
            if f"topic/{name}" in sc.kv.objects:
                steps.append(lambda name=name: sc.delete_topic(name))
                if sc.topic(name).spec.partitions < 5:
                    steps.append(lambda name=name: sc.grow_topic(name, sc.topic(name).spec.partitions + 1))
            elif f"deleted-topic/{topic_id(number)}" in sc.kv.objects:
                steps.append(lambda number=number: sc.undelete_topic(topic_id(number)))
            else:
                steps.append(lambda number=number: sc.write(topic(f"t{number}", 3, number, number=number)))
        return steps

    def _report(self, told: Partition) -> None:
        """Makes the leader, if it is online, report that all SPUs that are online have caught up."""
        sc = self.sc
        if sc.running.get(told.status.leader) == told.status.incarnation:
            there = [spu for spu in told.spec.replicas if spu in sc.running and f"spu/{spu}" in sc.kv.objects]
            sc.report(told, tuple(there))

    def _begin_shelf(self, told: Partition) -> None:
        base = max(told.spec.shelved_end, told.spec.shelved_from, 5)
        self._commit(base)
        self.sc.report_shelves(told, shelved_from=told.spec.shelved_from, next_base=base)

    def _fill_shelves(self, told: Partition) -> None:
        """Makes the leader report that all stores have their shelves, and that the last shelf has grown."""
        shelves = told.spec.shelves
        last = shelves[-1] if shelves else None
        filled = [
            (shelf.base, spu, shelf.end + (shelf is last))
            for shelf in shelves
            for spu in (*shelf.stores, *shelf.filling)
            if spu in self.sc.running
        ]
        self._commit(max((end for _, _, end in filled), default=0))
        self.sc.report_shelves(told, *filled)

    def _commit(self, end: int) -> None:
        """Commits more records, which all possible leaders have. Shelved records are committed."""
        self.sc.log_ends |= {spu: max(self.sc.log_ends.get(spu, 0), end) for spu in SPUS}

    def _delete_shelf(self, told: Partition) -> None:
        if len(told.spec.shelves) > 1:
            self.sc.report_shelves(told, shelved_from=told.spec.shelves[0].end)

    def _reconcile(self) -> None:
        self.sc.reconcile()

    def _start(self, spu: int) -> None:
        """Starts a process, which is admitted as soon as the stream of the one before has ended."""
        self.starts += 1
        self.sc.start_spu(spu, f"start {self.starts}")

    def _start_with_what_it_had(self, spu: int) -> None:
        self.starts += 1
        self.sc.start_spu(spu, f"start {self.starts}", self.sc.stores.get(spu))

    def heal(self) -> None:
        """Brings all SPUs online, and lets the SC finish everything that it has begun."""
        sc = self.sc
        sc.mute.clear()
        sc.mute_elected.clear()
        for spu in CUSTOM:
            if f"spu/{spu}" not in sc.kv.objects:
                sc.write(custom(spu))
        for _ in range(30):
            for found in sc.kv.all_of(Spu):
                if found.spec.id not in sc.running:
                    self._start(found.spec.id)
            sc.settle()
            sc.end_first_lease()
            sc.settle()
            sc.wait_for_leaders()
            sc.settle()
            sc.reconcile()
            sc.settle()
            for told in sc.told.values():
                is_led = told.status.leads != NO_LEADER
                if is_led and is_changing(told, sc.topic(told.topic).status.replica_map[told.number]):
                    self._report(told)
                if is_led and any(shelf.filling for shelf in told.spec.shelves):
                    self._fill_shelves(told)
            if not sc.enabled() and all(found.spec.id in sc.running for found in sc.kv.all_of(Spu)):
                return
        raise AssertionError("it does not come to rest")


@pytest.mark.parametrize("seed", seeds(60, always=12))
def test_whatever_the_order_of_events_all_ends_as_it_should(seed: int) -> None:
    world = World()
    random = Random(seed)
    for _ in range(1200):
        world.step(random.randrange(2**30))
    world.heal()
    sc = world.sc
    check_history(sc)
    assert dict(sc.brain.store.objects) == sc.kv.objects
    check_topics(sc)
    check_partitions(sc)
    check_groups(sc)
    check_mirror(sc)
    assert sc.brain.on(ReconciliationDue()) == [], "nothing is left to do"


def check_history(sc: ModelSc) -> None:
    epochs: dict[tuple[UUID, int], int] = {}
    leaders: dict[tuple[UUID, int, int], tuple[int, str]] = {}
    before: dict[tuple[UUID, int], Partition] = {}
    for written in sc.kv.history:
        partition = written.object
        if not isinstance(partition, Partition):
            continue
        key, status = (partition.topic_id, partition.number), partition.status
        if key in before:
            check_step(sc, before[key], partition, written.stores)
        before[key] = partition
        assert status.epoch >= epochs.get(key, -1), "an epoch never falls"
        epochs[key] = status.epoch
        if status.epoch >= 0:
            led = leaders.setdefault((*key, status.epoch), (status.leader, status.incarnation))
            assert led == (status.leader, status.incarnation), "an epoch is one leader's"
            assert status.live_replicas
            assert set(status.live_replicas) <= set(partition.spec.replicas)
            assert status.leader in status.live_replicas


def check_step(sc: ModelSc, previous: Partition, current: Partition, stores: Mapping[int, str]) -> None:
    """Checks one change of a partition.

    A store incarnation never comes back, so a replica that is not sure stays so.
    """
    before, status = previous.status, current.status
    if status.epoch != before.epoch or status.resolution != before.resolution:
        assert (before.resolution, status.resolution) in TRANSITIONS
    assert status.live_version >= before.live_version, "a version never falls"
    check_shelves(previous.spec, current.spec)
    if current.spec.replicas != previous.spec.replicas:
        assert before.resolution is PartitionResolution.ONLINE
        assert status.epoch > before.epoch or set(current.spec.replicas) == set(previous.spec.replicas)
        assert status.live_replicas.items() <= before.live_replicas.items(), "who leaves is no longer live"
    elif before.epoch != NO_EPOCH and status.live_replicas != before.live_replicas:
        assert status.live_version > before.live_version, "a version names one set"
        assert status.epoch == before.epoch, "an election takes nobody out and in"
    if before.epoch not in (NO_EPOCH, status.epoch):
        live = before.live_replicas
        assert status.leader in live
        is_sure = sc.store_of[status.leader, status.incarnation] == live[status.leader]
        nobody_is = all(stores[spu] != live[spu] for spu in live)
        assert is_sure or nobody_is, "who may have lost something leads only if all may"


def check_shelves(before: PartitionSpec, now: PartitionSpec) -> None:
    """Checks that no shelved records are lost unless they are deleted."""
    assert all(shelf.end == following.base for shelf, following in pairwise(now.shelves))
    left = {shelf.base: shelf for shelf in now.shelves}
    for shelf in before.shelves:
        same = left.get(shelf.base)
        assert same is not None or shelf.end <= now.shelved_from
        if same is not None and shelf.base < shelf.end:
            assert same.end >= shelf.end
            assert set(same.stores) <= {*shelf.stores, *shelf.filling}
    assert not now.shelves or before.shelves == () or now.shelved_from >= before.shelved_from


def test_all_transitions_of_a_partition_that_are_told_of_happen() -> None:
    happened: set[Transition] = set()
    for seed in range(100):
        world, random = World(), Random(seed)
        for _ in range(600):
            world.step(random.randrange(2**30))
        before: dict[tuple[UUID, int], PartitionResolution] = {}
        for partition in world.sc.kv.history_of(Partition):
            key, resolution = (partition.topic_id, partition.number), partition.status.resolution
            happened.add((before.get(key, PartitionResolution.NONE), resolution))
            before[key] = resolution
        if happened >= TRANSITIONS.keys():
            return
    assert happened >= TRANSITIONS.keys()


def check_topics(sc: ModelSc) -> None:
    for found in sc.kv.all_of(Topic):
        rows = found.status.replica_map
        assert found.status.resolution is TopicResolution.PROVISIONED
        assert found.status.reason == ""
        assert list(rows) == list(range(found.spec.partitions))
        there = {each.number: each for each in sc.kv.all_of(Partition) if each.topic_id == found.id}
        assert there.keys() == rows.keys()
        for number, each in there.items():
            if each.status.resolution is PartitionResolution.ONLINE:
                assert each.spec == each.spec.with_replicas(rows[number][0], rows[number])
                assert not any(shelf.filling for shelf in each.spec.shelves)


def check_partitions(sc: ModelSc) -> None:
    brought_back = {each.topic.id for each in sc.kv.history_of(DeletedTopic)}
    topics = {found.id for found in sc.kv.all_of(Topic)}
    remembered = {found.topic.id for found in sc.kv.all_of(DeletedTopic)}
    for partition in sc.kv.all_of(Partition):
        key, status = (partition.topic_id, partition.number), partition.status
        if partition.topic_id not in topics:
            assert partition.topic_id in remembered
            assert key not in sc.told
            continue
        gone = [spu for spu in partition.spec.replicas if f"spu/{spu}" not in sc.kv.objects]
        assert not gone or partition.topic_id in brought_back, "an SPU that topics name is not deleted"
        if status.resolution is PartitionResolution.OFFLINE:
            assert any(spu in gone for spu in status.live_replicas or partition.spec.replicas), status.reason
            continue
        assert status.resolution is PartitionResolution.ONLINE
        assert sc.running[status.leader] == status.incarnation
        told = sc.told[key].status
        assert (told.leader, told.epoch) == (status.leader, status.epoch)
        assert (told.live_replicas, told.live_version) == (status.live_replicas, status.live_version)


def check_groups(sc: ModelSc) -> None:
    groups = {found.name: found for found in sc.kv.all_of(SpuGroup)}
    spus = sc.kv.all_of(Spu)
    for found in groups.values():
        ids = set(range(found.spec.min_id, found.spec.min_id + found.spec.replicas))
        own = {spu.spec.id for spu in spus if spu.spec.group == found.name}
        if found.status.resolution is SpuGroupResolution.RESERVED:
            assert ids <= own
            assert found.status.reason or ids == own
        else:
            assert found.status.resolution is SpuGroupResolution.INVALID
            assert found.status.reason
            strangers = {spu.spec.id for spu in spus if spu.spec.group != found.name}
            for other in groups.values():
                if other is not found and other.status.resolution is SpuGroupResolution.RESERVED:
                    strangers |= set(range(other.spec.min_id, other.spec.min_id + other.spec.replicas))
            assert ids & strangers, "nobody is in its way"
    for spu in spus:
        if spu.spec.group is not None and spu.spec.group not in groups:
            left = {other.spec.id for other in spus if other.spec.group == spu.spec.group}
            topics = {found.id: found for found in sc.kv.all_of(Topic)}
            named = {each for found in topics.values() for row in found.status.replica_map.values() for each in row}
            held = {each for found in sc.kv.all_of(Partition) if found.topic_id in topics for each in keepers_of(found)}
            assert max(left) in named | held, "it would have gone otherwise"
    assert sc.provisioned.keys() >= {spu.spec.id for spu in spus if spu.spec.group is not None}


def check_mirror(sc: ModelSc) -> None:
    brain = sc.brain
    brain.mirror.publish()
    assert {name: len(spec.partitions) for name, spec in brain.cluster.topics.items()} == {
        found.name: found.spec.partitions for found in sc.kv.all_of(Topic)
    }
    for name, spec in brain.cluster.topics.items():
        for mirrored in spec.partitions:
            partition = sc.kv.get(Partition, f"partition/{sc.topic(name).id}/{mirrored.partition}")
            is_led = partition.status.resolution is PartitionResolution.ONLINE
            assert mirrored.leader == (partition.status.leader if is_led else NO_LEADER)
            assert mirrored.epoch == partition.status.epoch
    assert brain.cluster.spus.keys() == {spu.spec.id for spu in sc.kv.all_of(Spu)}
    assert brain.cluster.controller_id == min(brain.cluster.spus)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 2**30), min_size=20, max_size=100))
def test_the_same_events_give_the_same_actions_again(choices: list[int]) -> None:
    world = World()
    for choice in choices:
        world.step(choice)
    assert Brain().on(*world.sc.events) == world.sc.actions


def test_a_change_reaches_all_controllers_concerned_in_order() -> None:
    brain = Brain()
    first = Stored(Spu(custom(1).spec, version=1))
    brain.on(Stored(topic_version(2, TopicResolution.PENDING)), connected(1))
    actions = brain.on(first)
    assert [type(each) for each in actions] == [AddSpu, Put, Put], "the topic learns of the SPU, too"
    online = actions[1]
    assert isinstance(online, Put)
    assert isinstance(online.object, Spu)
    actions = brain.on(Stored(Spu(online.object.spec, online.object.status, version=3)))
    assert [
        each.object.status.resolution for each in actions if isinstance(each, Put) and isinstance(each.object, Topic)
    ] == [TopicResolution.PROVISIONED]


def topic_version(version: int, resolution: TopicResolution) -> Topic:
    found = topic("t")
    return Topic(found.name, found.id, found.spec, type(found.status)(resolution), version)


def test_a_known_change_causes_no_actions() -> None:
    brain = Brain()
    spu = Stored(Spu(custom(1).spec, version=5))
    assert brain.on(spu) != []
    assert brain.on(spu, Stored(Spu(custom(1).spec, version=4)), Removed("spu/2", 9), Removed("spu/1", 3)) == []


def test_objects_that_concern_no_controller_are_saved() -> None:
    brain = Brain()
    overrides, block = ConfigOverrides("", {"a": "b"}, 1), ProducerIdBlock(1000, 2)
    assert brain.on(Stored(overrides), Stored(block)) == []
    assert brain.store.config_overrides == {"": overrides}
    assert brain.store.producer_ids == block


def test_orphaned_partitions_are_deleted_at_the_second_reconciliation() -> None:
    sc = model(1)
    sc.write(topic("t", 2))
    sc.settle()
    sc.delete_topic("t")
    sc.settle()
    sc.remove(sc.kv.get(DeletedTopic, f"deleted-topic/{topic_id(1)}"))
    sc.settle()
    assert sc.reconcile() == []
    assert [type(each) for each in sc.reconcile()] == [Delete, Delete]
    sc.settle()
    assert sc.kv.all_of(Partition) == []


@pytest.mark.parametrize("kind", [Spu, SpuGroup, Topic, Partition])
def test_a_write_that_never_arrived_is_decided_again_at_the_next_reconciliation(kind: type[Object]) -> None:
    sc = ModelSc()
    sc.write(custom(1))
    sc.start_spu(1)
    sc.write(group("main", 1, 11))
    sc.write(topic("t"))
    while not (sc.writes and type(sc.writes[0].object) is kind and sc.writes[0].object.version):
        sc.enabled()[-1]()
    missed = sc.writes[0]
    sc.lose_a_write()
    assert missed in sc.brain.on(ReconciliationDue())


def test_spus_that_are_not_heard_of_within_a_lease_are_offline() -> None:
    sc = model(1, 2)
    sc.running.pop(2)
    sc.crash()
    sc.settle()
    assert sc.spu(2).is_online, "it may be about to come back"
    sc.deliver(LeaseGracePeriodOver())
    sc.settle()
    assert sc.spu(1).is_online
    assert not sc.spu(2).is_online
    assert sc.spu(2).status.reason == "it has not been heard of since the SC started"


def test_a_cluster_of_groups_custom_spus_and_topics_comes_up_whole() -> None:
    sc = model(1, 2)
    sc.write(group("main", 2, 11))
    sc.write(topic("t", 8, 4))
    sc.settle()
    assert sc.status_of("t").resolution is TopicResolution.PROVISIONED
    assert {spu for row in sc.status_of("t").replica_map.values() for spu in row} == {1, 2, 11, 12}
    assert sc.partition(1, 7).status.resolution is PartitionResolution.ONLINE
    assert {SpuId(spu) for spu in sc.provisioned} == {11, 12}
