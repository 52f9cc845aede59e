"""Handles one JoinGroup request to a classic group.

The result is a member id for the client to join with, a new member, a rebalance, or the current generation.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.common.group_output import GroupOutput
from tailrace.broker.groups.common.name_limits import check_names
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.embedded_protocol import CONSUMER_PROTOCOL_TYPE, read_topics
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

from .classic_group import ClassicGroup, ClassicState
from .classic_member import ClassicMember, protocols_by_name, protocols_size

MEMBER_ID_REQUIRED_FROM = 4
"""The first version of JoinGroup in which a client without a member id gets one, and joins again with it."""
SKIP_ASSIGNMENT_FROM = 9
"""The first version of JoinGroup that can tell a leader to make no assignment."""
PENDING_MAX = 10_000
"""The largest number of member ids in one group that clients have not joined with yet."""
MEMBERS_BYTES_MAX = 64 << 20
"""The largest size of what a coordinator keeps in memory for the members of one group."""
_REASON_LENGTH_MAX = 255


class ClassicJoining:
    """A JoinGroup request and the group that it addresses."""

    def __init__(
        self,
        group: ClassicGroup,
        output: GroupOutput,
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
        """Raises KafkaError if the group cannot accept this member."""
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
                group.leave(member, "exceeded group.max.size when it joined again", self._moment)
                group.complete_if_all_joined(self._moment)
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the group has as many members as group.max.size allows")
        if not group.supports(request.protocol_type, self._protocols):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group has the protocol type {group.protocol_type!r} and no protocol that all members support"
                if group.members
                else "a member has to name a protocol type and a protocol",
            )
        if group.members.bytes_held + protocols_size(self._protocols) > MEMBERS_BYTES_MAX:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the members of the group have too much metadata")

    def join(self, new_id: str) -> None:
        """Joins the member after `check`. `new_id` becomes part of its member id if it has none yet."""
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
            self._require_id(f"{self._caller.client_id}-{new_id}")
        else:
            self._add(f"{self._caller.client_id}-{new_id}")

    def _require_id(self, member_id: str) -> None:
        """Gives the client a member id, with which it has to join again.

        If the client dies now, it leaves no member behind for which others would have to wait.
        """
        if len(self._group.pending) >= PENDING_MAX:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "too many clients have a member id and have not joined with it yet"
            )
        self._group.add_pending(member_id, self._request.session_timeout_ms, self._moment)
        response = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        self._output.respond_at_once(self._waiter, response)

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
            # A leader joins again if what it assigns has changed, for example the partition count of a topic.
            cause = f"the leader {member.name} joined again"
        else:
            self._output.respond(self._waiter, group.join_response(member))
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
                response = group.join_response(new)
                if self._api_version >= SKIP_ASSIGNMENT_FROM:
                    response.skip_assignment = new.member_id == group.members.leader_id
                else:
                    # The client cannot be told to skip the assignment, so it must not learn that it leads.
                    response.leader, response.members = leader_before or "", []
                group.respond_without_rebalance(new, response)
            case ClassicState.STABLE:
                cause = f"{new.name} returned, and with its protocols the group chooses another protocol"
                group.prepare(cause + self._reason(), self._moment)
            case ClassicState.COMPLETING:
                # The leader knows the old member id alone, and will assign to it.
                group.prepare(f"{new.name} returned while the leader made the assignment{self._reason()}", self._moment)
            case _:
                group.on_static_member_returned(new, self._moment)

    def _update(self, member: ClassicMember) -> None:
        self._group.members.update(
            member, self._protocols, self._rebalance_timeout_ms, self._request.session_timeout_ms
        )

    @property
    def _rebalance_timeout_ms(self) -> int:
        """The rebalance timeout, which is the session timeout in the first version of JoinGroup."""
        timeout_ms = self._request.rebalance_timeout_ms
        return self._request.session_timeout_ms if timeout_ms < 0 or self._api_version == 0 else timeout_ms

    def _change_of(self, member: ClassicMember) -> str:
        if self._request.protocol_type == CONSUMER_PROTOCOL_TYPE:
            before = _topics_in(member.protocols)
            after = _topics_in(self._protocols)
            if before is not None and after is not None and before != after:
                return f"{member.name} subscribes to other topics"
        return f"{member.name} joined again with other metadata"

    def _reason(self) -> str:
        return with_reason(self._request.reason)


def with_reason(reason: str | None) -> str:
    """Returns the client's reason in the form in which it is appended to a cause."""
    return f', saying "{reason[:_REASON_LENGTH_MAX]}"' if reason else ""


def _topics_in(protocols: dict[str, bytes]) -> frozenset[str] | None:
    """Returns the topics that a consumer subscribes to with its first protocol, or None if they cannot be decoded."""
    try:
        return read_topics(next(iter(protocols.values()), b""))
    except RemoteProtocolError:
        return None
