from collections import Counter
from uuid import UUID

import pytest
from msgspec.structs import replace

from tailrace.controller.administration.topic_updates import plan_topic_update
from tailrace.controller.objects.objects import (
    ReplicaMap,
    Spu,
    SpuResolution,
    SpuSpec,
    SpuStatus,
    Topic,
    TopicResolution,
    TopicSpec,
    TopicStatus,
)
from tailrace.controller.state.actions import Put
from tailrace.controller.state.events import SpusAway, Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.observed import Observed
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId

ID = UUID(int=7)


def rows(**named: tuple[int, ...]) -> ReplicaMap:
    return {int(number[1:]): tuple(map(SpuId, row)) for number, row in named.items()}


def spu(spu_id: int, rack: str | None = None, *, online: bool = True) -> Spu:
    resolution = SpuResolution.ONLINE if online else SpuResolution.OFFLINE
    return Spu(SpuSpec(SpuId(spu_id), rack=rack), SpuStatus(resolution, "process"))


def local_with(topic: Topic, *spus: Spu) -> LocalStore:
    local = LocalStore()
    for version, each in enumerate((topic, *spus), 1):
        local.apply(Stored(replace(each, version=version)))
    return local


def topic(spec: TopicSpec, status: TopicStatus, name: str = "orders") -> Topic:
    return Topic(name, ID, spec, status)


def provisioned(its_rows: ReplicaMap, name: str = "orders", **spec: object) -> Topic:
    factor = len(its_rows[0])
    whole = replace(TopicSpec(len(its_rows), factor), **spec)
    return topic(whole, TopicStatus(TopicResolution.PROVISIONED, its_rows), name)


def updated(local: LocalStore, spec: TopicSpec, observed: Observed | None = None, name: str = "orders") -> Topic:
    planned = plan_topic_update(topic(spec, TopicStatus(), name), local, observed or Observed())
    assert isinstance(planned.result, Topic)
    assert planned.writes in ((), (Put(planned.result),))
    return planned.result


def refused(local: LocalStore, spec: TopicSpec, observed: Observed | None = None, name: str = "orders") -> KafkaError:
    with pytest.raises(KafkaError) as error:
        updated(local, spec, observed, name)
    return error.value


@pytest.mark.parametrize(
    "status",
    [
        TopicStatus(TopicResolution.INVALID_CONFIG, reason="replicaMap: partition 0 names the SPU 9"),
        TopicStatus(TopicResolution.INSUFFICIENT_RESOURCES, reason="a replication factor of 3 needs 3 SPUs"),
        TopicStatus(TopicResolution.PENDING),
    ],
)
def test_a_topic_without_replicas_is_decided_anew(status: TopicStatus) -> None:
    local = local_with(topic(TopicSpec(2, 2, rows(p0=(1, 9), p1=(9, 1))), status), spu(1))
    corrected = TopicSpec(1, 1, rows(p0=(1,)), configs={"retention.ms": "5"})
    after = updated(local, corrected)
    assert (after.spec, after.status, after.version) == (corrected, TopicStatus(TopicResolution.INIT), 1)


def test_rows_by_hand_move_a_partition_and_others_stay() -> None:
    before = provisioned(rows(p0=(1, 2), p1=(2, 1)))
    local = local_with(before, spu(1), spu(2), spu(3))
    after = updated(local, TopicSpec(2, 2, rows(p0=(3, 1))))
    assert after.status == TopicStatus(TopicResolution.PROVISIONED, rows(p0=(3, 1), p1=(2, 1)))
    assert after.spec.replica_map == rows(p0=(3, 1))


def test_a_spec_without_a_row_accepts_where_the_sc_has_moved_a_replica() -> None:
    before = provisioned(rows(p0=(1, 3)), replica_map=rows(p0=(1, 2)))
    local = local_with(before, spu(1), spu(2), spu(3))
    without = updated(local, TopicSpec(1, 2))
    assert (without.spec.replica_map, without.status.replica_map) == ({}, rows(p0=(1, 3)))
    assert updated(local, before.spec).status.replica_map == rows(p0=(1, 2))


def test_a_spec_that_is_in_effect_needs_no_write() -> None:
    before = provisioned(rows(p0=(1, 2)), replica_map=rows(p0=(1, 2)))
    local = local_with(before, spu(1), spu(2))
    wanted = topic(before.spec, TopicStatus())
    assert plan_topic_update(wanted, local, Observed()).writes == ()


def test_nothing_moves_to_an_spu_from_which_the_sc_would_move_it_again() -> None:
    before = provisioned(rows(p0=(1, 3)), replica_map=rows(p0=(1, 2)))
    local = local_with(before, spu(1), spu(2, online=False), spu(3))
    observed = Observed()
    observed.apply(SpusAway(frozenset({SpuId(2)})))
    error = refused(local, before.spec, observed)
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert error.message == (
        "replicaMap: partition 0 cannot move to SPU 2, which leaves or has been offline for too long; start it, or "
        "remove the row to leave the partition on [1, 3]"
    )


def test_another_replication_factor_places_replicas_on_other_racks_and_spreads_leaders() -> None:
    before = provisioned(rows(p0=(1,), p1=(1,)))
    local = local_with(before, spu(1, "a"), spu(2, "a"), spu(3, "b"))
    after = updated(local, TopicSpec(2, 2))
    assert all(set(row) == {1, 3} for row in after.status.replica_map.values())
    assert Counter(row[0] for row in after.status.replica_map.values()) == {1: 1, 3: 1}
    assert after.spec.replication_factor == 2
    ignoring = updated(local, TopicSpec(2, 2, ignores_racks=True))
    assert Counter(each for row in ignoring.status.replica_map.values() for each in row) == {1: 2, 2: 1, 3: 1}


def test_what_other_topics_hold_counts() -> None:
    other = replace(provisioned(rows(p0=(2,), p1=(2,)), "busy"), id=UUID(int=8))
    local = local_with(provisioned(rows(p0=(1,))), spu(1), spu(2), spu(3))
    local.apply(Stored(replace(other, version=9)))
    assert set(updated(local, TopicSpec(1, 2)).status.replica_map[0]) == {1, 3}


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (TopicSpec(1, 1), ErrorCode.INVALID_PARTITIONS),
        (TopicSpec(20_000, 1), ErrorCode.POLICY_VIOLATION),
        (TopicSpec(2, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (TopicSpec(2, 1, rows(p0=(9,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (TopicSpec(2, 2, configs={"replication.policy": "majority"}), ErrorCode.INVALID_CONFIG),
    ],
)
def test_impossible_specs_are_refused(spec: TopicSpec, code: ErrorCode) -> None:
    local = local_with(provisioned(rows(p0=(1,), p1=(1,))), spu(1), spu(2))
    assert refused(local, spec).code is code


def test_a_policy_may_need_a_certain_number_of_replicas() -> None:
    configs = {"replication.policy": "nrw:1,1,1"}
    local = local_with(provisioned(rows(p0=(1,)), configs=configs), spu(1), spu(2))
    assert refused(local, TopicSpec(1, 2, configs=configs)).code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_internal_topics_keep_their_number_of_partitions_and_may_get_replicas() -> None:
    name = "__consumer_offsets"
    local = local_with(provisioned(rows(p0=(1,)), name), spu(1), spu(2))
    assert refused(local, TopicSpec(2, 1), name=name).code is ErrorCode.INVALID_PARTITIONS
    assert len(updated(local, TopicSpec(1, 2), name=name).status.replica_map[0]) == 2


def test_an_unknown_topic_is_refused() -> None:
    local = local_with(provisioned(rows(p0=(1,))))
    assert refused(local, TopicSpec(), name="other").code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
