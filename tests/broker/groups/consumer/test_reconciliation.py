import pytest
from assigning import partitions

from tailrace.broker.groups.assignment.assignments import Partitions
from tailrace.broker.groups.consumer.consumer_member import CurrentAssignment, MemberState
from tailrace.broker.groups.consumer.reconciliation import reconcile
from tailrace.protocol.error_codes import ErrorCode, KafkaError

STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)
NONE = partitions()


def has(
    *names: str, epoch: int = 5, since: int = 5, state: MemberState = STABLE, revoking: Partitions = NONE
) -> CurrentAssignment:
    return CurrentAssignment(
        epoch, epoch - 1, state, dict.fromkeys(partitions(*names), since), dict.fromkeys(revoking, since)
    )


def step(
    current: CurrentAssignment,
    target: Partitions,
    owned: Partitions | None = None,
    *,
    epoch: int = 6,
    busy: Partitions = NONE,
    unsubscribed: Partitions = NONE,
) -> CurrentAssignment:
    left = {partition.topic_id for partition in unsubscribed}
    return reconcile(
        current,
        target=target,
        target_epoch=epoch,
        owned=owned,
        is_free=lambda partition: partition not in busy,
        subscribed=lambda: {each.topic_id for each in current.assigned} - left,
    )


def test_a_member_with_its_target_gets_the_epoch() -> None:
    after = step(has("a0"), partitions("a0"))
    assert (after.epoch, after.previous_epoch, after.state) == (6, 5, STABLE)
    assert after.assigned == dict.fromkeys(partitions("a0"), 5), "since the epoch that gave it"


def test_unsubscribing_during_a_revocation_revokes_that_topic_too() -> None:
    had = has("a0", "b0", state=UNREVOKED, revoking=partitions("a1"))
    after = step(had, partitions("a0"), partitions("a0", "a1", "b0"), unsubscribed=partitions("b0"))
    assert (after.epoch, after.state, after.assigned.keys()) == (5, UNREVOKED, partitions("a0"))
    assert after.revoking.keys() == partitions("a1", "b0")
    still = step(after, partitions("a0"), partitions("a0", "b0"), unsubscribed=partitions("b0"))
    assert still == after
    done = step(after, partitions("a0"), partitions("a0"), unsubscribed=partitions("b0"))
    assert (done.epoch, done.state, done.assigned.keys()) == (6, STABLE, partitions("a0"))


def test_what_is_new_is_had_since_the_new_epoch() -> None:
    after = step(has("a0"), partitions("a0", "a1"))
    assert sorted(after.assigned.items()) == [(*partitions("a0"), 5), (*partitions("a1"), 6)]


def test_what_others_have_is_waited_for() -> None:
    after = step(has("a0"), partitions("a0", "a1", "a2"), busy=partitions("a1"))
    assert (after.epoch, after.state, after.assigned.keys()) == (6, UNRELEASED, partitions("a0", "a2"))
    again = step(after, partitions("a0", "a1", "a2"), busy=partitions("a1"))
    assert again == after
    free = step(after, partitions("a0", "a1", "a2"))
    assert (free.epoch, free.previous_epoch, free.state) == (6, 5, STABLE)
    assert free.assigned.keys() == partitions("a0", "a1", "a2")


@pytest.mark.parametrize("owned", [None, partitions("a0", "a1"), partitions("a1")])
def test_a_member_that_may_still_own_revoked_partitions_keeps_its_epoch(owned: Partitions | None) -> None:
    after = step(has("a0", "a1"), partitions("a0", "a2"), owned)
    assert (after.epoch, after.previous_epoch, after.state) == (5, 4, UNREVOKED)
    assert after.assigned.keys() == partitions("a0")
    assert after.revoking.keys() == partitions("a1")
    assert step(after, partitions("a0", "a2"), owned) == after


def test_nothing_is_assigned_before_all_is_revoked() -> None:
    current = has("a0", state=UNREVOKED, revoking=partitions("a1", "a2"))
    assert step(current, partitions("a0", "a3"), partitions("a0", "a2")) == current
    after = step(current, partitions("a0", "a3"), partitions("a0"))
    assert (after.epoch, after.state, after.assigned.keys()) == (6, STABLE, partitions("a0", "a3"))
    assert not after.revoking


def test_another_target_can_revoke_more() -> None:
    current = has("a0", "a1", state=UNREVOKED, revoking=partitions("a2"))
    after = step(current, partitions("a1"), partitions("a0", "a1"), epoch=7)
    assert (after.epoch, after.state) == (5, UNREVOKED)
    assert (after.assigned.keys(), after.revoking.keys()) == (partitions("a1"), partitions("a0"))


def test_partitions_that_are_reported_as_revoked_need_no_further_heartbeat() -> None:
    after = step(has("a0", "a1"), partitions("a0"), partitions("a0"))
    assert (after.epoch, after.state, after.assigned.keys()) == (6, STABLE, partitions("a0"))


def test_a_stable_member_revokes_unsubscribed_topics() -> None:
    after = step(has("a0", "b0"), partitions("b0"), epoch=5)
    assert (after.epoch, after.state, after.revoking.keys()) == (5, UNREVOKED, partitions("a0"))


def test_an_unknown_state_is_left_without_partitions_only() -> None:
    current = has("a0", state=MemberState.UNKNOWN)
    for owned in (None, partitions("a0")):
        with pytest.raises(KafkaError) as refused:
            step(current, partitions("a0"), owned)
        assert refused.value.code == ErrorCode.FENCED_MEMBER_EPOCH
    assert step(current, partitions("a0"), NONE).state is STABLE
