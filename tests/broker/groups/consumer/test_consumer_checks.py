"""Tests that refused heartbeats get the errors and messages of Apache Kafka."""

from typing import Any

import pytest
from assigning import partitions

from tailrace.broker.groups.consumer.consumer_checks import check_epoch, check_request
from tailrace.broker.groups.consumer.consumer_member import ConsumerMember, CurrentAssignment
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

JOIN: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "rebalance_timeout_ms": 1,
    "subscribed_topic_names": ["a"],
    "topic_partitions": [],
}
GO_ON: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": 3}
ASSIGNORS = ("uniform", "range")


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        (JOIN | {"group_id": ""}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        (JOIN | {"group_id": " "}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        (JOIN | {"instance_id": ""}, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty."),
        (JOIN | {"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        (JOIN | {"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        (GO_ON | {"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        (GO_ON | {"member_epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        (GO_ON | {"member_epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId can't be null."),
        (
            JOIN | {"rebalance_timeout_ms": -1},
            ErrorCode.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            JOIN | {"topic_partitions": None},
            ErrorCode.INVALID_REQUEST,
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            JOIN | {"topic_partitions": [TopicPartitions()]},
            ErrorCode.INVALID_REQUEST,
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            JOIN | {"subscribed_topic_names": None},
            ErrorCode.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (
            JOIN | {"server_assignor": "mine"},
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor mine is not supported. Supported assignors: uniform, range.",
        ),
        (
            JOIN | {"member_id": "m" * 40_000},
            ErrorCode.INVALID_REQUEST,
            "a name has more than 32000 bytes",
        ),
    ],
)
def test_what_is_refused(said: dict[str, Any], code: ErrorCode, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_request(ConsumerGroupHeartbeatRequest(**said), 1, ASSIGNORS)
    assert (refused.value.code, refused.value.message) == (code, message)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        (JOIN, 1),
        (JOIN | {"subscribed_topic_names": None, "subscribed_topic_regex": ""}, 1),
        (JOIN | {"member_id": ""}, 0),
        (JOIN | {"server_assignor": "range"}, 1),
        (GO_ON, 1),
        (GO_ON | {"member_epoch": -1}, 1),
        (GO_ON | {"member_epoch": -2, "instance_id": "i"}, 1),
    ],
)
def test_what_is_right(said: dict[str, Any], version: int) -> None:
    check_request(ConsumerGroupHeartbeatRequest(**said), version, ASSIGNORS)


@pytest.mark.parametrize(
    ("epoch", "owned", "is_right"),
    [
        (5, None, True),
        (4, partitions(), True),
        (4, partitions("a0"), True),
        (4, partitions("a0", "a1"), False),
        (4, None, False),
        (3, partitions(), False),
        (6, partitions(), False),
    ],
)
def test_which_epochs_a_member_may_come_with(epoch: int, owned: Any, is_right: bool) -> None:
    member = ConsumerMember("m", current=CurrentAssignment(5, 4, assigned=dict.fromkeys(partitions("a0"), 4)))
    if is_right:
        check_epoch(member, epoch, owned)
        return
    with pytest.raises(KafkaError) as refused:
        check_epoch(member, epoch, owned)
    assert refused.value.code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_has_left_for_now_has_no_epoch_before() -> None:
    member = ConsumerMember("m", current=CurrentAssignment(-2, 4))
    with pytest.raises(KafkaError):
        check_epoch(member, 4, partitions())
