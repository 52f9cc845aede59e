"""Elections that a person requests."""

import pytest
from controller_model import ModelSc, model, topic, topic_id
from msgspec.structs import replace

from tailrace.cluster.specs import Shelf
from tailrace.controller.administration.election_planning import plan_elections
from tailrace.controller.administration.planned_changes import Planned
from tailrace.controller.objects.objects import Partition, PartitionResolution
from tailrace.controller.state.actions import Put
from tailrace.controller.state.events import LogEndsReported, ReplicaFailed
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.server.administration import PartitionName

ONE, TWO = SpuId(1), SpuId(2)
NAME = PartitionName("t", 0)
KEY = topic_id(1), 0


def led_by_two() -> ModelSc:
    """Returns an SC whose partition SPU 2 leads, while its preferred leader, SPU 1, is live again."""
    sc = model(1, 2, 3)
    sc.write(topic("t", 1, 2, {0: (1, 2)}))
    sc.settle()
    sc.report(sc.partition(1), (ONE, TWO))
    sc.settle()
    sc.stop_spu(1)
    sc.settle()
    sc.start_spu(1, "second", store="first")
    sc.settle()
    assert sc.partition(1).status.leads == TWO
    return sc


def planned(sc: ModelSc, name: PartitionName = NAME, *, unclean: bool = False) -> Partition:
    (plan,) = plan_elections([name], sc.brain.store, sc.brain.observed, unclean=unclean)
    assert isinstance(plan, Planned)
    (write,) = plan.writes
    assert isinstance(write, Put)
    assert isinstance(write.object, Partition)
    assert plan.result == (sc.partition(1), write.object.status.epoch)
    return write.object


def refusal(sc: ModelSc, name: PartitionName = NAME, *, unclean: bool = False) -> ErrorCode:
    (plan,) = plan_elections([name], sc.brain.store, sc.brain.observed, unclean=unclean)
    assert isinstance(plan, KafkaError)
    assert plan.message
    return plan.code


def test_the_preferred_leader_takes_over_if_it_is_live() -> None:
    sc = led_by_two()
    before = sc.partition(1)
    elected = planned(sc)
    assert elected.status == replace(
        before.status,
        resolution=PartitionResolution.CANDIDATE_FOUND,
        leader=ONE,
        epoch=before.status.epoch + 1,
        incarnation="second",
    )
    sc.write(elected)
    sc.settle()
    assert sc.partition(1).status.leads == ONE
    assert refusal(sc) == ErrorCode.ELECTION_NOT_NEEDED


def test_a_preferred_leader_that_is_away_or_started_anew_cannot() -> None:
    sc = led_by_two()
    sc.stop_spu(1)
    sc.settle()
    assert refusal(sc) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    sc.start_spu(1, "third")
    sc.settle()
    assert refusal(sc) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_a_preferred_leader_whose_disk_has_failed_cannot() -> None:
    sc = led_by_two()
    sc.deliver(ReplicaFailed(ONE, "second", *KEY, Epoch(1)))
    assert refusal(sc) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    sc.start_spu(1, "third", store="first")
    sc.settle()
    assert planned(sc).status.leads == ONE


def test_a_replica_with_a_failed_disk_is_not_elected_uncleanly() -> None:
    """The other replicas would be removed from the live set, and never lead."""
    sc = led_by_two()
    sc.report(sc.partition(1), (ONE, TWO))
    sc.settle()
    sc.stop_spu(2)
    sc.settle()
    sc.start_spu(2, "second")
    sc.settle()
    sc.deliver(ReplicaFailed(ONE, "second", *KEY, Epoch(1)))
    sc.settle()
    assert sc.partition(1).status.resolution is PartitionResolution.OFFLINE
    assert planned(sc, unclean=True).status.live_replicas == {TWO: "second"}
    sc.stop_spu(2)
    sc.settle()
    assert refusal(sc, unclean=True) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


@pytest.mark.parametrize("unclean", [False, True])
def test_an_unknown_partition_has_no_election(unclean: bool) -> None:
    sc = led_by_two()
    for name in (PartitionName("t", 1), PartitionName("u", 0)):
        assert refusal(sc, name, unclean=unclean) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_any_replica_of_an_offline_partition_can_be_elected_uncleanly() -> None:
    sc = led_by_two()
    assert refusal(sc, unclean=True) == ErrorCode.ELECTION_NOT_NEEDED
    sc.report(sc.partition(1), (TWO,))
    sc.settle()
    sc.stop_spu(2)
    sc.settle()
    version = sc.partition(1).status.live_version
    elected = planned(sc, unclean=True).status
    assert (elected.leader, elected.live_replicas, elected.live_version) == (ONE, {ONE: "first"}, version + 1)
    sc.stop_spu(1)
    sc.settle()
    assert refusal(sc, unclean=True) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_uncleanly_a_live_replica_goes_before_others_and_a_sure_one_loses_nothing() -> None:
    sc = led_by_two()
    sc.report(sc.partition(1), (TWO,))
    sc.settle()
    sc.mute_elected = {1, 2}
    sc.start_spu(2, "second")
    sc.settle()
    sc.wait_for_leaders()
    sc.settle()
    assert sc.partition(1).status.resolution is PartitionResolution.OFFLINE
    assert planned(sc, unclean=True).status.live_replicas == {TWO: "second"}
    sc.start_spu(2, "third", store="first")
    sc.settle()
    sc.wait_for_leaders()
    sc.settle()
    before = sc.partition(1).status
    assert before.resolution is PartitionResolution.OFFLINE
    assert planned(sc, unclean=True).status.live_version == before.live_version


def test_an_unclean_leader_must_be_known_to_reach_the_end_of_the_shelves() -> None:
    sc = led_by_two()
    sc.report(sc.partition(1), (TWO,))
    sc.settle()
    found = sc.partition(1)
    shelves = (Shelf(0, 10, (SpuId(3),)),)
    sc.write(replace(found, spec=replace(found.spec, shelves=shelves)))
    sc.settle()
    sc.stop_spu(2)
    sc.settle()
    assert sc.partition(1).status.resolution is PartitionResolution.OFFLINE
    assert refusal(sc, unclean=True) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    epoch = sc.partition(1).status.epoch
    sc.brain.observed.apply(LogEndsReported(ONE, "second", {KEY: epoch}, {KEY: 9}))
    assert refusal(sc, unclean=True) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    sc.brain.observed.apply(LogEndsReported(ONE, "second", {KEY: epoch}, {KEY: 10}))
    assert planned(sc, unclean=True).status.leader == ONE
