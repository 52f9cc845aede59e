"""Handles the classic protocol of members of consumer groups.

No request waits for other members. JoinGroup has the effect of a ConsumerGroupHeartbeat. SyncGroup responds with the
partitions of the member. Heartbeat responds with REBALANCE_IN_PROGRESS if the member has to revoke partitions or could
get more, so that it joins again. There is no group leader, because the coordinator assigns.
"""

from msgspec.structs import replace

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.assignment.assignments import NO_PARTITIONS
from tailrace.broker.groups.classic.classic_joining import MEMBER_ID_REQUIRED_FROM
from tailrace.broker.groups.classic.classic_member import protocols_by_name
from tailrace.broker.groups.classic.named_partitions import partitions_from_names, write_assignment
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.common.name_limits import check_names
from tailrace.broker.groups.consumer.consumer_checks import check_instance, check_room, check_size
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer.consumer_member import ClassicProtocols, ConsumerMember, MemberState, Profile
from tailrace.protocol.embedded_protocol import CONSUMER_PROTOCOL_TYPE, Subscription, read_subscription
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

from .consumer_groups import ConsumerGroups
from .group_table import GroupTable


class ClassicProtocolMembers:
    """Each method expects that the group of the request exists and is a consumer group."""

    def __init__(self, table: GroupTable, groups: ConsumerGroups) -> None:
        self._table = table
        self._groups = groups

    def join(
        self, request: JoinGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment
    ) -> JoinGroupRequest | None:
        """Responds with a JoinGroupResponse and returns None, or returns a request to join a classic group.

        The latter happens if the member takes the place of the last member that used the consumer protocol. The group
        has then become a classic group, which the member has to join.
        """
        group = self._find(request.group_id)
        settings = self._table.settings(group.group_id)
        protocols = protocols_by_name(request.protocols)
        check_names((request.group_id, request.member_id, request.group_instance_id, caller.client_id, *protocols))
        member_id = request.member_id or self._table.new_id()
        check_room(group, member_id, settings)
        if settings.consumer_migration_policy == "disabled":
            raise _inconsistent("group.consumer.migration.policy does not allow members that use the classic protocol")
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not any(
            group.protocols_supported[name] == group.classic_members for name in protocols
        ):
            raise _inconsistent("the member has no consumer protocol that all members support")
        subscription, *_ = [_read_subscription(metadata) for metadata in protocols.values()]
        if not request.member_id and request.group_instance_id is None and api_version >= MEMBER_ID_REQUIRED_FROM:
            response = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
            self._table.output.respond_at_once(waiter, response)
            return None
        static = group.static_member(request.group_instance_id)
        if request.group_instance_id is not None and request.member_id:
            check_instance(static, member_id, request.group_instance_id)
        known = static or group.members.get(member_id) or ConsumerMember(member_id)
        profile = _profile(known.profile, request, protocols, subscription, caller)
        check_size(group, known.profile, profile)

        change = self._groups.change(group, moment)
        if static is not None and static.member_id != member_id:
            change.replace_static(static, member_id)
        owned = partitions_from_names(subscription.owned, self._table.cluster)
        member = change.update_member(member_id, profile, owned)
        group.joins.clear(member_id)
        group.syncs.set(member_id, moment.now + profile.rebalance_timeout_ms / 1000)
        self._groups.after_removal(group, moment)
        if self._table.groups[group.group_id] is not group:
            return replace(request, member_id=member_id)
        response = JoinGroupResponse(
            member_id=member_id,
            generation_id=member.current.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=next(iter(protocols)),
        )
        self._table.output.respond(waiter, response)
        return None

    def sync(self, request: SyncGroupRequest, waiter: Waiter, moment: Moment) -> None:
        group = self._find(request.group_id)
        member, classic = _member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise _inconsistent(f"the member joined with the protocol {name} of the type {CONSUMER_PROTOCOL_TYPE}")
        if member.current.epoch < group.target_epoch and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._await_join(group, member, moment)
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS, "there is a newer assignment: the member has to join again"
            )
        group.syncs.clear(member.member_id)
        self._groups.change(group, moment).start_session(member)
        self._table.reschedule(group)
        assigned = frozenset(member.current.assigned)
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(assigned, metadata, self._table.cluster),
        )
        self._table.output.respond(waiter, response)

    def heartbeat(self, request: HeartbeatRequest, waiter: Waiter, moment: Moment) -> None:
        group = self._find(request.group_id)
        member, _ = _member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        change = self._groups.change(group, moment)
        change.refresh()
        change.start_session(member)
        error = ErrorCode.NONE
        if _should_join(group, member):
            self._await_join(group, member, moment)
            error = ErrorCode.REBALANCE_IN_PROGRESS
        self._table.reschedule(group)
        self._table.output.respond(waiter, HeartbeatResponse(error_code=error))

    def leave(self, request: LeaveGroupRequest, waiter: Waiter, moment: Moment) -> None:
        group = self._find(request.group_id)
        leaving: dict[str, ConsumerMember] = {}
        responses = []
        for named in request.members:
            response = MemberResponse(named.member_id, named.group_instance_id)
            responses.append(response)
            try:
                member = _leaving(group, named)
                leaving[member.member_id] = member
            except KafkaError as error:
                response.error_code = error.code
        if leaving:
            self._groups.change(group, moment).remove(list(leaving.values()), "left")
            self._groups.after_removal(group, moment)
        self._table.output.respond(waiter, LeaveGroupResponse(members=responses))

    def _find(self, group_id: str) -> ConsumerGroup:
        group = self._table.groups[group_id]
        assert isinstance(group, ConsumerGroup), "ClassicRequests has checked the kind of the group"
        return group

    def _await_join(self, group: ConsumerGroup, member: ConsumerMember, moment: Moment) -> None:
        """Starts the time in which the member has to join again. Repeated requests do not extend that time."""
        if not group.joins.has(member.member_id):
            group.joins.set(member.member_id, moment.now + member.profile.rebalance_timeout_ms / 1000)
            self._table.reschedule(group)


def _read_subscription(metadata: bytes) -> Subscription:
    try:
        return read_subscription(metadata)
    except RemoteProtocolError as error:
        raise _inconsistent(f"the subscription of the member cannot be decoded: {error}") from None


def _profile(
    before: Profile, request: JoinGroupRequest, protocols: dict[str, bytes], subscription: Subscription, caller: Caller
) -> Profile:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        before,
        client_id=caller.client_id,
        host=caller.host,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        topic_names=subscription.topics,
        topic_pattern="",
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        classic=ClassicProtocols(request.session_timeout_ms, tuple(protocols.items())),
    )


def _named(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        return group.member(member_id)
    return check_instance(group.static_member(instance_id), member_id, instance_id)


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> tuple[ConsumerMember, ClassicProtocols]:
    member = _named(group, member_id, instance_id)
    if member.profile.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"the member {member_id} does not use the classic protocol")
    return member, member.profile.classic


def _leaving(group: ConsumerGroup, named: MemberIdentity) -> ConsumerMember:
    """Finds a leaving member, which may use either protocol. An administrator may name the instance id alone."""
    static = group.static_member(named.group_instance_id)
    member_id = static.member_id if static is not None and not named.member_id else named.member_id
    return _named(group, member_id, named.group_instance_id)


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.current.epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"the generation of the member is {member.current.epoch}, not {generation}",
        )


def _should_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Returns whether the member has to revoke partitions, could get more, or has not reached the target epoch."""
    match member.current.state:
        case MemberState.UNREVOKED_PARTITIONS:
            return True
        case MemberState.UNRELEASED_PARTITIONS:
            missing = group.targets.get(member.member_id, NO_PARTITIONS) - member.current.assigned.keys()
            is_free = all(group.is_free_for(member.member_id, partition) for partition in missing)
            return is_free or member.current.epoch < group.target_epoch
        case _:
            return member.current.epoch < group.target_epoch


def _inconsistent(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, why)
