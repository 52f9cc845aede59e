"""Tests of consumer groups: commits, fetches and subscriptions."""

from typing import Any

import pytest
from assigning import partitions
from consumer_stories import ClassicConsumer, Consumer, group_in
from grouping import GroupWorld

from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer.consumer_member import CurrentAssignment
from tailrace.broker.groups.consumer.consumer_records import current_record
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def test_records_of_members_that_have_the_same_leave_it_to_the_last_one() -> None:
    """Our logs have no such records, but a damaged log could."""
    group = ConsumerGroup("g", lambda group, moment: None)
    (partition,) = partitions("a0")
    for member_id in "mn":
        group.apply(current_record("g", member_id, CurrentAssignment(5, assigned={partition: 5})))
    group.apply(current_record("g", "m", CurrentAssignment(6)))
    assert group.owners == {partition: "n"}


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.put_topic("a", 4)
    return world


def refusal_of_commit(world: GroupWorld, *said: Any, **more: Any) -> ErrorCode | None:
    try:
        group_in(world).check_commit(*said, **more)
    except KafkaError as error:
        return error.code
    return None


def test_who_may_commit(world: GroupWorld) -> None:
    m = Consumer(world, "m")
    m.join()
    assert refusal_of_commit(world, "m", None, 2, 9) is None
    assert refusal_of_commit(world, "m", None, 1, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert refusal_of_commit(world, "m", None, 3, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert refusal_of_commit(world, "m", None, -1, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert refusal_of_commit(world, "m", None, 2, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert refusal_of_commit(world, "n", None, 2, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal_of_commit(world, "", None, -1, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal_of_commit(world, "", None, -1, 3, transactional=True) is None
    old = ClassicConsumer(world, "old")
    old.go_on()
    assert refusal_of_commit(world, "old", None, old.generation, 2) is None
    assert refusal_of_commit(world, "old", None, 1, 9) == ErrorCode.ILLEGAL_GENERATION
    m.leave()
    old.leave()


def test_with_an_earlier_epoch_a_member_commits_what_it_has_had_since_then(world: GroupWorld) -> None:
    m, n = Consumer(world, "m"), Consumer(world, "n")
    m.join()
    world.pass_time(1.0)
    n.join()
    first = sorted(m.owned)
    m.beat(says_owned=False)
    m.beat()
    n.beat()
    assert (m.epoch, m.numbers, n.numbers) == (3, [0, 1], [2, 3])
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert refusal_of_commit(world, "m", None, 2, 9, partitions=first[:2]) is None
    assert refusal_of_commit(world, "m", None, 2, 9, partitions=first) == stale
    assert refusal_of_commit(world, "m", None, 2, 9, partitions=[]) == stale
    assert refusal_of_commit(world, "m", None, 1, 9, partitions=first[:2]) == stale
    assert refusal_of_commit(world, "m", None, 4, 9, partitions=first[:2]) == stale
    assert refusal_of_commit(world, "n", None, 2, 9, partitions=first[2:]) == stale
    assert refusal_of_commit(world, "m", None, 3, 9, partitions=first) is None, "the epoch it has is always right"
    request = OffsetCommitRequest("g", 2, "m")
    for number, code in ((0, ErrorCode.NONE), (2, stale)):
        request.topics = [OffsetCommitRequestTopic("a", partitions=[OffsetCommitRequestPartition(number, 5)])]
        asked = world.ask(lambda coordinator, moment, waiter: coordinator.offsets.commit(request, 9, waiter, moment))
        assert asked.reply.topics[0].partitions[0].error_code == code


def test_a_commit_without_a_member_is_allowed_for_an_empty_group(world: GroupWorld) -> None:
    m = Consumer(world, "m")
    m.join()
    m.leave()
    assert refusal_of_commit(world, "", None, -1, 0) is None
    assert refusal_of_commit(world, "m", None, 2, 9) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, None),
        ("m", 2, None),
        ("m", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("n", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_fetch_offsets(world: GroupWorld, member_id: str | None, epoch: int, code: ErrorCode | None) -> None:
    Consumer(world, "m").join()
    if code is None:
        group_in(world).check_fetch(member_id, epoch)
        return
    with pytest.raises(KafkaError) as refused:
        group_in(world).check_fetch(member_id, epoch)
    assert refused.value.code == code


def test_what_a_group_subscribes_to(world: GroupWorld) -> None:
    world.put_topic("b", 1)
    Consumer(world, "m", ("a", "later")).join()
    Consumer(world, "n", None, extra={"subscribed_topic_regex": "b"}).join()
    assert group_in(world).subscribed_topics() == {"a", "b", "later"}


def test_since_when_a_group_is_empty(world: GroupWorld) -> None:
    m = Consumer(world, "m")
    m.join()
    assert group_in(world).empty_since_ms is None
    m.leave()
    left_ms = world.now_ms
    world.pass_time(9.0)
    assert group_in(world).empty_since_ms == left_ms
    world.restart()
    assert group_in(world).empty_since_ms is None, "another coordinator does not know"
