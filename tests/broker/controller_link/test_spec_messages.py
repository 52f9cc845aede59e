import pytest
from msgspec.structs import replace

from tailrace.broker.controller_link.held_specs import HeldSpecs, HeldTopic
from tailrace.broker.controller_link.spec_messages import held_specs, reported_partition, spu_spec, topic_spec
from tailrace.broker.replication.messages import ProposeLiveReplicas
from tailrace.cluster.specs import NO_LEADER, Endpoint, PartitionSpec, Shelf, SpuSpec, TopicSpec
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal import apply_metadata, apply_specs, report_live_replicas

TOPIC, OTHER = TopicId(int=7), TopicId(int=8)


def _partition_spec(number: int, leader: int = 1) -> PartitionSpec:
    replicas = (SpuId(1), SpuId(2))
    return PartitionSpec(TOPIC, "t", number, SpuId(leader), Epoch(5), replicas, (SpuId(1),))


def test_what_a_leader_proposes() -> None:
    proposal = ProposeLiveReplicas(Epoch(5), 8, ((SpuId(1), ""), (SpuId(2), "store")))
    members = [report_live_replicas.Member(1), report_live_replicas.Member(2, "store")]
    assert reported_partition((TOPIC, 3), proposal) == report_live_replicas.ReportedPartition(TOPIC, 3, 5, 8, members)


def test_what_an_spu_is_to_hold() -> None:
    message = apply_specs.ApplySpecsRequest(
        is_full=True,
        size_bytes=1024,
        default_configs=[apply_specs.Config("num.partitions", "3")],
        own_configs=[apply_specs.Config("num.partitions", "4")],
        topics=[
            apply_specs.TopicState(
                TOPIC,
                "t",
                configs=[apply_specs.Config("retention.ms", "1")],
                partitions=[
                    apply_specs.PartitionState(
                        4,
                        1,
                        5,
                        "first",
                        [1, 2],
                        [apply_specs.LiveReplica(1, "store")],
                        8,
                        True,
                        [apply_specs.CopySet([1]), apply_specs.CopySet([1, 2])],
                    )
                ],
            )
        ],
        removed=[apply_specs.RemovedPartition(OTHER, 3)],
    )
    held = replace(
        _partition_spec(4),
        leader_incarnation="first",
        live_incarnations={SpuId(1): "store"},
        version=8,
        was_unclean=True,
        copy_sets=((SpuId(1),), (SpuId(1), SpuId(2))),
    )
    assert held_specs(message, SpuId(1)) == HeldSpecs(
        is_full=True,
        topics=(HeldTopic(TOPIC, "t", {"retention.ms": "1"}, (held,)),),
        removed=((OTHER, 3),),
        unshelved=((OTHER, 3), (TOPIC, 4)),
        default_configs={"num.partitions": "3"},
        own_configs={"num.partitions": "4"},
        size_bytes=1024,
    )


def test_no_size_is_no_limit() -> None:
    assert held_specs(apply_specs.ApplySpecsRequest(), SpuId(1)).size_bytes is None


def test_an_spu_may_have_a_replica_or_a_shelf_or_both() -> None:
    shelves = [apply_specs.Shelf(5, 100, [2, 3]), apply_specs.Shelf(100, 140, [3], [4])]
    partition = apply_specs.PartitionState(4, 1, 5, replicas=[1, 2], shelved_from=7, shelves=shelves)
    message = apply_specs.ApplySpecsRequest(topics=[apply_specs.TopicState(TOPIC, "t", partitions=[partition])])
    spec = replace(
        _partition_spec(4),
        live_replicas=(),
        live_incarnations={},
        shelved_from=7,
        shelves=(Shelf(5, 100, (SpuId(2), SpuId(3))), Shelf(100, 140, (SpuId(3),), (SpuId(4),))),
    )
    replica, key = (HeldTopic(TOPIC, "t", {}, (spec,)),), (TOPIC, 4)
    assert held_specs(message, SpuId(1)) == HeldSpecs(False, topics=replica, unshelved=(key,))
    assert held_specs(message, SpuId(2)) == HeldSpecs(False, topics=replica, shelved=(spec,))
    assert held_specs(message, SpuId(3)) == HeldSpecs(False, removed=(key,), shelved=(spec,))
    assert held_specs(message, SpuId(4)) == HeldSpecs(False, removed=(key,), shelved=(spec,))


def test_the_spec_of_an_spu() -> None:
    state = apply_metadata.SpuState(3, "r1", True, [apply_metadata.Endpoint("PUBLIC", "spu-3", 9005)])
    assert spu_spec(state) == SpuSpec(SpuId(3), "r1", (Endpoint("PUBLIC", "spu-3", 9005),), online=True)
    assert not spu_spec(apply_metadata.SpuState(3)).online
    reachable = apply_metadata.SpuState(3, private_host="spu-3", private_port=9006)
    assert spu_spec(reachable).private == Endpoint("PRIVATE", "spu-3", 9006)


def test_the_spec_of_a_topic() -> None:
    partitions = [
        apply_metadata.PartitionState(1, -1, 5, [1, 2], [1]),
        apply_metadata.PartitionState(0, 1, 5, [1, 2], [1]),
    ]
    configs = [apply_metadata.Config("retention.ms", "1")]
    state = apply_metadata.TopicState(TOPIC, "t", True, configs, partitions)
    expected = (_partition_spec(0), _partition_spec(1, NO_LEADER))
    assert topic_spec(state) == TopicSpec(TOPIC, "t", {"retention.ms": "1"}, expected, internal=True)


@pytest.mark.parametrize("numbers", [(1,), (0, 2), (0, 0)])
def test_a_topic_with_a_gap_is_refused(numbers: tuple[int, ...]) -> None:
    partitions = [apply_metadata.PartitionState(number) for number in numbers]
    with pytest.raises(RemoteProtocolError, match="lacks a partition"):
        topic_spec(apply_metadata.TopicState(TOPIC, "t", partitions=partitions))


def test_a_message_may_have_only_the_changed_partitions_of_a_topic() -> None:
    whole = apply_metadata.TopicState(
        TOPIC, "t", partitions=[apply_metadata.PartitionState(number, 1, 5, [1, 2], [1]) for number in range(3)]
    )
    before = topic_spec(whole)
    changed = [apply_metadata.PartitionState(1, -1, 5, [1, 2], [1])]
    some = apply_metadata.TopicState(TOPIC, "t", partitions=changed, is_whole=False)
    assert topic_spec(some, before).partitions == (
        _partition_spec(0),
        _partition_spec(1, NO_LEADER),
        _partition_spec(2),
    )
    for known in (None, replace(before, partitions=before.partitions[:1])):
        with pytest.raises(RemoteProtocolError, match="does not exist"):
            topic_spec(some, known)


def test_partitions_that_have_not_changed_stay_the_same_objects() -> None:
    states = [apply_metadata.PartitionState(number, 1, 5, [1, 2], [1]) for number in range(2)]
    before = topic_spec(apply_metadata.TopicState(TOPIC, "t", partitions=states))
    states[1] = apply_metadata.PartitionState(1, 2, 6, [1, 2], [1])
    after = topic_spec(apply_metadata.TopicState(TOPIC, "t", partitions=states), before)
    assert after.partitions[0] is before.partitions[0]
    assert after.partitions[1].leader == 2
