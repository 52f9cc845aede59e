"""Handles JoinGroup, SyncGroup, Heartbeat, LeaveGroup and DescribeGroups.

Members of consumer groups may use these requests, too: `ClassicProtocolMembers` handles theirs.
"""

from typing import Any

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.classic.classic_group import ClassicGroup, ClassicState
from tailrace.broker.groups.classic.classic_joining import ClassicJoining, with_reason
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.group import Caller, Group
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from tailrace.protocol.messages.describe_groups import DescribedGroup
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.messages.join_group import JoinGroupRequest
from tailrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tailrace.protocol.messages.sync_group import SyncGroupRequest

from .classic_groups import ClassicGroups
from .classic_protocol_members import ClassicProtocolMembers
from .group_table import GroupTable

SYNC_PROTOCOL_FROM = 5
"""The first version of SyncGroup that names the protocol."""
LEAVE_MEMBERS_FROM = 3
"""The first version of LeaveGroup that has a list of members."""
DESCRIBE_NOT_FOUND_FROM = 6
"""The first version of DescribeGroups that reports an error for a group that does not exist."""


class ClassicRequests:
    KEYS: tuple[type[Any], ...] = (GroupMetadataKey,)
    """The keys of the records that this class replays."""

    def __init__(self, table: GroupTable, groups: ClassicGroups, speakers: ClassicProtocolMembers) -> None:
        self._table = table
        self._groups = groups
        self._speakers = speakers
        """Handles the requests of members of consumer groups."""
        self._loaded: dict[str, GroupMetadataValue] = {}
        """The last record of each group while the log is replayed. Most records are replaced by a later one."""

    # the log

    def replay(self, record: GroupRecord) -> None:
        key = record.key
        assert isinstance(key, GroupMetadataKey)
        group = self._table.groups.get(key.group)
        if record.value is not None:
            self._loaded[key.group] = record.value
            if not isinstance(group, ClassicGroup):
                self._table.put(self._groups.make(key.group))
        else:
            self._loaded.pop(key.group, None)
            if isinstance(group, ClassicGroup):
                self._table.remove(group)

    def on_loaded(self, moment: Moment) -> None:
        for group_id, value in self._loaded.items():
            if isinstance(self._table.groups.get(group_id), ClassicGroup):  # no consumer group took its place
                self._groups.put_stored(group_id, value, moment)
        self._loaded.clear()

    # requests

    def join(self, request: JoinGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment) -> None:
        """Responds with a JoinGroupResponse when all members have joined."""
        _check_named(request.group_id)
        table = self._table
        settings = table.settings(request.group_id)
        if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
            raise KafkaError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"the session timeout is {request.session_timeout_ms} ms, but must be"
                f" between {settings.session_timeout_ms_min} and {settings.session_timeout_ms_max} ms",
            )
        group = table.groups.get(request.group_id)
        if group is not None and not isinstance(group, ClassicGroup) and not group.is_empty:
            rejoin = self._speakers.join(request, api_version, caller, waiter, moment)
            if rejoin is not None:
                self.join(rejoin, api_version, caller, waiter, moment)
            return
        classic = group if isinstance(group, ClassicGroup) else self._groups.make(request.group_id)
        joining = ClassicJoining(classic, table.output, request, api_version, caller, waiter, moment)
        if classic is not group and request.member_id:
            raise _unknown_group(request.group_id)
        try:
            joining.check()
            if classic is not group:
                self._groups.put(classic, moment)
            joining.join(table.new_id())
        finally:
            table.reschedule(classic)

    def sync(self, request: SyncGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment) -> None:
        """Responds with a SyncGroupResponse when the group leader has sent the assignment and it is committed."""
        if api_version >= SYNC_PROTOCOL_FROM and (request.protocol_type is None or request.protocol_name is None):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "SyncGroup names no protocol")
        group = self._find(request.group_id)
        if group.is_empty:
            raise _unknown_group(request.group_id)
        if not isinstance(group, ClassicGroup):
            self._speakers.sync(request, waiter, moment)
            return
        member = group.members.check(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
            None,
            group.protocol_name,
        ):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group uses the protocol {group.protocol_name} of the type {group.protocol_type}",
            )
        assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
        group.sync(member, assignments, waiter, moment)
        self._table.reschedule(group)

    def heartbeat(
        self, request: HeartbeatRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment
    ) -> None:
        """Responds with a HeartbeatResponse at once."""
        group = self._find(request.group_id)
        if not isinstance(group, ClassicGroup):
            self._speakers.heartbeat(request, waiter, moment)
            return
        error = group.heartbeat(request.member_id, request.group_instance_id, request.generation_id, moment)
        self._table.output.respond_at_once(waiter, HeartbeatResponse(error_code=error))
        self._table.reschedule(group)

    def leave(
        self, request: LeaveGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment
    ) -> None:
        """Responds with a LeaveGroupResponse, which has an error code for each member in every version."""
        _check_named(request.group_id)
        if api_version < LEAVE_MEMBERS_FROM:
            request = LeaveGroupRequest(request.group_id, members=[MemberIdentity(request.member_id)])
        leaving = request.members
        group = self._table.groups.get(request.group_id)
        if group is not None and not isinstance(group, ClassicGroup):
            self._speakers.leave(request, waiter, moment)
            return
        responses = [MemberResponse(member.member_id, member.group_instance_id) for member in leaving]
        left: list[str] = []
        for member, response in zip(leaving, responses, strict=True):
            try:
                if group is None:
                    raise _unknown_group(request.group_id)
                name = self._leave(group, member, moment)
                if name is not None:
                    left.append(name + " left" + with_reason(member.reason))
            except KafkaError as error:
                response.error_code = error.code
        if group is not None:
            if left:
                others = _others(len(left) - 1)
                group.on_members_left(left[0] + others, moment)
            else:
                group.complete_if_all_joined(moment)
            self._table.reschedule(group)
        self._table.output.respond(waiter, LeaveGroupResponse(members=responses))

    def _leave(self, group: ClassicGroup, leaving: MemberIdentity, moment: Moment) -> str | None:
        """Returns the name of the member that left, or None for a client that had an id but had not joined."""
        if leaving.member_id in group.pending:
            group.leave_pending(leaving.member_id)
            return None
        if leaving.member_id:
            member = group.members.check(leaving.member_id, leaving.group_instance_id)
        else:  # an administrator names a static member by its instance id alone
            found = group.members.with_instance(leaving.group_instance_id or "")
            if found is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no such member")
            member = found
        group.leave(member, "left" + with_reason(leaving.reason), moment)
        return member.name

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self._table.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group.describe()
        described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD)
        if api_version >= DESCRIBE_NOT_FOUND_FROM:
            why = "not found" if group is None else "is not a classic group"
            error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")
            described.error_code, described.error_message = error.code, error.message
        return described

    def _find(self, group_id: str) -> Group:
        _check_named(group_id)
        group = self._table.groups.get(group_id)
        if group is None:
            raise _unknown_group(group_id)
        return group


def _check_named(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def _unknown_group(group_id: str) -> KafkaError:
    """Returns the error that makes the client join again."""
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"the group {group_id} has no members")


def _others(count: int) -> str:
    match count:
        case 0:
            return ""
        case 1:
            return ", and 1 other with it"
        case _:
            return f", and {count} others with it"
