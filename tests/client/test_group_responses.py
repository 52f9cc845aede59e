import pytest

from tailrace.client.group_facts import Group, Progress
from tailrace.client.group_responses import classic_group, consumer_group, is_not_found, progress
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.protocol.codec.compile import encode_whole
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_describe import Assignment, TopicPartitions
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from tailrace.protocol.messages.consumer_group_describe import Member as ConsumerMember
from tailrace.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tailrace.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tailrace.protocol.messages.describe_groups import DescribedGroup as ClassicGroup
from tailrace.protocol.messages.describe_groups import DescribedGroupMember
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

ASSIGNMENT = ConsumerProtocolAssignment([TopicPartition("orders", [1, 0])])
SUBSCRIPTION = ConsumerProtocolSubscription(["payments", "orders"])


def _classic(**fields: object) -> ClassicGroup:
    return ClassicGroup(group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [0, 3, 9])
def test_what_a_classic_consumer_owns_stands_in_its_own_words(version: int) -> None:
    """The client may be newer than this version."""
    known = min(version, 3)
    prefix = version.to_bytes(2)
    member = DescribedGroupMember(
        "m-1",
        "worker-1",
        "billing",
        "/10.0.0.7",
        prefix + encode_whole(SUBSCRIPTION, known),
        prefix + encode_whole(ASSIGNMENT, known),
    )
    group = classic_group(_classic(members=[member]), 3)
    assert isinstance(group, Group)
    assert (group.type, group.assignor, group.coordinator, group.epoch) == ("classic", "range", 3, None)
    (found,) = group.members
    assert found.owned == {Partition("orders", 0), Partition("orders", 1)}
    assert found.subscription == "orders, payments"
    assert found.target is None


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff", b"\xff\xff"])
def test_bytes_of_somebody_else_are_no_assignment(data: bytes) -> None:
    group = classic_group(_classic(members=[DescribedGroupMember("m-1", member_assignment=data)]), 3)
    assert isinstance(group, Group)
    assert group.members[0].owned == frozenset()


def test_what_members_of_another_protocol_have_is_not_read() -> None:
    assigned = b"\x00\x00" + encode_whole(ASSIGNMENT, 0)
    described = _classic(members=[DescribedGroupMember("m-1", member_assignment=assigned)])
    described.protocol_type = "connect"
    group = classic_group(described, 3)
    assert isinstance(group, Group)
    assert group.members[0].owned == frozenset()


def test_a_group_that_is_not_there_is_told_in_two_ways() -> None:
    dead = ClassicGroup(group_id="g", group_state="Dead")
    missing = ClassicGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="Group g not found.")
    for each in (dead, missing):
        refused = classic_group(each, 1)
        assert is_not_found(refused)
        assert str(refused) == "there is no group g"
    other = classic_group(ClassicGroup(group_id="g", error_code=ErrorCode.NOT_COORDINATOR), 1)
    assert isinstance(other, RefusedError)
    assert not is_not_found(other)


def test_a_group_of_the_new_protocol_has_epochs_and_targets() -> None:
    owned = Assignment([TopicPartitions(topic_name="orders", partitions=[0])])
    target = Assignment([TopicPartitions(topic_name="orders", partitions=[0, 1])])
    member = ConsumerMember(
        "m-1",
        member_epoch=4,
        subscribed_topic_names=["orders"],
        subscribed_topic_regex="pay.*",
        assignment=owned,
        target_assignment=target,
    )
    group = consumer_group(ConsumerGroup(0, None, "g", "Reconciling", 5, 4, "uniform", [member]), 2)
    assert (group.type, group.state, group.epoch, group.assignment_epoch) == ("consumer", "Reconciling", 5, 4)
    (found,) = group.members
    assert (found.owned, found.target) == (
        {Partition("orders", 0)},
        {Partition("orders", 0), Partition("orders", 1)},
    )
    assert (found.subscription, found.epoch) == ("orders, /pay.*/", 4)


def test_what_was_not_committed_is_no_progress() -> None:
    partitions = [
        OffsetFetchResponsePartitions(0, 7, metadata="note"),
        OffsetFetchResponsePartitions(1, -1),
        OffsetFetchResponsePartitions(2, 3, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT),
    ]
    answer = OffsetFetchResponseGroup("g", [OffsetFetchResponseTopics("orders", partitions=partitions)])
    assert progress(answer) == [Progress(Partition("orders", 0), 7, "note")]
