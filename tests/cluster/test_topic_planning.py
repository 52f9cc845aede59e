"""Tests plans of topics and added partitions, and refusals."""

from collections import Counter
from uuid import UUID

import pytest

from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_names import TakenNames
from tailrace.cluster.topic_planning import (
    PARTITIONS_ADDED_MAX,
    MorePartitions,
    NewTopic,
    ReplicaMap,
    plan_partitions,
    plan_topic,
)
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId

ID = UUID(int=7)
ONE, TWO, THREE = SPUS = [SpuId(1), SpuId(2), SpuId(3)]


def plan(new: NewTopic, spus: list[SpuId] = SPUS, **others: TopicSpec) -> TopicSpec:
    return plan_topic(new, ID, TakenNames(others), spus)


def by_hand(*replicas: tuple[int, ...], numbers: list[int] | None = None) -> NewTopic:
    replica_map = {
        number: tuple(map(SpuId, spus)) for number, spus in zip(numbers or range(99), replicas, strict=False)
    }
    return NewTopic("t", -1, -1, replica_map)


def test_a_planned_topic_is_led_by_its_first_replicas() -> None:
    topic = plan(NewTopic("t", 4, 2, configs={"retention.ms": " 5 "}))
    assert topic.id == ID
    assert topic.configs == {"retention.ms": "5"}
    assert [partition.partition for partition in topic.partitions] == [0, 1, 2, 3]
    assert {partition.leader for partition in topic.partitions[:3]} == set(SPUS)
    for partition in topic.partitions:
        assert partition.leader == partition.replicas[0]
        assert partition.live_replicas == partition.replicas
        assert (partition.topic, partition.topic_id, partition.epoch) == ("t", ID, 0)


def test_a_policy_is_for_as_many_replicas_as_the_topic_has() -> None:
    policy = {"replication.policy": "nrw:3,2,2"}
    assert plan(NewTopic("t", 1, 3, configs=policy)).configs == policy
    with pytest.raises(KafkaError, match="there are 2") as refused:
        plan(NewTopic("t", 1, 2, configs=policy))
    assert refused.value.code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("replication_factor", [1, 2, 3])
def test_replicas_are_spread_evenly(replication_factor: int) -> None:
    topic = plan(NewTopic("t", 9, replication_factor))
    leaders = Counter(partition.leader for partition in topic.partitions)
    replicas = Counter(spu for partition in topic.partitions for spu in partition.replicas)
    assert set(leaders.values()) == {3}
    assert set(replicas.values()) == {3 * replication_factor}


def test_replicas_by_hand_may_come_in_any_order() -> None:
    topic = plan(by_hand((2, 1), (1, 2), numbers=[1, 0]))
    assert [partition.replicas for partition in topic.partitions] == [(1, 2), (2, 1)]


def test_the_brokers_own_topics_are_internal() -> None:
    assert plan(NewTopic("__consumer_offsets", 1, 1)).internal
    assert plan(NewTopic("__transaction_state", 1, 1)).internal
    assert not plan(NewTopic("__mine", 1, 1)).internal


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("there", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("a_b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", -1, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", PARTITIONS_ADDED_MAX + 1, 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic("t", 2**31 - 1, 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 1, configs={"no.such.config": ""}), ErrorCode.INVALID_CONFIG),
        (by_hand((1,), (2,), numbers=[0, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand((1,), numbers=[-1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand(()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand((1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand((9,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand((1,), (1, 2)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_topic_that_cannot_be(new: NewTopic, code: ErrorCode) -> None:
    others = {name: plan(NewTopic(name, 1, 1)) for name in ("there", "a.b")}
    with pytest.raises(KafkaError) as refused:
        plan(new, **others)
    assert refused.value.code == code
    assert len(refused.value.message) > 10


def test_one_spu_holds_one_replica() -> None:
    with pytest.raises(KafkaError, match="the number of SPUs, which is 1"):
        plan(NewTopic("t", 1, 2), [ONE])


def test_added_partitions_balance_those_that_there_are() -> None:
    topic = plan(NewTopic("t", 2, 2))
    grown = plan_partitions(MorePartitions("t", 4), topic, SPUS)
    assert grown.partitions[:2] == topic.partitions
    assert [partition.partition for partition in grown.partitions] == [0, 1, 2, 3]
    replicas = Counter(spu for partition in grown.partitions for spu in partition.replicas)
    leaders = Counter(partition.leader for partition in grown.partitions)
    assert sorted(replicas.values()) == [2, 3, 3]
    assert sorted(leaders.values()) == [1, 1, 2]


def test_added_partitions_may_be_placed_by_hand() -> None:
    grown = plan_partitions(MorePartitions("t", 3, ((THREE, TWO),)), plan(NewTopic("t", 2, 2)), SPUS)
    assert grown.partitions[2].replicas == (3, 2)


def test_internal_topics_keep_the_partitions_that_groups_are_spread_over() -> None:
    topic = plan(NewTopic("__consumer_offsets", 50, 1))
    with pytest.raises(KafkaError) as refused:
        plan_partitions(MorePartitions(topic.name, 51), topic, SPUS)
    assert refused.value.code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize(
    ("count", "replica_map", "code"),
    [
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, None, ErrorCode.POLICY_VIOLATION),
        (4, ((ONE,),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, (), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, ((),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, ((SpuId(9),),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, ((ONE, TWO),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added(count: int, replica_map: ReplicaMap | None, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        plan_partitions(MorePartitions("t", count, replica_map), plan(NewTopic("t", 2, 1)), SPUS)
    assert refused.value.code == code
