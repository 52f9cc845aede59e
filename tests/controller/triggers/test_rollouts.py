from tailrace.cluster.stream_state.replica_report import ReplicaReport, ReplicaState
from tailrace.controller.triggers.rollouts import awaited, next_revisions


def reports(*replicas: tuple[int, ReplicaState]) -> dict[str, ReplicaReport]:
    """The state and the revision of replica1, replica2 and so on."""
    return {
        f"replica{number}": ReplicaReport(
            topic="t", group="g", replica=f"replica{number}", revision=revision, state=state
        )
        for number, (revision, state) in enumerate(replicas, 1)
    }


MEMBER, WAITING, STARTING = ReplicaState.MEMBER, ReplicaState.WAITING, ReplicaState.STARTING


def test_the_first_replicas_all_start_with_the_newest_revision() -> None:
    assert next_revisions((), 3, 4, {}) == (4, 4, 4)
    assert next_revisions((4,), 3, 4, {}) == (4, 4, 4)
    assert next_revisions((4, 4, 4), 2, 4, {}) == (4, 4)


def test_replicas_are_replaced_one_by_one() -> None:
    before = reports((1, MEMBER), (1, MEMBER), (1, MEMBER))
    assert next_revisions((1, 1, 1), 3, 2, before) == (2, 1, 1)
    for state in (STARTING, ReplicaState.STOPPING):
        assert next_revisions((2, 1, 1), 3, 2, {**before, **reports((2, state))}) == (2, 1, 1)
    assert next_revisions((2, 1, 1), 3, 2, before) == (2, 1, 1)
    assert next_revisions((2, 1, 1), 3, 2, {**before, **reports((2, MEMBER))}) == (2, 2, 1)
    assert next_revisions((2, 2, 1), 3, 2, {**before, **reports((2, MEMBER), (2, WAITING))}) == (2, 2, 2)


def test_a_revision_that_does_not_start_stops_one_replica_only() -> None:
    assert next_revisions((2, 1, 1), 3, 2, reports((1, STARTING), (1, MEMBER), (1, MEMBER))) == (2, 1, 1)
    assert awaited((2, 1, 1), 2, {}) == "replica1"
    assert next_revisions((2, 1, 1), 3, 3, reports((1, STARTING), (1, MEMBER), (1, MEMBER))) == (3, 1, 1)


def test_replicas_that_a_higher_number_adds_do_not_wait_for_the_others() -> None:
    assert next_revisions((1,), 3, 2, reports((1, MEMBER))) == (1, 2, 2)
