import pytest
from group_handlers import GroupHost, response_of

from tailrace.broker.handlers.groups import join_group
from tailrace.broker.handlers.groups.describe_groups import handle
from tailrace.cluster.client_view import GROUP_OPERATIONS
from tailrace.protocol.codec.decoder_source import STRING_BYTES_MAX
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

NOT_ASKED_FOR = -(2**31)


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_the_order_asked_in_each_version(version: int) -> None:
    host = GroupHost()
    request = JoinGroupRequest("readers", 10_000, protocol_type="consumer")
    request.protocols = [JoinGroupRequestProtocol("range", b"metadata")]
    member_id = response_of(host, join_group.handle, request, 3).member_id
    nothing, readers = response_of(host, handle, DescribeGroupsRequest(["nothing", "readers"]), version).groups
    assert (nothing.group_id, nothing.group_state, nothing.members) == ("nothing", "Dead", [])
    if version >= 6:
        assert (nothing.error_code, nothing.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            "Group nothing not found.",
        )
    else:
        assert nothing.error_code == ErrorCode.NONE
    assert (readers.error_code, readers.group_state, readers.protocol_type) == (0, "CompletingRebalance", "consumer")
    assert [member.member_id for member in readers.members] == [member_id]
    assert readers.authorized_operations == nothing.authorized_operations == NOT_ASKED_FOR


def test_an_error_about_the_longest_possible_name_is_readable() -> None:
    (described,) = response_of(GroupHost(), handle, DescribeGroupsRequest(["g" * STRING_BYTES_MAX]), 6).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert len(described.error_message.encode()) <= STRING_BYTES_MAX


def test_authorized_operations_are_listed_when_requested() -> None:
    host = GroupHost()
    request = DescribeGroupsRequest(["nothing"], include_authorized_operations=True)
    assert response_of(host, handle, request, 5).groups[0].authorized_operations == GROUP_OPERATIONS
    assert response_of(host, handle, request, 6).groups[0].authorized_operations == NOT_ASKED_FOR


def test_a_group_that_is_named_repeatedly_is_described_once() -> None:
    described = response_of(GroupHost(), handle, DescribeGroupsRequest(["a", "b", "a"]), 6).groups
    assert [group.group_id for group in described] == ["a", "b"]


def test_a_group_that_is_coordinated_elsewhere() -> None:
    host = GroupHost()
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    (described,) = response_of(host, handle, DescribeGroupsRequest(["readers"]), 6).groups
    assert (described.error_code, described.group_id) == (ErrorCode.NOT_COORDINATOR, "readers")
