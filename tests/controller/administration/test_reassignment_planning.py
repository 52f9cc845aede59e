"""Reassignments of partitions that a person requests."""

from controller_model import ModelSc, model, topic
from msgspec.structs import replace

from tailrace.controller.administration.planned_changes import Planned
from tailrace.controller.administration.reassignment_planning import (
    Outcomes,
    group_by_topic,
    ongoing_reassignments,
    plan_reassignments,
)
from tailrace.controller.objects.objects import PartitionResolution, Topic
from tailrace.controller.state.actions import Put
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.server.administration import OngoingReassignment, Reassignment

ONE, TWO, THREE = SpuId(1), SpuId(2), SpuId(3)


def with_topic(configs: dict[str, str] | None = None) -> ModelSc:
    sc = model(1, 2, 3)
    made = topic("t", 2, 2, {0: (1, 2), 1: (2, 3)})
    sc.write(replace(made, spec=replace(made.spec, configs=configs or {})))
    sc.settle()
    return sc


def plan(
    sc: ModelSc, *wanted: tuple[str, int, tuple[int, ...] | None], other_factor_allowed: bool = True
) -> tuple[dict[str, dict[int, ErrorCode | None]], list[Topic]]:
    asked = [
        Reassignment(name, number, None if row is None else tuple(map(SpuId, row))) for name, number, row in wanted
    ]
    topics = group_by_topic(asked)
    plans = plan_reassignments(topics, sc.brain.store, other_factor_allowed=other_factor_allowed)
    outcomes, written = {}, []
    for each, planned in zip(topics, plans, strict=True):
        assert isinstance(planned, Planned)
        outcomes[each.topic] = codes_of(planned.result)
        for write in planned.writes:
            assert isinstance(write, Put)
            assert isinstance(write.object, Topic)
            written.append(write.object)
    return outcomes, written


def codes_of(outcomes: Outcomes) -> dict[int, ErrorCode | None]:
    return {number: None if error is None else error.code for number, error in outcomes.items()}


def carry_out(sc: ModelSc, *wanted: tuple[str, int, tuple[int, ...] | None]) -> None:
    _, written = plan(sc, *wanted)
    for each in written:
        sc.write(each)
    sc.settle()


def test_all_rows_of_a_topic_are_written_at_once() -> None:
    sc = with_topic()
    outcomes, (changed,) = plan(sc, ("t", 0, (3, 1)), ("t", 1, (3, 2, 1)))
    assert outcomes == {"t": {0: None, 1: None}}
    assert changed.status.replica_map == {0: (3, 1), 1: (3, 2, 1)}
    assert changed.spec.replica_map == {0: (3, 1), 1: (3, 2, 1)}, "what was chosen by hand is chosen anew"


def test_an_invalid_reassignment_leaves_the_others() -> None:
    sc = with_topic()
    outcomes, (changed,) = plan(
        sc,
        ("t", 0, (3, 1)),
        ("t", 1, (9,)),
        ("t", 2, (1, 2)),
        ("u", 0, (1,)),
    )
    assert outcomes == {
        "t": {0: None, 1: ErrorCode.INVALID_REPLICA_ASSIGNMENT, 2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        "u": {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    }
    assert changed.status.replica_map == {0: (3, 1), 1: (2, 3)}
    for row in ((), (1, 1), (-1, 2)):
        assert plan(sc, ("t", 0, row)) == ({"t": {0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}}, [])


def test_another_number_of_replicas_may_be_forbidden() -> None:
    sc = with_topic()
    for row, code in (((1,), ErrorCode.INVALID_REPLICATION_FACTOR), ((2, 1), None)):
        outcomes, _ = plan(sc, ("t", 0, row), other_factor_allowed=False)
        assert outcomes == {"t": {0: code}}


def test_a_quorum_policy_fixes_the_number_of_replicas() -> None:
    for policy, code in (("nrw:2,1,2", ErrorCode.INVALID_REPLICA_ASSIGNMENT), ("majority", None)):
        sc = with_topic({"replication.policy": policy})
        outcomes, written = plan(sc, ("t", 0, (1, 2, 3)), ("t", 1, (3, 1)))
        assert outcomes == {"t": {0: code, 1: None}}
        assert written[0].status.replica_map[1] == (3, 1)


def test_a_copy_set_that_takes_over_from_another_is_a_change_under_way() -> None:
    sc = with_topic({"replication.policy": "majority"})
    carry_out(sc, ("t", 0, (1, 3)))
    sc.report(sc.partition(1), (ONE, TWO, THREE))
    sc.settle()
    assert sc.partition(1).spec.copy_sets == ((ONE, TWO), (ONE, THREE))
    assert ongoing_reassignments(sc.brain.store) == [OngoingReassignment("t", 0, (ONE, THREE, TWO), (THREE,), (TWO,))]
    sc.crash()
    sc.settle()
    assert sc.partition(1).spec.copy_sets, "nobody has said that it has taken over"
    sc.report(sc.partition(1), (), has_taken_over=True)
    sc.settle()
    assert (sc.partition(1).spec.replicas, ongoing_reassignments(sc.brain.store)) == ((ONE, THREE), [])


def test_an_existing_assignment_needs_no_write() -> None:
    assert plan(with_topic(), ("t", 0, (1, 2))) == ({"t": {0: None}}, [])


def test_a_change_goes_on_until_the_new_ones_are_live() -> None:
    sc = with_topic()
    carry_out(sc, ("t", 0, (3, 2)))
    assert ongoing_reassignments(sc.brain.store) == [OngoingReassignment("t", 0, (THREE, TWO, ONE), (THREE,), (ONE,))]
    sc.report(sc.partition(1), (ONE, TWO, THREE))
    sc.settle()
    assert ongoing_reassignments(sc.brain.store) == []
    partition = sc.partition(1)
    assert (partition.spec.replicas, partition.status.resolution) == ((THREE, TWO), PartitionResolution.ONLINE)
    assert partition.status.live_replicas.keys() == {TWO, THREE}


def test_a_change_may_be_given_up_and_only_if_there_is_one() -> None:
    sc = with_topic()
    carry_out(sc, ("t", 0, (3, 2)))
    outcomes, (changed,) = plan(sc, ("t", 0, None), ("t", 1, None))
    assert outcomes == {"t": {0: None, 1: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}}
    assert changed.status.replica_map[0] == (1, 2)
    sc.write(changed)
    sc.settle()
    assert sc.partition(1).spec.replicas == (ONE, TWO)
    assert ongoing_reassignments(sc.brain.store) == []
