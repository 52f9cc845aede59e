import pytest
from group_handlers import GroupHost, response_of

from tailrace.broker.handlers.groups import join_group
from tailrace.broker.handlers.groups.leave_group import handle
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


@pytest.fixture
def host() -> GroupHost:
    return GroupHost()


def joined(host: GroupHost, instance_id: str | None = None) -> str:
    request = JoinGroupRequest("readers", 10_000, group_instance_id=instance_id, protocol_type="consumer")
    request.protocols = [JoinGroupRequestProtocol("range", b"metadata")]
    version = 3 if instance_id is None else 9
    member_id: str = response_of(host, join_group.handle, request, version).member_id
    return member_id


@pytest.mark.parametrize("version", range(3))
def test_old_versions_name_one_member_and_have_its_error(host: GroupHost, version: int) -> None:
    member_id = joined(host)
    stranger = LeaveGroupRequest("readers", "stranger")
    assert response_of(host, handle, stranger, version) == LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert response_of(host, handle, LeaveGroupRequest("readers", member_id), version) == LeaveGroupResponse()
    assert host.world.coordinator.groups["readers"].state == "Empty"


@pytest.mark.parametrize("version", range(3, 6))
def test_newer_versions_have_an_error_for_each_member(host: GroupHost, version: int) -> None:
    joined(host, "worker-1")
    request = LeaveGroupRequest("readers", members=[MemberIdentity("stranger"), MemberIdentity("", "worker-1", None)])
    assert response_of(host, handle, request, version) == LeaveGroupResponse(
        members=[
            MemberResponse("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
            MemberResponse("", "worker-1", ErrorCode.NONE),
        ]
    )
    assert host.world.coordinator.groups["readers"].state == "Empty"


@pytest.mark.parametrize("version", range(6))
def test_a_group_that_is_coordinated_elsewhere(host: GroupHost, version: int) -> None:
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    request = LeaveGroupRequest("readers", "one") if version < 3 else LeaveGroupRequest("readers")
    assert response_of(host, handle, request, version) == LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
