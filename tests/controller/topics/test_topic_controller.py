"""The Topic Controller: from the spec of a topic to rows, and from rows to partitions."""

from collections import Counter

import pytest
from controller_model import ModelSc, custom, model, storage, topic, topic_id
from msgspec.structs import replace

from tailrace.controller.objects.objects import (
    Partition,
    PartitionResolution,
    PartitionSpec,
    Spu,
    SpuSpec,
    Topic,
    TopicResolution,
    TopicSpec,
    TopicStatus,
)
from tailrace.controller.state.actions import Put
from tailrace.controller.state.events import SpusAway
from tailrace.protocol.ids import SpuId


def with_topic(wanted: Topic, *spus: int) -> ModelSc:
    sc = model(*spus)
    sc.write(wanted)
    sc.settle()
    return sc


def resolutions(sc: ModelSc) -> list[str]:
    return [each.status.resolution for each in sc.kv.history_of(Topic)]


def partitions(sc: ModelSc) -> list[Partition]:
    return sorted(sc.kv.all_of(Partition), key=lambda each: each.number)


def test_the_seeds_topic_of_six_by_three_is_spread_evenly() -> None:
    sc = with_topic(topic("t", 6, 3), 0, 1, 2)
    assert resolutions(sc) == ["", "Init", "Pending", "Provisioned"]
    rows = sc.status_of("t").replica_map
    assert list(rows) == [0, 1, 2, 3, 4, 5]
    assert Counter(row[0] for row in rows.values()) == {0: 2, 1: 2, 2: 2}
    assert all(sorted(row) == [0, 1, 2] for row in rows.values())
    assert [each.spec for each in partitions(sc)] == [PartitionSpec(row[0], row) for row in rows.values()]
    assert {each.status.resolution for each in partitions(sc)} == {PartitionResolution.ONLINE}


def test_the_seeds_map_is_taken_as_it_is() -> None:
    rows = {0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 1, 0), 3: (0, 1, 2), 4: (1, 2, 0), 5: (2, 1, 0)}
    sc = with_topic(topic("t", 6, 3, rows), 0, 1, 2)
    assert sc.status_of("t") == TopicStatus(TopicResolution.PROVISIONED, rows)
    assert [each.status.leader for each in partitions(sc)] == [0, 1, 2, 0, 1, 2]


def test_rows_chosen_by_hand_may_name_spus_that_are_not_online() -> None:
    sc = model(1)
    sc.write(custom(2))
    sc.write(topic("t", 1, 2, {0: (2, 1)}))
    sc.settle()
    assert sc.status_of("t").replica_map == {0: (2, 1)}
    assert sc.partition(1).status.leader == 1


def test_spus_that_are_away_get_replicas_only_where_the_others_are_too_few() -> None:
    sc = model(1, 2, 3)
    for spu in (2, 3):
        sc.stop_spu(spu)
    sc.settle()
    sc.write(topic("t", 4, 2))
    sc.settle()
    rows = sc.status_of("t").replica_map
    assert [sorted(row) for row in rows.values()] == [[1, 2]] * 4
    assert {each.status.leader for each in partitions(sc)} == {1}
    sc.start_spu(2)
    sc.settle()
    assert sc.status_of("t").replica_map == rows


def test_offline_spus_get_no_replicas_if_enough_are_online() -> None:
    sc = model(1, 2, 3)
    sc.stop_spu(2)
    sc.settle()
    sc.write(topic("t", 4, 2))
    sc.settle()
    assert {spu for row in sc.status_of("t").replica_map.values() for spu in row} == {1, 3}


@pytest.mark.parametrize(("factor", "spus"), [(2, {1, 3}), (3, {1, 2, 3})])
def test_full_spus_get_replicas_only_where_the_others_are_too_few(factor: int, spus: set[int]) -> None:
    sc = model(1, 2, 3)
    sc.from_connections.append(storage(2, 5, 5))
    sc.settle()
    sc.write(topic("t", 4, factor))
    sc.settle()
    assert {spu for row in sc.status_of("t").replica_map.values() for spu in row} == spus


def test_a_topic_waits_for_spus_and_continues_by_itself() -> None:
    sc = with_topic(topic("t", 2, 3), 1)
    assert resolutions(sc) == ["", "Init", "Pending", "InsufficientResources"]
    assert sc.status_of("t").reason == "a replication factor of 3 needs 3 SPUs, and 1 is available"
    assert partitions(sc) == []
    for spu in (2, 3):
        sc.write(custom(spu))
        sc.settle()
        assert sc.status_of("t").resolution is TopicResolution.INSUFFICIENT_RESOURCES
    sc.start_spu(2)
    sc.settle()
    assert sc.status_of("t").reason == "a replication factor of 3 needs 3 SPUs, and 2 are available"
    sc.start_spu(3)
    sc.settle()
    assert sc.status_of("t").resolution is TopicResolution.PROVISIONED
    assert len(partitions(sc)) == 2


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (topic("t", 0, 1), "partitions: 0 is less than 1"),
        (topic("t", 1, 0), "replicationFactor: 0 is less than 1"),
        (topic("t", 10_001, 1), "partitions: 10001 would be added at a time, more than 10000"),
        (topic("t", 1, 1, {0: (9,)}), "replicaMap: partition 0 names the SPU 9, which does not exist"),
        (topic("t", 1, 2, {0: (1, 1)}), "replicaMap: partition 0 names an SPU twice"),
        (topic("t", 1, 2, {0: (1,)}), "replicaMap: partition 0 has 1 replicas, not 2"),
        (topic("t", 1, 1, {1: (1,)}), "replicaMap: there is a row for partition 1, but partitions are 1"),
    ],
)
def test_impossible_requests_are_refused_with_a_reason(wanted: Topic, reason: str) -> None:
    sc = with_topic(wanted, 1, 2)
    assert resolutions(sc) == ["", "Init", "InvalidConfig"]
    assert sc.status_of("t").reason == reason


def test_a_topic_that_was_invalid_is_looked_at_again_when_it_or_the_spus_change() -> None:
    sc = with_topic(topic("t", 1, 1, {0: (9,)}), 1)
    sc.write(custom(9))
    sc.settle()
    assert sc.status_of("t") == TopicStatus(TopicResolution.PROVISIONED, {0: (9,)})
    sc.write(topic("u", 0, 1, number=2))
    sc.settle()
    sc.write(replace(sc.topic("u"), spec=TopicSpec(1, 1)))
    sc.settle()
    assert sc.status_of("u").resolution is TopicResolution.PROVISIONED


def test_a_topic_grows_and_what_it_had_stays() -> None:
    sc = with_topic(topic("t", 2, 1), 1, 2, 3)
    before = sc.status_of("t").replica_map
    sc.grow_topic("t", 3)
    sc.settle()
    rows = sc.status_of("t").replica_map
    assert {number: rows[number] for number in (0, 1)} == before
    assert Counter(row[0] for row in rows.values()) == {1: 1, 2: 1, 3: 1}
    assert [each.number for each in partitions(sc)] == [0, 1, 2]


def test_a_topic_grows_by_rows_chosen_by_hand() -> None:
    sc = with_topic(topic("t", 1, 1, {0: (1,)}), 1, 2)
    sc.write(replace(sc.topic("t"), spec=TopicSpec(3, 1, {0: (1,), 1: (1,)})))
    sc.settle()
    assert sc.status_of("t").replica_map == {0: (1,), 1: (1,), 2: (2,)}


def test_a_topic_that_cannot_grow_stays_provisioned_and_says_why_until_it_can() -> None:
    sc = with_topic(topic("t", 1, 1), 1)
    sc.stop_spu(1)
    sc.settle()
    sc.grow_topic("t", 2)
    sc.settle()
    status = sc.status_of("t")
    assert (status.resolution, len(status.replica_map)) == (TopicResolution.PROVISIONED, 1)
    assert status.reason == "a replication factor of 1 needs 1 SPU, and 0 are available"
    sc.start_spu(1, "second")
    sc.settle()
    status = sc.status_of("t")
    assert (status.resolution, len(status.replica_map), status.reason) == (TopicResolution.PROVISIONED, 2, "")


def test_rows_of_other_topics_count_also_those_that_are_just_being_written() -> None:
    sc = model(1, 2, 3)
    for number in range(1, 10):
        sc.write(topic(f"t{number}", 1, 1, number=number))
    while sc.from_store or sc.writes:  # All topics are placed before the store reports the first one.
        while sc.from_store:
            sc.deliver_from_store()
        while sc.writes:
            sc.carry_out_a_write()
    rows = [row for number in range(1, 10) for row in sc.status_of(f"t{number}").replica_map.values()]
    assert Counter(row[0] for row in rows) == {1: 3, 2: 3, 3: 3}


def test_replicas_are_spread_over_racks_unless_the_topic_ignores_them() -> None:
    sc = model()
    for spu, rack in ((1, "a"), (2, "a"), (3, "b")):
        sc.write(Spu(SpuSpec(SpuId(spu), rack=rack)))
        sc.start_spu(spu)
    sc.settle()
    sc.write(topic("spread", 2, 2))
    sc.write(replace(topic("even", 3, 2, number=2), spec=TopicSpec(3, 2, ignores_racks=True)))
    sc.settle()
    assert all(3 in row for row in sc.status_of("spread").replica_map.values())
    assert Counter(spu for row in sc.status_of("even").replica_map.values() for spu in row) == {1: 2, 2: 2, 3: 2}


def test_partitions_are_made_from_the_rows_that_the_store_has() -> None:
    """Rows that lost their compare-and-set are forgotten, and their partitions are never created."""
    sc = model(1, 2)
    sc.write(topic("t", 1, 1))
    while not (sc.writes and sc.status_of("t").resolution is TopicResolution.PENDING):
        sc.carry_out_a_write() if sc.writes else sc.deliver_from_store()
    assert sc.writes[0].object.version == sc.topic("t").version
    sc.touch("topic/t")
    sc.carry_out_a_write()
    assert sc.status_of("t").resolution is TopicResolution.PENDING
    sc.settle()
    assert [each.spec.replicas for each in partitions(sc)] == list(sc.status_of("t").replica_map.values())
    assert len([each for each in sc.actions if isinstance(each, Put) and each.object.version == 0]) == 1


def test_partitions_that_a_crash_has_left_out_are_made() -> None:
    sc = model(1)
    sc.write(topic("t", 3, 1))
    while not partitions(sc):
        sc.carry_out_a_write() if sc.writes else sc.deliver_from_store()
    assert len(partitions(sc)) == 1
    sc.crash()
    sc.settle()
    assert [each.number for each in partitions(sc)] == [0, 1, 2]


def test_a_new_topic_of_an_old_name_has_partitions_of_its_own() -> None:
    sc = with_topic(topic("t", 2, 1), 1)
    sc.delete_topic("t")
    sc.write(topic("t", 1, 1, number=2))
    sc.settle()
    assert [each.number for each in partitions(sc) if each.topic_id == topic_id(2)] == [0]
    assert list(sc.told) == [(topic_id(2), 0)]


def test_replicas_on_an_spu_that_stays_offline_move_while_the_partition_is_led() -> None:
    sc = with_topic(topic("t", 3, 2, {0: (1, 2), 1: (2, 1), 2: (2, 3)}), 1, 2, 3)
    sc.report(sc.partition(1, 0), (SpuId(1),))
    sc.settle()
    sc.stop_spu(1)
    sc.settle()
    sc.deliver(SpusAway(frozenset()))
    sc.reconcile()
    sc.settle()
    assert sc.status_of("t").replica_map == {0: (1, 2), 1: (2, 1), 2: (2, 3)}
    for _ in range(2):
        sc.deliver(SpusAway(frozenset({SpuId(1)})))
        sc.reconcile()
        sc.settle()
        assert sc.status_of("t").replica_map == {0: (1, 2), 1: (2, 3), 2: (2, 3)}, "what nobody has cannot be copied"
    sc.report(sc.partition(1, 1), (SpuId(2), SpuId(3)))
    sc.settle()
    assert sc.partition(1, 1).spec == PartitionSpec(SpuId(2), (SpuId(2), SpuId(3)))


def test_a_replica_whose_disk_failed_gets_another_place_and_what_else_its_spu_has_stays() -> None:
    sc = with_topic(topic("t", 2, 2, {0: (1, 2), 1: (2, 1)}), 1, 2, 3)
    for number in (0, 1):
        sc.report(sc.partition(1, number), (SpuId(1), SpuId(2)))
    sc.settle()
    sc.deliver(SpusAway(frozenset(), frozenset({(topic_id(1), 0, SpuId(1))})))
    sc.reconcile()
    sc.settle()
    assert sc.status_of("t").replica_map == {0: (3, 2), 1: (2, 1)}
    sc.write(topic("later", 3, 2, number=2))
    sc.settle()
    holders = {spu for row in sc.status_of("later").replica_map.values() for spu in row}
    assert holders == {2, 3}, "the disk would fail for that, too"


def test_with_a_majority_policy_its_replicas_move_as_well() -> None:
    wanted = topic("t", 1, 3, {0: (1, 2, 3)})
    sc = with_topic(replace(wanted, spec=replace(wanted.spec, configs={"replication.policy": "majority"})), 1, 2, 3, 4)
    sc.stop_spu(1)
    sc.deliver(SpusAway(frozenset({SpuId(1)})))
    sc.settle()
    sc.reconcile()
    sc.settle()
    assert sc.status_of("t").replica_map == {0: (4, 2, 3)}
    sc.report(sc.partition(1), (SpuId(2), SpuId(3), SpuId(4)))
    sc.settle()
    assert sc.partition(1).spec.copy_sets == ((1, 2, 3), (4, 2, 3))
    sc.report(sc.partition(1), (), has_taken_over=True)
    sc.settle()
    assert sc.partition(1).spec == PartitionSpec(SpuId(4), (SpuId(4), SpuId(2), SpuId(3)))


def test_an_spu_that_is_back_keeps_what_it_has() -> None:
    sc = with_topic(topic("t", 1, 2, {0: (1, 2)}), 1, 2, 3)
    sc.deliver(SpusAway(frozenset({SpuId(2)})))
    sc.reconcile()
    sc.settle()
    assert sc.status_of("t").replica_map == {0: (1, 2)}
