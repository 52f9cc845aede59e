import pytest
from group_handlers import GroupHost, response_of

from tailrace.broker.handlers.groups import join_group
from tailrace.broker.handlers.groups.heartbeat import handle
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


@pytest.mark.parametrize("version", range(5))
def test_a_member_stays_in_its_group_in_each_version(version: int) -> None:
    host = GroupHost()
    request = JoinGroupRequest("readers", 10_000, protocol_type="consumer")
    request.protocols = [JoinGroupRequestProtocol("range", b"metadata")]
    member_id = response_of(host, join_group.handle, request, 3).member_id
    assert response_of(host, handle, HeartbeatRequest("readers", 1, member_id), version).error_code == ErrorCode.NONE
    stranger = HeartbeatRequest("readers", 1, "stranger")
    assert response_of(host, handle, stranger, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_there_is_no_error_while_the_groups_are_loaded() -> None:
    host = GroupHost()
    host.refusal = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert response_of(host, handle, HeartbeatRequest("readers"), 4).error_code == ErrorCode.NONE
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    assert response_of(host, handle, HeartbeatRequest("readers"), 4).error_code == ErrorCode.NOT_COORDINATOR
