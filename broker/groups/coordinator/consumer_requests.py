"""Handles ConsumerGroupHeartbeat and ConsumerGroupDescribe.

A member does everything with its heartbeat: it joins, names its subscription, reports the partitions that it owns, gets
its assignment, and leaves.
"""

from typing import Any, get_args

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.assignment.assignments import Partitions, partitions_of
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.common.group_settings import GroupSettings
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
from tailrace.broker.groups.consumer.consumer_responses import heartbeat_response
from tailrace.broker.groups.consumer.group_conversion import upgrade
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.group_records.consumer_group_metadata import ConsumerGroupMetadataKey
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

from .consumer_groups import ConsumerGroups
from .group_table import GroupTable


class ConsumerRequests:
    KEYS: tuple[type[Any], ...] = get_args(ConsumerKey)
    """The keys of the records that this class replays."""

    def __init__(self, table: GroupTable, groups: ConsumerGroups) -> None:
        self._table = table
        self._groups = groups

    # the log

    def replay(self, record: GroupRecord) -> None:
        assert isinstance(record.key, ConsumerKey)
        group_id = record.key.group_id
        group = self._table.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.apply(record)
            if record.value is None and isinstance(record.key, ConsumerGroupMetadataKey):
                self._table.remove(group)
        elif record.value is not None:
            group = self._groups.make(group_id)
            group.apply(record)
            self._table.put(group)

    def on_loaded(self, moment: Moment) -> None:
        """Starts the sessions of all members anew, because the log does not have the time of their last heartbeat."""
        for group in self._table.groups.values():
            if isinstance(group, ConsumerGroup):
                change = self._groups.change(group, moment)
                for member in group.members.values():
                    change.start_session(member)
                    if member.current.state is MemberState.UNREVOKED_PARTITIONS:
                        end = moment.now + max(member.profile.rebalance_timeout_ms, 0) / 1000
                        awaited = group.revocations if member.profile.classic is None else group.joins
                        awaited.set(member.member_id, end)

    # requests

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        api_version: int,
        caller: Caller,
        waiter: Waiter,
        moment: Moment,
    ) -> None:
        """Responds with a ConsumerGroupHeartbeatResponse."""
        settings = self._table.settings(request.group_id)
        check_request(request, api_version, settings.consumer_assignors)
        if request.member_epoch < JOINING:
            self._leave(request, waiter, moment)
            return
        if request.subscribed_topic_regex:
            self._groups.patterns.check(request.subscribed_topic_regex)
        group, upgrading = self._find_or_make(request, settings)
        member_id = request.member_id or self._table.new_id()
        owned = None if request.topic_partitions is None else partitions_of(request.topic_partitions)
        check_room(group, member_id, settings)
        replaced = self._check_member(group, member_id, request, owned)
        known = replaced or group.members.get(member_id) or ConsumerMember(member_id)
        before = known.current
        profile = known.profile.after_heartbeat(request, caller)
        check_size(group, known.profile, profile)

        self._put(group, upgrading, moment)
        change = self._groups.change(group, moment)
        if replaced is not None:
            change.replace_static(replaced, member_id)
        is_late = request.member_epoch not in (JOINING, before.epoch)
        member = change.update_member(
            member_id, profile, None if is_late else owned, is_late=is_late, viewer=caller.viewer
        )
        self._table.reschedule(group)
        response = heartbeat_response(request, group, member, before, settings, moment)
        self._table.output.respond(waiter, response)

    def describe(self, group_id: str) -> DescribedGroup:
        """Describes the group. Raises KafkaError if there is no such consumer group."""
        group = self._find(group_id)
        settings = self._table.settings(group_id)
        return describe_group(group, settings.consumer_assignors, self._table.cluster)

    # helpers

    def _find(self, group_id: str) -> ConsumerGroup:
        group = self._table.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise _no_such_group(group_id)
        return group

    def _find_or_make(
        self, request: ConsumerGroupHeartbeatRequest, settings: GroupSettings
    ) -> tuple[ConsumerGroup, list[GroupRecord]]:
        """Returns the group, and the records of the members of a classic group that it is upgraded from.

        A new group is not in the table. The caller puts it there when no check can refuse the request any more.
        """
        if request.member_epoch != JOINING:
            return self._find(request.group_id), []
        found = self._table.groups.get(request.group_id)
        if isinstance(found, ConsumerGroup):
            return found, []
        group = self._groups.make(request.group_id)
        if not isinstance(found, ClassicGroup) or found.is_empty:
            return group, []
        return group, upgrade(found, group, settings, self._table.cluster)

    def _put(self, group: ConsumerGroup, upgrading: list[GroupRecord], moment: Moment) -> None:
        """Puts a new group into the table, perhaps in the place of a classic group."""
        output = self._table.output
        replaced = self._table.groups.get(group.group_id)
        if replaced is group:
            return
        if replaced is not None:
            for record in (*replaced.tombstones(), *upgrading):
                output.append(record)
        if isinstance(replaced, ClassicGroup):
            replaced.refuse_waiting()
            group.rebalances = replaced.rebalances
        change = self._groups.change(group, moment)
        for member in group.members.values():
            change.start_session(member)
        self._table.put(group)

    def _check_member(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        owned: Partitions | None,
    ) -> ConsumerMember | None:
        """Checks that the member may send this heartbeat. Returns the static member whose place it takes."""
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
        change = self._groups.change(group, moment)
        if request.member_epoch == LEFT_FOR_NOW:
            change.leave_for_now(member)
        else:
            change.remove([member], "left")
            self._groups.after_removal(group, moment)
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        self._table.output.respond(waiter, response)


def _no_such_group(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")
