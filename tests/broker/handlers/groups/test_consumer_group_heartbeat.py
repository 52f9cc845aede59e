import pytest
from group_handlers import GroupHost, response_of

from tailrace.broker.handlers.groups.consumer_group_heartbeat import handle
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def joining(member_id: str, **more: object) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest("readers", member_id, rebalance_timeout_ms=1_000)
    request.subscribed_topic_names = ["a"]
    request.topic_partitions = []
    for name, value in more.items():
        setattr(request, name, value)
    return request


@pytest.mark.parametrize("version", range(2))
def test_a_member_joins_in_each_version(version: int) -> None:
    host = GroupHost()
    topic = host.world.put_topic("a", 2)
    response = response_of(host, handle, joining("m"), version)
    assert (response.error_code, response.member_id, response.member_epoch) == (ErrorCode.NONE, "m", 2)
    (assigned,) = response.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic.id, [0, 1])
    again = response_of(host, handle, ConsumerGroupHeartbeatRequest("readers", "m", 2), version)
    assert (again.member_epoch, again.assignment) == (2, None)


def test_patterns_came_with_the_second_version() -> None:
    host = GroupHost()
    host.world.put_topic("a", 2)
    request = joining("m", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    assert response_of(host, handle, request, 1).assignment.topic_partitions


def test_errors_explain_what_is_wrong() -> None:
    host = GroupHost()
    response = response_of(host, handle, joining(""), 1)
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    response = response_of(host, handle, joining("m"), 1)
    assert (response.error_code, response.error_message) == (ErrorCode.NOT_COORDINATOR, None)


def test_members_cannot_join_if_the_protocol_is_not_enabled() -> None:
    host = GroupHost()
    host.broker_configs = BrokerConfigs({"group.coordinator.rebalance.protocols": "classic"})
    assert response_of(host, handle, joining("m"), 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert not host.world.coordinator.groups
