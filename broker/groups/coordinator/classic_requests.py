"""What classic groups are asked: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups.

Members of a KIP-848 group may use the classic protocol, too: what they ask goes on to the desk of those groups.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailrace.broker.groups.classic.classic_group import ClassicGroup, ClassicState
from tailrace.broker.groups.classic.classic_joining import ClassicJoining, said
from tailrace.broker.groups.common.coordinator_output import Waiter
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.coordinator_settings import GroupSettings
from tailrace.broker.groups.common.group import Caller, Group
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
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

if TYPE_CHECKING:
    from .coordinator import Coordinator

NAMES_PROTOCOL_FROM = 5
"""SyncGroup"""
NAMES_MEMBERS_FROM = 3
"""LeaveGroup"""
SAYS_NOT_FOUND_FROM = 6
"""DescribeGroups"""


class ClassicRequests:
    KEYS: tuple[type[Any], ...] = (GroupMetadataKey,)
    """Of the records that are kept here."""

    def __init__(self, coordinator: "Coordinator") -> None:
        self._coordinator = coordinator
        self._loaded: dict[str, GroupMetadataValue] = {}
        """The last record of each group, while the log is read: many have been overtaken by a later one."""

    # the log

    def replay(self, record: GroupRecord) -> None:
        key = record.key
        assert isinstance(key, GroupMetadataKey)
        group = self._coordinator.groups.get(key.group)
        if record.value is not None:
            self._loaded[key.group] = record.value
            if not isinstance(group, ClassicGroup):
                self._coordinator.on_group_replaced(self._make(key.group))
        else:
            self._loaded.pop(key.group, None)
            if isinstance(group, ClassicGroup):
                self._coordinator.on_group_gone(group)

    def on_loaded(self, moment: Moment) -> None:
        for group_id, value in self._loaded.items():
            if isinstance(self._coordinator.groups.get(group_id), ClassicGroup):  # none of KIP-848 took its place
                group = ClassicGroup.stored(group_id, value, self._coordinator.ready, self._settings_of(group_id))
                self._coordinator.on_group_replaced(group)
                group.on_loaded(moment)
        self._loaded.clear()

    def new_group(self, group_id: str, moment: Moment) -> ClassicGroup:
        """An empty one, in the place of a consumer group that is empty, too. It has no record until it has members."""
        group = self._make(group_id)
        self._put(group, moment)
        return group

    def take_over(self, replaced: ConsumerGroup, value: GroupMetadataValue, moment: Moment) -> None:
        """The members of a KIP-848 group go on as a classic one: they have to join again."""
        group_id = replaced.group_id
        group = ClassicGroup.stored(group_id, value, self._coordinator.ready, self._settings_of(group_id))
        group.rebalances = replaced.rebalances
        self._coordinator.ready.append(group.record())
        self._coordinator.on_group_replaced(group)
        group.on_loaded(moment)
        self._coordinator.touched(group)

    def _make(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self._coordinator.ready, self._settings_of(group_id))

    def _put(self, group: ClassicGroup, moment: Moment) -> None:
        replaced = self._coordinator.groups.get(group.group_id)
        if replaced is not None:
            for record in replaced.tombstones():
                self._coordinator.ready.append(record)
        group.since_ms = moment.now_ms
        self._coordinator.on_group_replaced(group)

    def _settings_of(self, group_id: str) -> Callable[[], GroupSettings]:
        return lambda: self._coordinator.settings(group_id)

    # requests

    def join(self, request: JoinGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment) -> None:
        """Answers with a JoinGroupResponse, when all members have come."""
        _check_named(request.group_id)
        coordinator = self._coordinator
        settings = coordinator.settings(request.group_id)
        if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
            raise KafkaError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"{request.session_timeout_ms} ms; allowed are {settings.session_timeout_ms_min}"
                f" to {settings.session_timeout_ms_max}",
            )
        group = coordinator.groups.get(request.group_id)
        if group is not None and not isinstance(group, ClassicGroup) and not group.is_empty:
            coordinator.consumer.classic_join(request, api_version, caller, waiter, moment)
            return
        classic = group if isinstance(group, ClassicGroup) else self._make(request.group_id)
        joining = ClassicJoining(classic, coordinator.ready, request, api_version, caller, waiter, moment)
        if classic is not group and request.member_id:
            raise _unknown_group(request.group_id)
        try:
            joining.check()
            if classic is not group:
                self._put(classic, moment)
            joining.join(coordinator.new_id())
        finally:
            coordinator.touched(classic)

    def sync(self, request: SyncGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment) -> None:
        """Answers with a SyncGroupResponse, when the leader's assignment is there and committed."""
        if api_version >= NAMES_PROTOCOL_FROM and (request.protocol_type is None or request.protocol_name is None):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "this version has to name the protocol")
        group = self._find(request.group_id)
        if group.is_empty:
            raise _unknown_group(request.group_id)
        if not isinstance(group, ClassicGroup):
            self._coordinator.consumer.classic_sync(request, api_version, caller, waiter, moment)
            return
        member = group.members.check(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
            None,
            group.protocol_name,
        ):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group has agreed on {group.protocol_name} of the type {group.protocol_type}",
            )
        assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
        group.sync(member, assignments, waiter, moment)
        self._coordinator.touched(group)

    def heartbeat(
        self, request: HeartbeatRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment
    ) -> None:
        """Answers with a HeartbeatResponse, at once."""
        group = self._find(request.group_id)
        if not isinstance(group, ClassicGroup):
            self._coordinator.consumer.classic_heartbeat(request, api_version, caller, waiter, moment)
            return
        error = group.heartbeat(request.member_id, request.group_instance_id, request.generation_id, moment)
        self._coordinator.ready.answer_at_once(waiter, HeartbeatResponse(error_code=error))
        self._coordinator.touched(group)

    def leave(
        self, request: LeaveGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment
    ) -> None:
        """Answers with a LeaveGroupResponse, which has what became of each member, whatever the version."""
        _check_named(request.group_id)
        if api_version < NAMES_MEMBERS_FROM:
            request = LeaveGroupRequest(request.group_id, members=[MemberIdentity(request.member_id)])
        leaving = request.members
        group = self._coordinator.groups.get(request.group_id)
        if group is not None and not isinstance(group, ClassicGroup):
            self._coordinator.consumer.classic_leave(request, api_version, caller, waiter, moment)
            return
        answers = [MemberResponse(member.member_id, member.group_instance_id) for member in leaving]
        left: list[str] = []
        for member, answer in zip(leaving, answers, strict=True):
            try:
                if group is None:
                    raise _unknown_group(request.group_id)
                name = self._leave(group, member, moment)
                if name is not None:
                    left.append(name + " left" + said(member.reason))
            except KafkaError as error:
                answer.error_code = error.code
        if group is not None:
            if left:
                others = _others(len(left) - 1)
                group.on_left(left[0] + others, moment)
            else:
                group.complete_if_all_came(moment)
            self._coordinator.touched(group)
        self._coordinator.ready.answer(waiter, LeaveGroupResponse(members=answers))

    def _leave(self, group: ClassicGroup, leaving: MemberIdentity, moment: Moment) -> str | None:
        """Who left; None for a client that had an id and no more."""
        if leaving.member_id in group.pending:
            group.leave_pending(leaving.member_id)
            return None
        if leaving.member_id:
            member = group.members.check(leaving.member_id, leaving.group_instance_id)
        else:  # an administrator, who knows the names of static members
            found = group.members.with_instance(leaving.group_instance_id or "")
            if found is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no such member")
            member = found
        group.leave(member, "left" + said(leaving.reason), moment)
        return member.name

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self._coordinator.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group.describe()
        described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD)
        if api_version >= SAYS_NOT_FOUND_FROM:
            why = "not found" if group is None else "is not a classic group"
            error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")
            described.error_code, described.error_message = error.code, error.message
        return described

    def _find(self, group_id: str) -> Group:
        _check_named(group_id)
        group = self._coordinator.groups.get(group_id)
        if group is None:
            raise _unknown_group(group_id)
        return group


def _check_named(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group that has members has a name")


def _unknown_group(group_id: str) -> KafkaError:
    """Whoever thinks to be a member of it has to join anew."""
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"the group {group_id} has no members")


def _others(count: int) -> str:
    match count:
        case 0:
            return ""
        case 1:
            return ", and 1 other with it"
        case _:
            return f", and {count} others with it"
