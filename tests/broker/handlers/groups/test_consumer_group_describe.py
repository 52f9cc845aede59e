import pytest
from group_handlers import GroupHost, response_of

from tailrace.broker.handlers.groups import consumer_group_heartbeat
from tailrace.broker.handlers.groups.consumer_group_describe import handle
from tailrace.cluster.client_view import GROUP_OPERATIONS
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

NOT_ASKED = -(2**31)


@pytest.fixture
def host() -> GroupHost:
    host = GroupHost()
    host.world.put_topic("a", 2)
    request = ConsumerGroupHeartbeatRequest("readers", "m", rebalance_timeout_ms=1_000)
    request.subscribed_topic_names = ["a"]
    request.topic_partitions = []
    response_of(host, consumer_group_heartbeat.handle, request, 1)
    return host


@pytest.mark.parametrize("version", range(2))
def test_groups_are_described_in_the_order_asked(host: GroupHost, version: int) -> None:
    request = ConsumerGroupDescribeRequest(["nothing", "readers"], include_authorized_operations=True)
    unknown, readers = response_of(host, handle, request, version).groups
    assert (unknown.group_id, unknown.error_code) == ("nothing", ErrorCode.GROUP_ID_NOT_FOUND)
    assert unknown.authorized_operations == NOT_ASKED
    assert (readers.error_code, readers.group_state, readers.assignor_name) == (ErrorCode.NONE, "Stable", "uniform")
    assert readers.authorized_operations == GROUP_OPERATIONS
    (member,) = readers.members
    assert (member.client_id, member.client_host, member.member_epoch) == ("me", "/192.0.2.1", 2)
    assert member.assignment.topic_partitions[0].topic_name == "a"
    assert member.target_assignment == member.assignment
    assert member.member_type == (1 if version >= 1 else -1)


def test_operations_are_listed_only_when_requested(host: GroupHost) -> None:
    (readers,) = response_of(host, handle, ConsumerGroupDescribeRequest(["readers"]), 1).groups
    assert readers.authorized_operations == NOT_ASKED


def test_a_group_that_is_named_repeatedly_is_described_once(host: GroupHost) -> None:
    described = response_of(host, handle, ConsumerGroupDescribeRequest(["readers", "b", "readers"]), 1).groups
    assert [group.group_id for group in described] == ["readers", "b"]


def test_a_group_that_is_coordinated_elsewhere_is_an_error(host: GroupHost) -> None:
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    (readers,) = response_of(host, handle, ConsumerGroupDescribeRequest(["readers"]), 1).groups
    assert (readers.group_id, readers.error_code) == ("readers", ErrorCode.NOT_COORDINATOR)


def test_there_are_no_consumer_groups_if_the_protocol_is_not_enabled(host: GroupHost) -> None:
    host.broker_configs = BrokerConfigs({"group.coordinator.rebalance.protocols": "classic"})
    (readers,) = response_of(host, handle, ConsumerGroupDescribeRequest(["readers"]), 1).groups
    assert (readers.group_id, readers.error_code) == ("readers", ErrorCode.UNSUPPORTED_VERSION)
