"""What a JoinGroup leads to: a member id to come back with, a new member, a rebalance, or the generation as it is."""

from tailrace.broker.groups.common.coordinator_output import CoordinatorOutput, Waiter
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.common.name_limits import check_names
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

from .classic_group import ClassicGroup, ClassicState
from .classic_member import ClassicMember, protocols_by_name, protocols_size
from .embedded_protocol import CONSUMER, read_topics

MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9
PENDING_MAX = 10_000
"""Ids that one group gives out to clients which have not come back with them."""
MEMBERS_BYTES_MAX = 64 << 20
"""What the members of one group may have the coordinator keep for them."""
_REASON_LENGTH_MAX = 255


class ClassicJoining:
    """One JoinGroup request to one classic group."""

    def __init__(
        self,
        group: ClassicGroup,
        output: CoordinatorOutput,
        request: JoinGroupRequest,
        api_version: int,
        caller: Caller,
        waiter: Waiter,
        moment: Moment,
    ) -> None:
        self._group = group
        self._output = output
        self._request = request
        self._api_version = api_version
        self._caller = caller
        self._waiter = waiter
        self._moment = moment
        self._protocols = protocols_by_name(request.protocols)

    def check(self) -> None:
        """Raises KafkaError when the group cannot take this member."""
        group, request = self._group, self._request
        check_names(
            (
                request.group_id,
                request.protocol_type,
                request.group_instance_id,
                self._caller.client_id,
                *self._protocols,
            )
        )
        if not group.accepts(request.member_id):
            member = group.members.find(request.member_id)
            if member is not None:
                group.leave(member, "found no room when it joined again", self._moment)
                group.complete_if_all_came(self._moment)
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the group has as many members as group.max.size allows")
        if not group.supports(request.protocol_type, self._protocols):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group is of the type {group.protocol_type!r}; no protocol is known to all its members"
                if group.members
                else "a member needs a protocol type and a protocol",
            )
        if group.members.bytes_held + protocols_size(self._protocols) > MEMBERS_BYTES_MAX:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the members of the group have too much metadata")

    def join(self, new_id: str) -> None:
        """Call `check` before. `new_id` is what this member is called if it has no id yet."""
        request = self._request
        if request.member_id:
            self._join_with_id()
        elif request.group_instance_id is not None:
            member_id = f"{request.group_instance_id}-{new_id}"
            replaced = self._group.members.with_instance(request.group_instance_id)
            if replaced is None:
                self._add(member_id)
            else:
                self._replace(replaced, member_id)
        elif self._api_version >= MEMBER_ID_REQUIRED_FROM:
            self._give_id(f"{self._caller.client_id}-{new_id}")
        else:
            self._add(f"{self._caller.client_id}-{new_id}")

    def _give_id(self, member_id: str) -> None:
        """A client that dies now leaves an id behind, and no member that others would wait for until it expires."""
        if len(self._group.pending) >= PENDING_MAX:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "too many clients were given ids and have not joined yet"
            )
        self._group.add_pending(member_id, self._request.session_timeout_ms, self._moment)
        reply = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        self._output.respond_at_once(self._waiter, reply)

    def _join_with_id(self) -> None:
        group, request = self._group, self._request
        if request.member_id in group.pending and request.group_instance_id is None:
            self._add(request.member_id)
            return
        member = group.members.check(request.member_id, request.group_instance_id)
        changed = not member.has_same_protocols(self._protocols)
        if group.state is ClassicState.PREPARING:
            cause = f"{member.name} joined again"
        elif changed:
            cause = self._change_of(member)
        elif group.state is ClassicState.STABLE and member.member_id == group.members.leader_id:
            # Leaders do so when what they assign has changed, such as the number of a topic's partitions.
            cause = f"the leader {member.name} joined again"
        else:
            self._output.respond(self._waiter, group.join_reply(member))
            return
        self._update(member)
        group.rejoin(member, self._waiter, cause + self._reason(), self._moment)

    def _add(self, member_id: str) -> None:
        request = self._request
        member = ClassicMember(
            Participant(member_id, request.group_instance_id, self._caller.client_id, self._caller.host),
            self._rebalance_timeout_ms,
            request.session_timeout_ms,
            self._protocols,
        )
        cause = f"{member.name} joined{self._reason()}"
        self._group.add(member, request.protocol_type, self._waiter, cause, self._moment)

    def _replace(self, old: ClassicMember, member_id: str) -> None:
        group = self._group
        leader_before = group.members.leader_id
        new = ClassicMember(
            Participant(member_id, old.instance_id, old.participant.client_id, old.participant.host),
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        group.replace(old, new, self._waiter, self._moment)
        self._update(new)
        match group.state:
            case ClassicState.STABLE if group.members.vote() == group.protocol_name:
                reply = group.join_reply(new)
                if self._api_version >= SKIP_ASSIGNMENT_FROM:
                    reply.skip_assignment = new.member_id == group.members.leader_id
                else:
                    # It does not know that there is nothing to assign, so it must not learn that it leads.
                    reply.leader, reply.members = leader_before or "", []
                group.go_on_with(new, reply)
            case ClassicState.STABLE:
                cause = f"{new.name} came back, and with what it knows the group agrees on another protocol"
                group.prepare(cause + self._reason(), self._moment)
            case ClassicState.COMPLETING:
                # The leader was told of the old id, and its assignment will be for that.
                group.prepare(f"{new.name} came back while the leader assigned{self._reason()}", self._moment)
            case _:
                group.on_returned(new, self._moment)

    def _update(self, member: ClassicMember) -> None:
        self._group.members.update(
            member, self._protocols, self._rebalance_timeout_ms, self._request.session_timeout_ms
        )

    @property
    def _rebalance_timeout_ms(self) -> int:
        """The first version knows one timeout for everything."""
        timeout_ms = self._request.rebalance_timeout_ms
        return self._request.session_timeout_ms if timeout_ms < 0 or self._api_version == 0 else timeout_ms

    def _change_of(self, member: ClassicMember) -> str:
        if self._request.protocol_type == CONSUMER:
            before = _topics_in(member.protocols)
            after = _topics_in(self._protocols)
            if before is not None and after is not None and before != after:
                return f"{member.name} subscribes to other topics"
        return f"{member.name} joined again with other metadata"

    def _reason(self) -> str:
        return said(self._request.reason)


def said(reason: str | None) -> str:
    """What a client gave as its reason, to be added to a cause."""
    return f', saying "{reason[:_REASON_LENGTH_MAX]}"' if reason else ""


def _topics_in(protocols: dict[str, bytes]) -> frozenset[str] | None:
    """By what a consumer says for the protocol that it likes best."""
    try:
        return read_topics(next(iter(protocols.values()), b""))
    except RemoteProtocolError:
        return None
