from uuid import UUID

import pytest
from msgspec.structs import replace

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_changes import Alteration, ConfigChange, Operation, ResourceKind
from tailrace.cluster.configs.topic_configs import TEXT_CHARACTERS_MAX
from tailrace.cluster.topic_planning import MorePartitions, NewTopic
from tailrace.controller.administration.change_planning import (
    DELETED_TOPICS_MAX,
    check_topic_size,
    plan_configs,
    plan_deletions,
    plan_end_of_leadership,
    plan_more_partitions,
    plan_producer_ids,
    plan_purge,
    plan_topics,
    plan_undeletion,
)
from tailrace.controller.administration.planned_changes import Planned
from tailrace.controller.key_value.interface import VALUE_BYTES_MAX
from tailrace.controller.objects.objects import (
    ConfigOverrides,
    DeletedTopic,
    GroupConfigs,
    Object,
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    ProducerIdBlock,
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
from tailrace.controller.objects.topic_documents import PARTITIONS_MAX
from tailrace.controller.state.actions import Delete, Put
from tailrace.controller.state.events import Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.object_codec import encode
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId

ID, OTHER_ID = UUID(int=7), UUID(int=8)


def local_with(*objects: Object) -> LocalStore:
    local = LocalStore()
    for version, each in enumerate(objects, 1):
        local.apply(Stored(replace(each, version=version)))
    return local


def spu(spu_id: int, *, online: bool = True, group: str | None = None) -> Spu:
    resolution = SpuResolution.ONLINE if online else SpuResolution.OFFLINE
    spu_type = SpuType.CUSTOM if group is None else SpuType.MANAGED
    return Spu(SpuSpec(SpuId(spu_id), spu_type, group=group), SpuStatus(resolution, "first"))


def topic(name: str = "orders", topic_id: UUID = ID, **configs: str) -> Topic:
    status = TopicStatus(TopicResolution.PROVISIONED, {0: (SpuId(1),)})
    return Topic(
        name, topic_id, TopicSpec(configs={key.replace("_", "."): text for key, text in configs.items()}), status
    )


def refusal(plan: object) -> ErrorCode:
    assert isinstance(plan, KafkaError), plan
    return plan.code


def test_new_replicas_go_to_spus_that_stay_or_come_back() -> None:
    group = SpuGroup("main", SpuGroupSpec(1, SpuId(4)), SpuGroupStatus(SpuGroupResolution.RESERVED))
    never_seen = Spu(SpuSpec(SpuId(3), SpuType.CUSTOM))
    leaving = [spu(5, group="main"), spu(6, group="main", online=False)]
    local = local_with(spu(1), spu(2, online=False), never_seen, group, *leaving)
    plans = plan_topics([NewTopic("fits", 1, 1), NewTopic("too", 1, 2), NewTopic("wide", 1, 3)], local, lambda: ID)
    assert isinstance(plans[0], Planned)
    assert isinstance(plans[1], Planned)
    assert refusal(plans[2]) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_needs_somebody_to_lead_it() -> None:
    (plan,) = plan_topics([NewTopic("t", 1, 1)], local_with(spu(1, online=False), spu(2, online=False)), lambda: ID)
    assert refusal(plan) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_rows_chosen_by_hand_may_name_any_spu_that_is_registered() -> None:
    local = local_with(spu(1), spu(2, online=False))
    chosen = NewTopic("manual", -1, -1, {0: (SpuId(2), SpuId(1))})
    unknown = NewTopic("unknown", -1, -1, {0: (SpuId(3),)})
    plans = plan_topics([chosen, unknown], local, lambda: ID)
    assert isinstance(plans[0], Planned)
    (write,) = plans[0].writes
    assert write == Put(Topic("manual", ID, TopicSpec(1, 2, {0: (SpuId(2), SpuId(1))})))
    assert refusal(plans[1]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_request_that_adds_too_many_partitions_is_refused_as_a_whole() -> None:
    local = local_with(spu(1))
    many, one, two = NewTopic("many", 9_999, 1), NewTopic("one", 1, 1), NewTopic("two", 2, 1)
    assert [type(plan) for plan in plan_topics([many, one], local, lambda: ID)] == [Planned, Planned]
    assert [*map(refusal, plan_topics([many, two], local, lambda: ID))] == [ErrorCode.POLICY_VIOLATION] * 2


def test_a_request_for_too_many_partitions_is_refused_as_a_whole() -> None:
    def never() -> UUID:
        raise AssertionError("all of it would be planned in one go")

    names = [NewTopic("no topic", 0, 1)] * 10_001
    assert {*map(refusal, plan_topics(names, local_with(spu(1)), never))} == {ErrorCode.POLICY_VIOLATION}


def test_a_list_of_replicas_that_cannot_be_stored_is_refused_before() -> None:
    local = local_with(*map(spu, range(20)))
    (plan,) = plan_topics([NewTopic("vast", 10_000, 20)], local, lambda: ID)
    assert refusal(plan) is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("factor", [1, 3, 100])
def test_whatever_topic_is_not_refused_can_be_stored_and_deleted(factor: int) -> None:
    def is_taken(partitions: int) -> bool:
        try:
            check_topic_size("t", partitions, factor)
        except KafkaError:
            return False
        return True

    partitions = next(count for count in range(PARTITIONS_MAX, 0, -1) if is_taken(count))
    row = tuple(SpuId(2**31 - 1 - place) for place in range(factor))
    rows = dict.fromkeys(range(PARTITIONS_MAX - partitions, PARTITIONS_MAX), row)
    longest = ("1:1," * TEXT_CHARACTERS_MAX)[: TEXT_CHARACTERS_MAX - 3] + "1:1"
    throttled = dict.fromkeys(
        ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"), longest
    )
    spec = TopicSpec(PARTITIONS_MAX, factor, rows, ignores_racks=True, configs=throttled)
    largest = Topic("t" * 249, ID, spec, TopicStatus(TopicResolution.INSUFFICIENT_RESOURCES, rows, "why" * 100))
    assert len(encode(DeletedTopic(largest, 2**63 - 1))) <= VALUE_BYTES_MAX


def test_a_deletion_is_remembered_before_the_topic_goes() -> None:
    local = local_with(topic())
    (plan,) = plan_deletions([ID], local, 500)
    assert isinstance(plan, Planned)
    kept, gone = plan.writes
    assert kept == Put(DeletedTopic(replace(topic(), version=0), 500))
    assert isinstance(gone, Delete)
    assert gone.object.version == 1


def test_a_deletion_that_was_begun_is_finished() -> None:
    local = local_with(topic(), DeletedTopic(topic(), 400))
    (plan,) = plan_deletions([ID], local, 500)
    assert isinstance(plan, Planned)
    assert plan.writes[0].object.version == 2, "the one that is remembered already is replaced"


def test_an_undeletion_that_was_begun_is_finished() -> None:
    local = local_with(topic(), DeletedTopic(topic(), 400))
    plan = plan_undeletion("orders", local, 500, 1000)
    assert [type(write) for write in plan.writes] == [Delete]


def test_a_restored_topic_has_new_elections() -> None:
    led = Partition(
        "orders",
        ID,
        0,
        PartitionSpec(SpuId(1), (SpuId(1), SpuId(2))),
        PartitionStatus(PartitionResolution.ONLINE, SpuId(1), Epoch(3), live_replicas={SpuId(1): "a"}),
        version=1,
    )
    local = local_with(led, DeletedTopic(topic(), 400))
    (before,) = [each.object for each in plan_end_of_leadership("orders", local, 500, 1000).writes]
    assert isinstance(before, Partition)
    assert before.status == replace(led.status, resolution=PartitionResolution.OFFLINE, reason="it was deleted")
    plan = plan_undeletion("orders", local, 500, 1000)
    assert [type(each.object) for each in plan.writes] == [Topic, DeletedTopic]
    is_there = local_with(led, topic(), DeletedTopic(topic(), 400))
    assert not plan_end_of_leadership("orders", is_there, 500, 1000).writes


@pytest.mark.parametrize(
    ("there", "asked", "code"),
    [
        ([], "orders", ErrorCode.UNKNOWN_TOPIC_ID),
        ([DeletedTopic(topic(), 1)], str(OTHER_ID), ErrorCode.UNKNOWN_TOPIC_ID),
        ([DeletedTopic(topic(), 1), topic(topic_id=OTHER_ID)], "orders", ErrorCode.TOPIC_ALREADY_EXISTS),
        ([DeletedTopic(topic("a.b"), 1), topic("a_b", OTHER_ID)], "a.b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ([DeletedTopic(topic(), 1), DeletedTopic(topic(topic_id=OTHER_ID), 2)], "orders", ErrorCode.INVALID_REQUEST),
        ([DeletedTopic(topic(), 0)], "orders", ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_topics_that_cannot_be_restored(there: list[Object], asked: str, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        plan_undeletion(asked, local_with(*there), 1000, 1000)
    assert refused.value.code is code


def test_the_oldest_deletions_are_forgotten_first() -> None:
    old = [DeletedTopic(topic(topic_id=UUID(int=100 + each)), each) for each in range(DELETED_TOPICS_MAX + 2)]
    forgotten = plan_purge(local_with(*old), now_ms=2000, retention_ms=2000)
    assert sorted(each.object.deleted_at_ms for each in forgotten if isinstance(each.object, DeletedTopic)) == [0, 1]


def test_partitions_are_added_to_topics_that_have_their_first_ones() -> None:
    unfinished = Topic(
        "waiting", OTHER_ID, TopicSpec(3), TopicStatus(TopicResolution.INSUFFICIENT_RESOURCES, reason="x")
    )
    local = local_with(spu(1), topic(), unfinished)
    grown, waiting, missing = plan_more_partitions(
        [MorePartitions("orders", 3), MorePartitions("waiting", 4), MorePartitions("nowhere", 2)], local
    )
    assert isinstance(grown, Planned)
    after = grown.writes[0].object
    assert isinstance(after, Topic)
    assert (after.spec.partitions, after.spec.replica_map, after.status) == (3, {}, topic().status)
    assert refusal(waiting) is ErrorCode.INVALID_PARTITIONS
    assert refusal(missing) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_added_partitions_have_as_many_replicas_as_those_that_there_are() -> None:
    """A reassignment has given the topic more replicas than it was created with."""
    moved = replace(topic(), status=TopicStatus(TopicResolution.PROVISIONED, {0: (SpuId(1), SpuId(2))}))
    local = local_with(spu(1), spu(2), moved)
    by_hand = MorePartitions("orders", 2, ((SpuId(2), SpuId(1)),))
    for request in (MorePartitions("orders", 2), by_hand):
        (plan,) = plan_more_partitions([request], local)
        assert isinstance(plan, Planned)
        after = plan.writes[0].object
        assert isinstance(after, Topic)
        assert (after.spec.partitions, after.spec.replication_factor) == (2, 2)
    (plan,) = plan_more_partitions([MorePartitions("orders", 2, ((SpuId(2),),))], local)
    assert refusal(plan) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_lists_are_appended_to_as_they_apply() -> None:
    local = local_with(topic(cleanup_policy="compact"))
    append = Alteration(ResourceKind.TOPIC, "orders", (ConfigChange("cleanup.policy", Operation.APPEND, "delete"),))
    (plan,) = plan_configs([append], local, BrokerConfigs({}))
    assert isinstance(plan, Planned)
    changed = plan.writes[0].object
    assert isinstance(changed, Topic)
    assert changed.spec.configs == {"cleanup.policy": "compact,delete"}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no/topic", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_REQUEST),
    ],
)
def test_only_existing_topics_have_configs_to_alter(name: str, code: ErrorCode) -> None:
    change = ConfigChange("retention.ms", Operation.SET, "1000")
    (plan,) = plan_configs([Alteration(ResourceKind.TOPIC, name, (change,))], local_with(topic()), BrokerConfigs({}))
    assert refusal(plan) is code


def test_a_topic_keeps_the_policy_it_was_created_with() -> None:
    local = local_with(topic(replication_policy="majority"))
    keep = ConfigChange("replication.policy", Operation.SET, "majority")
    (kept,) = plan_configs([Alteration(ResourceKind.TOPIC, "orders", (keep,))], local, BrokerConfigs({}))
    assert isinstance(kept, Planned)
    for change in (
        ConfigChange("replication.policy", Operation.SET, "live"),
        ConfigChange("replication.policy", Operation.DELETE, None),
    ):
        (plan,) = plan_configs([Alteration(ResourceKind.TOPIC, "orders", (change,))], local, BrokerConfigs({}))
        assert refusal(plan) is ErrorCode.INVALID_CONFIG


def test_overrides_are_changed_in_the_version_that_there_is() -> None:
    local = local_with(spu(1), ConfigOverrides("1", {"num.partitions": "2"}))
    change = Alteration(ResourceKind.BROKER, "1", (ConfigChange("default.replication.factor", Operation.SET, "2"),))
    (plan,) = plan_configs([change], local, BrokerConfigs({}))
    assert isinstance(plan, Planned)
    assert plan.writes == (Put(ConfigOverrides("1", {"num.partitions": "2", "default.replication.factor": "2"}, 2)),)


SESSION_TIMEOUT = "consumer.session.timeout.ms"


def test_the_configs_of_a_group_are_one_object_which_is_deleted_with_the_last_one() -> None:
    set_it = Alteration(ResourceKind.GROUP, "g", (ConfigChange(SESSION_TIMEOUT, Operation.SET, " 50000 "),))
    unset_it = Alteration(ResourceKind.GROUP, "g", (ConfigChange(SESSION_TIMEOUT, Operation.DELETE, None),))
    configs = GroupConfigs("g", {SESSION_TIMEOUT: "50000"})
    nothing, something = local_with(), local_with(configs)
    for alteration, local, writes in (
        (set_it, nothing, (Put(configs),)),
        (unset_it, something, (Delete(something.group_configs["g"]),)),
        (unset_it, nothing, ()),
    ):
        (plan,) = plan_configs([alteration], local, BrokerConfigs({}))
        assert isinstance(plan, Planned)
        assert plan.writes == writes


@pytest.mark.parametrize(
    ("name", "text"), [(SESSION_TIMEOUT, "1000"), (SESSION_TIMEOUT, "70000"), (SESSION_TIMEOUT, "x"), ("nope", "1")]
)
def test_configs_that_a_group_cannot_set(name: str, text: str) -> None:
    alteration = Alteration(ResourceKind.GROUP, "g", (ConfigChange(name, Operation.SET, text),))
    (plan,) = plan_configs([alteration], local_with(), BrokerConfigs({}))
    assert refusal(plan) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    "alteration",
    [
        Alteration(ResourceKind.GROUP, "", ()),
        Alteration(ResourceKind.TOPIC, "", ()),
        Alteration(ResourceKind.BROKER, "9", ()),
        Alteration(ResourceKind.BROKER, "1", (ConfigChange("node.id", Operation.SET, "2"),)),
        Alteration(ResourceKind.BROKER, "1", (ConfigChange("no.such.config", Operation.APPEND, "2"),)),
        Alteration(ResourceKind.BROKER, "", (ConfigChange("no.such.config", Operation.SET, "x" * 65536),)),
        Alteration(ResourceKind.BROKER, "1", (ConfigChange("log.retention.ms", Operation.SET, "x"),)),
        Alteration(ResourceKind.BROKER_LOGGER, "1", ()),
    ],
)
def test_configs_that_cannot_be_altered(alteration: Alteration) -> None:
    (plan,) = plan_configs([alteration], local_with(spu(1)), BrokerConfigs({}))
    assert refusal(plan) is ErrorCode.INVALID_REQUEST


def test_blocks_of_producer_ids_follow_each_other() -> None:
    assert plan_producer_ids(local_with(), 0).result == range(1000)
    plan = plan_producer_ids(local_with(ProducerIdBlock(5000)), 4)
    assert plan.result == range(5000, 6000)
    assert plan.writes == (Put(ProducerIdBlock(6000, 1)),)


def test_an_older_copy_of_the_store_gives_no_producer_id_again() -> None:
    given = plan_producer_ids(local_with(ProducerIdBlock(5000)), 1_700_000_000_000).result
    again = plan_producer_ids(local_with(ProducerIdBlock(5000)), 1_700_000_000_001).result
    assert given.stop <= again.start
    assert again.stop < 2**53, "which is as far as JavaScript counts"
