"""Members of KIP-848 groups that still speak the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Nobody waits for anybody here. JoinGroup does what a heartbeat of the new protocol does, SyncGroup tells what the member
has, and Heartbeat says REBALANCE_IN_PROGRESS when it has to give something up or could have more: then it joins again.
Nobody leads, since the coordinator assigns.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.broker.groups.assignment.assignments import NO_PARTITIONS
from tailrace.broker.groups.classic.classic_joining import MEMBER_ID_REQUIRED_FROM
from tailrace.broker.groups.classic.classic_member import protocols_by_name
from tailrace.broker.groups.classic.embedded_protocol import (
    CONSUMER,
    Subscription,
    partitions_named,
    read_subscription,
    write_assignment,
)
from tailrace.broker.groups.common.coordinator_output import Waiter
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.common.name_limits import check_names
from tailrace.broker.groups.consumer.consumer_checks import check_instance, check_room, check_size
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer.consumer_member import ClassicProtocols, ConsumerMember, MemberState, Profile
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

if TYPE_CHECKING:
    from .consumer_requests import ConsumerRequests
    from .coordinator import Coordinator


class ClassicSpeakers:
    def __init__(self, coordinator: "Coordinator", requests: "ConsumerRequests") -> None:
        self._coordinator = coordinator
        self._requests = requests

    def join(self, request: JoinGroupRequest, api_version: int, caller: Caller, waiter: Waiter, moment: Moment) -> None:
        group = self._find(request.group_id)
        settings = self._coordinator.settings(group.group_id)
        protocols = protocols_by_name(request.protocols)
        check_names((request.group_id, request.member_id, request.group_instance_id, caller.client_id, *protocols))
        member_id = request.member_id or self._coordinator.new_id()
        check_room(group, member_id, settings)
        if settings.consumer_migration_policy == "disabled":
            raise _inconsistent("group.consumer.migration.policy lets no member speak the classic protocol")
        if request.protocol_type != CONSUMER or not any(
            group.protocols_known[name] == group.classic_members for name in protocols
        ):
            raise _inconsistent("no protocol of a consumer that all members know")
        subscription, *_ = [_read(metadata) for metadata in protocols.values()]
        if not request.member_id and request.group_instance_id is None and api_version >= MEMBER_ID_REQUIRED_FROM:
            reply = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
            self._coordinator.ready.answer_at_once(waiter, reply)
            return
        static = group.static_member(request.group_instance_id)
        if request.group_instance_id is not None and request.member_id:
            check_instance(static, member_id, request.group_instance_id)
        known = static or group.members.get(member_id) or ConsumerMember(member_id)
        profile = _profile(known.profile, request, protocols, subscription, caller)
        check_size(group, known.profile, profile)

        change = self._requests.change(group, moment)
        if static is not None and static.member_id != member_id:
            change.replace_static(static, member_id)
        owned = partitions_named(subscription.owned, self._coordinator.cluster)
        member = change.hear(member_id, profile, owned)
        group.joins.stop(member_id)
        group.syncs.begin(member_id, moment.now + profile.rebalance_timeout_ms / 1000)
        self._requests.after_removal(group, moment)
        if self._coordinator.groups[group.group_id] is not group:
            # It has taken the place of the last member that spoke the new protocol: it joins the others again.
            request = replace(request, member_id=member_id)
            self._coordinator.classic.join(request, api_version, caller, waiter, moment)
            return
        reply = JoinGroupResponse(
            member_id=member_id,
            generation_id=member.current.epoch,
            protocol_type=CONSUMER,
            protocol_name=next(iter(protocols)),
        )
        self._coordinator.ready.answer(waiter, reply)

    def sync(self, request: SyncGroupRequest, waiter: Waiter, moment: Moment) -> None:
        group = self._find(request.group_id)
        member, classic = _member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
            raise _inconsistent(f"the member was told that the protocol is {name} of the type {CONSUMER}")
        if member.current.epoch < group.target_epoch and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._await_join(group, member, moment)
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS, "there is another assignment: the member has to join again"
            )
        group.syncs.stop(member.member_id)
        self._requests.change(group, moment).begin_session(member)
        self._coordinator.touched(group)
        assigned = frozenset(member.current.assigned)
        reply = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(assigned, metadata, self._coordinator.cluster),
        )
        self._coordinator.ready.answer(waiter, reply)

    def heartbeat(self, request: HeartbeatRequest, waiter: Waiter, moment: Moment) -> None:
        group = self._find(request.group_id)
        member, _ = _member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        change = self._requests.change(group, moment)
        change.refresh()
        change.begin_session(member)
        error = ErrorCode.NONE
        if _should_join(group, member):
            self._await_join(group, member, moment)
            error = ErrorCode.REBALANCE_IN_PROGRESS
        self._coordinator.touched(group)
        self._coordinator.ready.answer(waiter, HeartbeatResponse(error_code=error))

    def leave(self, request: LeaveGroupRequest, waiter: Waiter, moment: Moment) -> None:
        group = self._find(request.group_id)
        leaving: dict[str, ConsumerMember] = {}
        answers = []
        for named in request.members:
            answer = MemberResponse(named.member_id, named.group_instance_id)
            answers.append(answer)
            try:
                member = _leaving(group, named)
                leaving[member.member_id] = member
            except KafkaError as error:
                answer.error_code = error.code
        if leaving:
            self._requests.change(group, moment).remove(list(leaving.values()), "left")
            self._requests.after_removal(group, moment)
        self._coordinator.ready.answer(waiter, LeaveGroupResponse(members=answers))

    def _find(self, group_id: str) -> ConsumerGroup:
        group = self._coordinator.groups[group_id]
        assert isinstance(group, ConsumerGroup), "the desk of classic groups has looked"
        return group

    def _await_join(self, group: ConsumerGroup, member: ConsumerMember, moment: Moment) -> None:
        """However often it is told to, it has to come in the time since it was told first."""
        if not group.joins.awaits(member.member_id):
            group.joins.begin(member.member_id, moment.now + member.profile.rebalance_timeout_ms / 1000)
            self._coordinator.touched(group)


def _read(metadata: bytes) -> Subscription:
    try:
        return read_subscription(metadata)
    except RemoteProtocolError as error:
        raise _inconsistent(f"what the member subscribes to cannot be read: {error}") from None


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
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"the member {member_id} does not speak the classic protocol")
    return member, member.profile.classic


def _leaving(group: ConsumerGroup, named: MemberIdentity) -> ConsumerMember:
    """An administrator may name members of either protocol, and an instance alone."""
    static = group.static_member(named.group_instance_id)
    member_id = static.member_id if static is not None and not named.member_id else named.member_id
    return _named(group, member_id, named.group_instance_id)


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.current.epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION, f"the member is in generation {member.current.epoch}, not in {generation}"
        )


def _should_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
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
