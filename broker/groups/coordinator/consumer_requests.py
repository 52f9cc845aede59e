"""What groups of KIP-848 are asked: ConsumerGroupHeartbeat, ConsumerGroupDescribe.

A member does everything with its heartbeat: it joins, says what it subscribes to and what it has given up, learns what
it shall have, and leaves.
"""

from typing import TYPE_CHECKING, Any, get_args

from tailrace.broker.groups.assignment.assignments import Partitions, partitions_of
from tailrace.broker.groups.assignment.subscriptions import TopicPatterns
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.common.coordinator_output import Waiter
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.coordinator_settings import GroupSettings
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.common.rebalances import LATE, SILENT
from tailrace.broker.groups.consumer.consumer_change import ConsumerChange
from tailrace.broker.groups.consumer.consumer_checks import (
    JOINING,
    check_epoch,
    check_instance,
    check_released,
    check_request,
    check_room,
    check_size,
)
from tailrace.broker.groups.consumer.consumer_description import describe_group
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer.consumer_member import LEFT_FOR_NOW, ConsumerMember, MemberState
from tailrace.broker.groups.consumer.consumer_records import ConsumerKey
from tailrace.broker.groups.consumer.consumer_responses import answer_heartbeat
from tailrace.broker.groups.consumer.group_conversion import downgrade, may_downgrade, upgrade
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.group_records.consumer_group_metadata import ConsumerGroupMetadataKey
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest
from tailrace.protocol.messages.leave_group import LeaveGroupRequest
from tailrace.protocol.messages.sync_group import SyncGroupRequest

from .classic_protocol_members import ClassicSpeakers

if TYPE_CHECKING:
    from .coordinator import Coordinator


class ConsumerRequests:
    KEYS: tuple[type[Any], ...] = get_args(ConsumerKey)
    """Of the records that are kept here."""

    def __init__(self, coordinator: "Coordinator") -> None:
        self._coordinator = coordinator
        self._patterns = TopicPatterns(coordinator.cluster)
        self._speakers = ClassicSpeakers(coordinator, self)

    # the log

    def replay(self, record: GroupRecord) -> None:
        assert isinstance(record.key, ConsumerKey)
        group_id = record.key.group_id
        group = self._coordinator.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.apply(record)
            if record.value is None and isinstance(record.key, ConsumerGroupMetadataKey):
                self._coordinator.on_group_gone(group)
        elif record.value is not None:
            group = self._new_group(group_id)
            group.apply(record)
            self._coordinator.on_group_replaced(group)

    def on_loaded(self, moment: Moment) -> None:
        """Nobody knows when members were heard last, so all of them have their time again."""
        for group in self._coordinator.groups.values():
            if isinstance(group, ConsumerGroup):
                change = self.change(group, moment)
                for member in group.members.values():
                    change.begin_session(member)
                    if member.current.state is MemberState.UNREVOKED_PARTITIONS:
                        end = moment.now + max(member.profile.rebalance_timeout_ms, 0) / 1000
                        awaited = group.revocations if member.profile.classic is None else group.joins
                        awaited.begin(member.member_id, end)

    # requests

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        api_version: int,
        caller: Caller,
        waiter: Waiter,
        moment: Moment,
    ) -> None:
        """Answers with a ConsumerGroupHeartbeatResponse."""
        settings = self._coordinator.settings(request.group_id)
        check_request(request, api_version, settings.consumer_assignors)
        if request.member_epoch < JOINING:
            self._leave(request, waiter, moment)
            return
        if request.subscribed_topic_regex:
            self._patterns.check(request.subscribed_topic_regex)
        group, upgrading = self._find_or_make(request, settings)
        member_id = request.member_id or self._coordinator.new_id()
        owned = None if request.topic_partitions is None else partitions_of(request.topic_partitions)
        check_room(group, member_id, settings)
        replaced = self._check_member(group, member_id, request, owned)
        known = replaced or group.members.get(member_id) or ConsumerMember(member_id)
        before = known.current
        profile = known.profile.after_heartbeat(request, caller)
        check_size(group, known.profile, profile)

        self._put(group, upgrading, moment)
        change = self.change(group, moment)
        if replaced is not None:
            change.replace_static(replaced, member_id)
        is_late = request.member_epoch not in (JOINING, before.epoch)
        member = change.hear(member_id, profile, None if is_late else owned, is_late=is_late)
        self._coordinator.touched(group)
        reply = answer_heartbeat(request, group, member, before, settings, moment)
        self._coordinator.ready.answer(waiter, reply)

    def describe(self, group_id: str) -> DescribedGroup:
        """Raises KafkaError when there is no such consumer group."""
        group = self._find(group_id)
        settings = self._coordinator.settings(group_id)
        return describe_group(group, settings.consumer_assignors, self._coordinator.cluster)

    # members that speak the classic protocol

    def classic_join(
        self, request: JoinGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment
    ) -> None:
        """Answers with a JoinGroupResponse."""
        self._speakers.join(request, api_version, caller, waiter, moment)

    def classic_sync(
        self, request: SyncGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment
    ) -> None:
        """Answers with a SyncGroupResponse."""
        self._speakers.sync(request, waiter, moment)

    def classic_heartbeat(
        self, request: HeartbeatRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment
    ) -> None:
        """Answers with a HeartbeatResponse."""
        self._speakers.heartbeat(request, waiter, moment)

    def classic_leave(
        self, request: LeaveGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment
    ) -> None:
        """Answers with a LeaveGroupResponse."""
        self._speakers.leave(request, waiter, moment)

    # inside

    def _new_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, self._on_overdue)

    def _find(self, group_id: str) -> ConsumerGroup:
        group = self._coordinator.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise _no_such_group(group_id)
        return group

    def _find_or_make(
        self, request: ConsumerGroupHeartbeatRequest, settings: GroupSettings
    ) -> tuple[ConsumerGroup, list[GroupRecord]]:
        """A group that is made has no effect until it is put in its place, with the records of what it was before."""
        if request.member_epoch != JOINING:
            return self._find(request.group_id), []
        found = self._coordinator.groups.get(request.group_id)
        if isinstance(found, ConsumerGroup):
            return found, []
        group = self._new_group(request.group_id)
        if not isinstance(found, ClassicGroup) or found.is_empty:
            return group, []
        return group, upgrade(found, group, settings, self._coordinator.cluster)

    def _put(self, group: ConsumerGroup, upgrading: list[GroupRecord], moment: Moment) -> None:
        """In the place of a classic group, perhaps."""
        ready = self._coordinator.ready
        replaced = self._coordinator.groups.get(group.group_id)
        if replaced is group:
            return
        if replaced is not None:
            for record in (*replaced.tombstones(), *upgrading):
                ready.append(record)
        if isinstance(replaced, ClassicGroup):
            replaced.send_away()
            group.rebalances = replaced.rebalances
        change = self.change(group, moment)
        for member in group.members.values():
            change.begin_session(member)
        self._coordinator.on_group_replaced(group)

    def after_removal(self, group: ConsumerGroup, moment: Moment) -> None:
        """If those who are left speak the classic protocol alone, they are a classic group again."""
        coordinator = self._coordinator
        if not may_downgrade(group, coordinator.settings(group.group_id)):
            coordinator.touched(group)
            return
        for record in group.tombstones():
            coordinator.ready.append(record)
        coordinator.classic.take_over(group, downgrade(group, coordinator.cluster, moment.now_ms), moment)

    def _check_member(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        owned: Partitions | None,
    ) -> ConsumerMember | None:
        """Whether this member may do this; returns the static member whose place it takes."""
        is_joining = request.member_epoch == JOINING
        if request.instance_id is None:
            if not is_joining:
                check_epoch(group.member(member_id), request.member_epoch, owned)
            return None
        static = group.static_member(request.instance_id)
        if not is_joining:
            check_epoch(check_instance(static, member_id, request.instance_id), request.member_epoch, owned)
            return None
        if static is None or static.member_id == member_id:
            return None
        check_released(static, member_id)
        return static

    def _leave(self, request: ConsumerGroupHeartbeatRequest, waiter: Waiter, moment: Moment) -> None:
        group = self._find(request.group_id)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            static = group.static_member(request.instance_id)
            member = check_instance(static, request.member_id, request.instance_id)
        change = self.change(group, moment)
        if request.member_epoch == LEFT_FOR_NOW:
            change.rest(member)
        else:
            change.remove([member], "left")
            self.after_removal(group, moment)
        reply = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        self._coordinator.ready.answer(waiter, reply)

    def _on_overdue(self, group: ConsumerGroup, moment: Moment) -> None:
        change = self.change(group, moment)
        for awaited, why in (
            (group.sessions, f"{SILENT} any more"),
            (group.revocations, f"{LATE} give up its partitions in time"),
            (group.joins, f"{LATE} join again in time"),
            (group.syncs, f"{LATE} ask for its assignment in time"),
        ):
            overdue = [group.members[member_id] for member_id in awaited.take_ended(moment.now)]
            if overdue:
                change.remove(overdue, why)
        self.after_removal(group, moment)

    def change(self, group: ConsumerGroup, moment: Moment) -> ConsumerChange:
        coordinator = self._coordinator
        settings = coordinator.settings(group.group_id)
        return ConsumerChange(group, settings, coordinator.cluster, self._patterns, coordinator.ready, moment)


def _no_such_group(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")
