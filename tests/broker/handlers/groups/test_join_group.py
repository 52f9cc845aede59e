import pytest
from group_handlers import GroupHost, response_of, responses_of

from tailrace.broker.handlers.groups.join_group import handle
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse


def joining(**fields: object) -> JoinGroupRequest:
    request = JoinGroupRequest("readers", 10_000, protocol_type="consumer")
    request.protocols = [JoinGroupRequestProtocol("range", b"metadata")]
    for name, value in fields.items():
        setattr(request, name, value)
    return request


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_each_version(version: int) -> None:
    host = GroupHost()
    response: JoinGroupResponse = response_of(host, handle, joining(), version)
    if version >= 4:
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        response = response_of(host, handle, joining(member_id=response.member_id), version)
    assert (response.error_code, response.generation_id, response.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert response.leader == response.member_id == response.members[0].member_id
    assert response.member_id.startswith("me-")
    (member,) = host.world.coordinator.classic.describe("readers", 6).members
    assert (member.client_id, member.client_host) == ("me", "/192.0.2.1")


@pytest.mark.parametrize("version", range(10))
def test_a_refusal_names_the_member_and_has_no_protocol(version: int) -> None:
    host = GroupHost()
    response = response_of(host, handle, joining(member_id="nobody"), version)
    protocol = None if version >= 7 else ""
    assert response == JoinGroupResponse(
        error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=protocol, member_id="nobody"
    )
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    assert response_of(host, handle, joining(), version).error_code == ErrorCode.NOT_COORDINATOR


def test_a_member_that_has_to_wait_gets_its_response_later() -> None:
    host = GroupHost()
    first = response_of(host, handle, joining(), 3)
    waiting = responses_of(host, handle, joining(), 3)
    assert waiting == []
    response_of(host, handle, joining(member_id=first.member_id), 3)
    assert waiting[0].generation_id == 2
