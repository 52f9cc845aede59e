import pytest
from group_handlers import GroupHost, response_of

from tailrace.broker.handlers.groups import join_group, sync_group
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse


@pytest.fixture
def host() -> GroupHost:
    return GroupHost()


def joined(host: GroupHost) -> str:
    request = JoinGroupRequest("readers", 10_000, protocol_type="consumer")
    request.protocols = [JoinGroupRequestProtocol("range", b"metadata")]
    member_id: str = response_of(host, join_group.handle, request, 3).member_id
    return member_id


@pytest.mark.parametrize("version", range(6))
def test_the_leader_brings_the_assignment_in_each_version(host: GroupHost, version: int) -> None:
    member_id = joined(host)
    request = SyncGroupRequest("readers", 1, member_id, None, "consumer", "range")
    request.assignments = [SyncGroupRequestAssignment(member_id, b"all")]
    response = response_of(host, sync_group.handle, request, version)
    names = ("consumer", "range") if version >= 5 else (None, None)
    assert response == SyncGroupResponse(0, ErrorCode.NONE, *names, b"all")


@pytest.mark.parametrize("version", range(6))
def test_a_refusal_has_an_error_and_no_assignment(host: GroupHost, version: int) -> None:
    member_id = joined(host)
    request = SyncGroupRequest("readers", 2, member_id, None, "consumer", "range")
    assert response_of(host, sync_group.handle, request, version) == SyncGroupResponse(
        error_code=ErrorCode.ILLEGAL_GENERATION
    )


def test_the_version_that_can_name_the_protocol_has_to(host: GroupHost) -> None:
    for request in (SyncGroupRequest("readers", 1, joined(host)), SyncGroupRequest("nobodys")):
        response = response_of(host, sync_group.handle, request, 5)
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_that_is_coordinated_elsewhere(host: GroupHost) -> None:
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    response = response_of(host, sync_group.handle, SyncGroupRequest("readers"), 5)
    assert response.error_code == ErrorCode.NOT_COORDINATOR
