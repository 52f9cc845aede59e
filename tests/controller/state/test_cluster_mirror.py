"""The mirror of the cluster: what clients see, and when."""

from controller_model import ModelSc, custom, group, model, topic, topic_id
from msgspec.structs import replace
from security_samples import ALICE

from tailrace.cluster.cluster import NO_CONTROLLER
from tailrace.cluster.specs import NO_LEADER, Endpoint
from tailrace.controller.connections.spu_messages import whole_metadata
from tailrace.controller.objects.objects import (
    ClusterIdentity,
    GroupConfigs,
    PrivateEndpoint,
    PublicEndpoint,
    PublicListener,
    SecurityEntry,
    Spu,
    SpuResolution,
    SpuStatus,
    SpuType,
    TopicSpec,
)
from tailrace.controller.state.cluster_mirror import NO_CHANGE, MirrorChange, mirrored_spu
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address


def publish(sc: ModelSc) -> MirrorChange:
    return sc.brain.mirror.publish()


def spu(port: int = 9005, kind: SpuType = SpuType.CUSTOM) -> Spu:
    listeners = (PublicListener("PUBLIC", "inside", 1), PublicListener("PUBLIC_1", "outside", 2))
    spec = replace(custom(1, "rack-a").spec, public=PublicEndpoint(port, ("told", "too")), type=kind)
    return Spu(spec, SpuStatus(SpuResolution.ONLINE, listeners=listeners))


def test_clients_are_told_the_address_of_the_spec_and_else_what_the_spu_reports() -> None:
    other = Endpoint("PUBLIC_1", "outside", 2)
    for found, public in (
        (spu(), Endpoint("PUBLIC", "told", 9005)),
        (spu(port=0), Endpoint("PUBLIC", "inside", 1)),
        (spu(kind=SpuType.MANAGED), Endpoint("PUBLIC", "inside", 1)),
    ):
        assert mirrored_spu(found).endpoints == (public, other)
    assert mirrored_spu(spu()).rack == "rack-a"
    assert mirrored_spu(spu()).online


def test_other_spus_are_told_the_registered_private_address_unless_it_is_the_default() -> None:
    reported = SpuStatus(SpuResolution.ONLINE, private=Address("inside", 7))

    def told(private: PrivateEndpoint, kind: SpuType = SpuType.CUSTOM) -> Endpoint | None:
        return mirrored_spu(Spu(replace(spu(kind=kind).spec, private=private), reported)).private

    inside, registered = Endpoint("PRIVATE", "inside", 7), PrivateEndpoint(9006, "told")
    assert told(registered) == Endpoint("PRIVATE", "told", 9006)
    assert told(registered, SpuType.MANAGED) == inside
    assert told(PrivateEndpoint()) == inside, "the default counts as not given"
    assert told(replace(registered, port=0)) == inside
    assert mirrored_spu(spu()).private is None, "an SPU that never connected has no private address"


def test_spus_come_change_and_go() -> None:
    sc = model()
    sc.write(custom(1))
    sc.settle()
    change = publish(sc)
    assert [(each.id, each.online) for each in change.spus] == [(1, False)]
    assert not change.is_identity_changed
    sc.start_spu(1)
    sc.settle()
    change = publish(sc)
    assert [(each.id, each.online) for each in change.spus] == [(1, True)]
    assert change.is_identity_changed
    sc.remove(sc.spu(1))
    sc.settle()
    assert publish(sc) == MirrorChange(removed_spus=(SpuId(1),), is_identity_changed=True)
    assert sc.brain.cluster.controller_id == NO_CONTROLLER


def test_the_controller_is_the_lowest_spu_that_is_online() -> None:
    sc = model(3, 1, 2)
    sc.write(ClusterIdentity("the-id"))
    sc.settle()
    assert publish(sc).is_identity_changed
    assert (sc.brain.cluster.cluster_id, sc.brain.cluster.controller_id) == ("the-id", 1)
    sc.stop_spu(3)
    sc.settle()
    assert not publish(sc).is_identity_changed
    sc.stop_spu(1)
    sc.settle()
    assert publish(sc).is_identity_changed
    assert sc.brain.cluster.controller_id == 2


def test_a_topic_that_waits_is_hidden_and_clients_get_the_reason() -> None:
    sc = model(1)
    publish(sc)
    sc.write(topic("wide", 1, 2))
    sc.write(topic("wrong", 1, 1, {0: (9,)}, number=2))
    sc.settle()
    assert publish(sc) == MirrorChange(are_waiting_topics_changed=True)
    cluster = sc.brain.cluster
    assert {name: each.error for name, each in cluster.waiting_topics.items()} == {
        "wide": ErrorCode.INVALID_REPLICATION_FACTOR,
        "wrong": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
    told = whole_metadata(cluster, sc.brain.store).waiting_topics
    assert sorted((each.topic_id, each.name) for each in told) == [(topic_id(1), "wide"), (topic_id(2), "wrong")]
    assert publish(sc) == NO_CHANGE
    sc.write(custom(2))
    sc.start_spu(2)
    sc.settle()
    change = publish(sc)
    assert [each.name for each in change.topics] == ["wide"]
    assert sorted(cluster.waiting_topics) == ["wrong"]
    sc.delete_topic("wrong")
    sc.settle()
    assert publish(sc).are_waiting_topics_changed
    assert not cluster.waiting_topics


def test_a_topic_appears_once_and_whole_with_its_leaders() -> None:
    sc = model(1, 2)
    publish(sc)
    sc.write(replace(topic("t"), spec=TopicSpec(3, 2, configs={"a": "b"})))
    changes = []
    while sc.enabled():
        sc.enabled()[0]()
        changes += [publish(sc)]
    seen = [each for each in changes if each]
    assert len(seen) == 1
    (spec,) = seen[0].topics
    assert (spec.name, spec.id, spec.configs, spec.internal) == ("t", topic_id(1), {"a": "b"}, False)
    assert [(each.partition, each.leader, each.epoch) for each in spec.partitions] == [
        (number, row[0], 0) for number, row in sc.status_of("t").replica_map.items()
    ]


def test_a_topic_none_of_whose_spus_is_online_appears_without_leaders() -> None:
    sc = model()
    sc.write(custom(1))
    sc.write(topic("t", 1, 1, {0: (1,)}))
    sc.settle()
    (spec,) = publish(sc).topics
    assert [each.leader for each in spec.partitions] == [NO_LEADER]


def test_a_lost_leader_is_no_leader_until_it_is_followed() -> None:
    sc = model(1, 2)
    sc.write(topic("t", 2, 1, {0: (1,), 1: (2,)}))
    sc.settle()
    publish(sc)
    sc.stop_spu(1)
    sc.settle()
    change = publish(sc)
    assert [each.leader for each in change.topics[0].partitions] == [NO_LEADER, 2]
    sc.start_spu(1, "second")
    sc.settle()
    assert [(each.leader, each.epoch) for each in publish(sc).topics[0].partitions] == [(1, 1), (2, 0)]


def test_a_topic_that_grows_keeps_its_partitions_until_the_new_ones_are_ready() -> None:
    sc = model(1)
    sc.write(topic("t", 2))
    sc.settle()
    publish(sc)
    sc.grow_topic("t", 4)
    counts = []
    while sc.enabled():
        sc.enabled()[0]()
        counts += [len(each.partitions) for each in publish(sc).topics]
    assert counts == [4]


def test_a_topic_that_grows_while_another_sc_begins_is_there_all_the_time() -> None:
    """If SPUs forgot the topic, they would forget the committed offsets of its groups."""
    sc = model(1)
    sc.write(topic("t", 2))
    sc.settle()
    sc.grow_topic("t", 4)
    while len(sc.status_of("t").replica_map) < 4:
        sc.enabled()[0]()
    sc.crash()
    while sc.from_store:
        sc.deliver_from_store()
    assert publish(sc).topics == ()
    assert whole_metadata(sc.brain.cluster, sc.brain.store).hidden_topics == [topic_id(1)]
    sc.delete_topic("t")
    while sc.from_store:
        sc.deliver_from_store()
    assert publish(sc).removed_topics == (topic_id(1),)
    assert whole_metadata(sc.brain.cluster, sc.brain.store).hidden_topics == []


def test_a_change_names_the_changed_partitions_of_a_topic() -> None:
    sc = model(1, 2)
    sc.write(topic("t", 3, 2, {0: (1, 2), 1: (2, 1), 2: (1, 2)}))
    sc.settle()
    assert publish(sc).partitions == {}, "all of it is new"
    sc.report(sc.partition(1, 1), (SpuId(2),))
    sc.report(sc.partition(1, 2), (SpuId(1),))
    sc.settle()
    change = publish(sc)
    assert [each.id for each in change.topics] == [topic_id(1)]
    assert change.partitions == {topic_id(1): {1, 2}}
    sc.grow_topic("t", 4)
    sc.settle()
    assert publish(sc).partitions == {}


def test_while_replicas_move_those_stand_first_that_the_partition_is_to_have() -> None:
    sc = model(1, 2, 3)
    sc.write(topic("t", 1, 2, {0: (1, 2)}))
    sc.settle()

    def told(*row: int) -> tuple[SpuId, ...]:
        """Returns the replicas that clients see when the topic wants this row and no new replica is live yet."""
        wanted = {0: tuple(map(SpuId, row))}
        now = sc.topic("t")
        sc.write(replace(now, status=replace(now.status, replica_map=wanted)))
        sc.settle()
        publish(sc)
        return sc.brain.cluster.topics["t"].partitions[0].replicas

    assert told(3, 1) == (3, 1, 2)
    assert sc.partition(1, 0).spec.replicas == (1, 2, 3)
    assert told(2, 3) == (2, 3, 1)
    assert told(1, 2) == (1, 2)


def test_changed_configs_are_published() -> None:
    sc = model(1)
    sc.write(topic("t"))
    sc.settle()
    publish(sc)
    sc.write(replace(sc.topic("t"), spec=TopicSpec(configs={"a": "b"})))
    sc.settle()
    assert [each.configs for each in publish(sc).topics] == [{"a": "b"}]


def test_a_deleted_topic_goes_and_another_of_its_name_is_another() -> None:
    sc = model(1)
    sc.write(topic("t"))
    sc.settle()
    publish(sc)
    sc.delete_topic("t")
    sc.write(topic("t", number=2))
    sc.settle()
    change = publish(sc)
    assert change.removed_topics == (topic_id(1),)
    assert [each.id for each in change.topics] == [topic_id(2)]
    assert sc.brain.cluster.topics["t"].id == topic_id(2)
    assert sc.brain.cluster.topic_by_id(topic_id(1)) is None


def test_a_topic_that_is_brought_back_is_published_again() -> None:
    sc = model(1)
    sc.write(topic("t"))
    sc.settle()
    sc.delete_topic("t")
    sc.settle()
    publish(sc)
    assert not sc.brain.cluster.topics
    sc.undelete_topic(topic_id(1))
    sc.settle()
    assert [each.name for each in publish(sc).topics] == ["t"]


def test_configs_of_groups_are_added_changed_and_removed() -> None:
    sc = model()
    for configs in ({"consumer.session.timeout.ms": "50000"}, {"consumer.session.timeout.ms": "51000"}):
        sc.write(replace(sc.brain.store.group_configs.get("g", GroupConfigs("g", {})), configs=configs))
        sc.settle()
        assert publish(sc) == MirrorChange(groups=("g",))
        assert sc.brain.cluster.group_configs == {"g": configs}
    version = sc.brain.cluster.version
    sc.remove(sc.brain.store.group_configs["g"])
    sc.settle()
    assert publish(sc) == MirrorChange(groups=("g",))
    assert sc.brain.cluster.group_configs == {}
    assert sc.brain.cluster.version > version
    assert publish(sc) == NO_CHANGE


def test_hidden_facts_are_no_change() -> None:
    sc = model(1)
    sc.write(topic("t"))
    sc.settle()
    assert publish(sc)
    assert publish(sc) == NO_CHANGE
    sc.touch("topic/t")
    sc.touch(f"partition/{topic_id(1)}/0")
    sc.touch("spu/1")
    sc.write(group("main", 0, 1))
    sc.settle()
    version = sc.brain.cluster.version
    assert publish(sc) == NO_CHANGE
    assert sc.brain.cluster.version == version


def test_users_and_rules_are_added_changed_and_removed() -> None:
    sc = model()
    for record in (ALICE, replace(ALICE, credentials=())):
        sc.write(replace(sc.brain.store.security["user"].get("alice", SecurityEntry(record)), record=record))
        sc.settle()
        version = sc.brain.cluster.version
        assert publish(sc) == MirrorChange(security=(("user", "alice"),))
        assert sc.brain.cluster.security.users == {"alice": record}
        assert sc.brain.cluster.version > version
    sc.remove(sc.brain.store.security["user"]["alice"])
    sc.settle()
    assert publish(sc) == MirrorChange(security=(("user", "alice"),))
    assert sc.brain.cluster.security.users == {}
    assert publish(sc) == NO_CHANGE
