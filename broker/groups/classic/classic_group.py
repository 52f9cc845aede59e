"""A classic group: its members join, and its leader makes the assignment.

    Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
      ▲           │ ▲  waits for joins      │  waits for       │
      └───────────┘ └──────────────────────┴── the leader ────┘

The record of the group is appended when the leader has sent the assignment, and when the last member has left. What
happens in between is known to this object alone: a new coordinator begins with the previous generation. A change of the
members starts a rebalance.
"""

import math
from collections.abc import Callable
from enum import StrEnum

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.group import GroupKind
from tailrace.broker.groups.common.group_output import GroupOutput
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.broker.groups.common.member_deadlines import MemberDeadlines
from tailrace.broker.groups.common.rebalances import LATE, SILENT, Rebalance, new_rebalance_history
from tailrace.protocol.embedded_protocol import CONSUMER_PROTOCOL_TYPE, read_topics
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.group_records.group_metadata import GroupMetadataValue
from tailrace.protocol.messages.describe_groups import DescribedGroup
from tailrace.protocol.messages.join_group import JoinGroupResponse
from tailrace.protocol.messages.sync_group import SyncGroupResponse

from . import classic_responses
from .classic_member import ClassicMember
from .classic_members import ClassicMembers
from .classic_records import group_record, group_tombstone, members_from
from .initial_rebalance_delay import InitialRebalanceDelay

ASSIGNED_BYTES_MAX = 64 << 20
"""The largest size of the subscriptions and assignments in the record of a group."""
NEW_MEMBER_SECONDS_MAX = 300
"""How long a new member may wait for its first response, before which it cannot send heartbeats."""
STATIC_WAIT_SECONDS_MIN = 1
"""The shortest time between two checks whether a static member has joined, even with a rebalance timeout of 0."""


class ClassicState(StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    """The group waits for its members to join again."""
    COMPLETING = "CompletingRebalance"
    """The group waits for the assignment of its leader."""
    STABLE = "Stable"
    DEAD = "Dead"
    """There is no such group. Only descriptions have this state."""


class ClassicGroup:
    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str, output: GroupOutput, settings: Callable[[], GroupSettings]) -> None:
        self.group_id = group_id
        self.state: ClassicState = ClassicState.EMPTY
        self.since_ms = -1
        """The time at which the group entered its state, or -1 if that is unknown."""
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.members = ClassicMembers()
        self.pending: set[str] = set()
        """The member ids of clients that have not joined with them yet."""
        self.rebalances = new_rebalance_history()
        self._output = output
        self._settings = settings
        self._sessions = MemberDeadlines()
        self._join_deadline = math.inf
        self._sync_deadline = math.inf
        self._not_synced: set[str] = set()
        self._initial_delay: InitialRebalanceDelay | None = None
        """The delay of the first rebalance; None if the current rebalance began with members."""
        self._topics: frozenset[str] | None = None
        self._topics_generation: int | None = None
        """The generation for which `_topics` was read."""

    @classmethod
    def stored(
        cls, group_id: str, value: GroupMetadataValue, output: GroupOutput, settings: Callable[[], GroupSettings]
    ) -> "ClassicGroup":
        """Makes the group of this record. The sessions of its members begin with `on_loaded`."""
        group = cls(group_id, output, settings)
        group.members = members_from(value)
        group.state = ClassicState.STABLE if group.members else ClassicState.EMPTY
        group.since_ms = value.current_state_timestamp
        group.generation = value.generation
        group.protocol_type = value.protocol_type
        group.protocol_name = value.protocol
        return group

    # the interface of every group

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def awaits_members(self) -> bool:
        return bool(self.pending)

    @property
    def empty_since_ms(self) -> int | None:
        return self.since_ms if self.is_empty and self.since_ms >= 0 else None

    @property
    def deadline(self) -> float:
        return min(self._sessions.deadline, self._join_deadline, self._sync_deadline)

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, api_version: int, *, transactional: bool = False
    ) -> None:
        if generation < 0 and self.is_empty:
            return  # a client that uses the group for its offsets alone, or an administrator
        if generation >= 0 or member_id or instance_id is not None:
            self.members.check(member_id, instance_id)
            self.check_generation(generation)
        elif not transactional:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, so a commit has to name one of them")
        if not transactional and self.state is ClassicState.COMPLETING:
            raise classic_responses.rebalancing()

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Allows every fetch, because members of classic groups have no epoch."""

    def check_deletable(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"the group {self.group_id} is {self.state}, not empty")

    def subscribed_topics(self) -> frozenset[str] | None:
        if self._topics_generation != self.generation:
            self._topics = self._read_topics()
            self._topics_generation = self.generation
        return self._topics

    def waiters(self) -> list[Waiter]:
        self.members.joining = 0
        return [waiter for member in self.members for waiter in member.take_waiters()]

    def tombstones(self) -> list[GroupRecord]:
        return [group_tombstone(self.group_id)]

    def describe(self) -> DescribedGroup:
        protocol = self.protocol_name if self.state is ClassicState.STABLE else None
        return classic_responses.described(self.group_id, self.state, self.members, self.protocol_type, protocol)

    def record(self) -> GroupRecord:
        return group_record(
            self.group_id, self.protocol_type, self.generation, self.protocol_name, self.members, self.since_ms
        )

    # joining

    def accepts(self, member_id: str) -> bool:
        """Returns whether the group has room for this member, which may already be in the group."""
        size_max = self._settings().members_max
        match self.state:
            case ClassicState.PREPARING:
                # Only members that have joined again count, so that the last of too many members are refused.
                member = self.members.find(member_id)
                return (member is not None and member.joining is not None) or self.members.joining < size_max
            case ClassicState.COMPLETING | ClassicState.STABLE:
                return member_id in self.members or len(self.members) < size_max
            case _:
                return True

    def supports(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Returns whether all members support one of these protocols."""
        if self.is_empty:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and self.members.all_support_one_of(protocols)

    def add_pending(self, member_id: str, session_timeout_ms: int, moment: Moment) -> None:
        self.pending.add(member_id)
        self._sessions.set(member_id, moment.now + session_timeout_ms / 1000)

    def add(self, member: ClassicMember, protocol_type: str, waiter: Waiter, cause: str, moment: Moment) -> None:
        """Adds a new member, which may have been pending."""
        self.pending.discard(member.member_id)
        if self.state is ClassicState.PREPARING and self._initial_delay is not None:
            self._initial_delay.member_joined = True
        if not self.members:
            self.protocol_type = protocol_type
        self.members.add(member)
        member.is_new = True
        self._park_join(member, waiter)
        self._sessions.set(member.member_id, moment.now + NEW_MEMBER_SECONDS_MAX)
        self._on_joined(member, cause, moment)

    def rejoin(self, member: ClassicMember, waiter: Waiter, cause: str, moment: Moment) -> None:
        self._park_join(member, waiter)
        self._on_joined(member, cause, moment)

    def replace(self, old: ClassicMember, new: ClassicMember, waiter: Waiter, moment: Moment) -> None:
        """Gives a returning static member its assignment under its new id, and fences its old id."""
        led = self.members.leader_id == old.member_id
        fenced = self.members.take_join(old)
        if fenced is not None:
            self._output.respond_at_once(fenced, classic_responses.join_of_replaced(old))
        self._refuse_sync(old, classic_responses.replaced(old))
        self.members.remove(old)
        self._sessions.clear(old.member_id)
        self._not_synced.discard(old.member_id)
        if self._is_rebalancing:
            self.rebalances[-1].on_departure(old.participant, "returned with another member id", moment.now)
        self.members.add(new)
        if led:
            self.members.leader_id = new.member_id
        self._park_join(new, waiter)
        self._start_session(new, moment)

    def on_static_member_returned(self, member: ClassicMember, moment: Moment) -> None:
        """Counts a static member that returned while the group waits for joins."""
        self.rebalances[-1].on_arrival(member.participant, moment.now)
        self.complete_if_all_joined(moment)

    def respond_without_rebalance(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        """Responds to a returning static member without a rebalance, once its new id is committed."""
        self._topics_generation = None  # the member may have another subscription now
        self._output.append(self.record())
        waiter = self.members.take_join(member)
        assert waiter is not None
        self._output.respond(waiter, response)

    def refuse_waiting(self) -> None:
        """Refuses all parked requests, because another group takes the place of this one.

        A new member learns its member id from the response, and joins the other group with it.
        """
        for member in self.members:
            waiter = self.members.take_join(member)
            if waiter is not None:
                self._output.respond_at_once(waiter, classic_responses.join_again(member))
            self._refuse_sync(member, classic_responses.rebalancing())

    def join_response(self, member: ClassicMember) -> JoinGroupResponse:
        """Returns the JoinGroup response for the current generation."""
        return classic_responses.joined(member, self.members, self.generation, self.protocol_type, self.protocol_name)

    def _park_join(self, member: ClassicMember, waiter: Waiter) -> None:
        earlier = self.members.park_join(member, waiter)
        if earlier is not None:
            self._output.refuse(earlier, classic_responses.rebalancing())  # the client has sent a newer request

    def _on_joined(self, member: ClassicMember, cause: str, moment: Moment) -> None:
        if self.state is ClassicState.PREPARING:
            self.rebalances[-1].on_arrival(member.participant, moment.now)
            self.complete_if_all_joined(moment)
        else:
            self.prepare(cause, moment)

    # rebalancing

    @property
    def _is_rebalancing(self) -> bool:
        return self.state in (ClassicState.PREPARING, ClassicState.COMPLETING)

    @property
    def _all_joined(self) -> bool:
        return self.members.joining == len(self.members) and not self.pending

    def prepare(self, cause: str, moment: Moment) -> None:
        """Starts a rebalance: all members have to join again. Must not be called during `PREPARING`."""
        if self.state is ClassicState.COMPLETING:
            self._revoke_assignments(classic_responses.rebalancing(), moment)
        self._not_synced.clear()
        self._sync_deadline = math.inf
        was_empty = self.is_empty
        self._enter(ClassicState.PREPARING, moment)
        self._begin_rebalance(cause, moment)
        self._initial_delay = None
        if was_empty and (delay_ms := self._settings().initial_rebalance_delay_ms) > 0:
            self._initial_delay = InitialRebalanceDelay(delay_ms, self.members.rebalance_timeout_ms)
            self._join_deadline = moment.now + delay_ms / 1000
        elif was_empty or self._all_joined or not self.members:
            self._complete_joining(moment)
        else:
            self._join_deadline = moment.now + self.members.rebalance_timeout_ms / 1000

    def complete_if_all_joined(self, moment: Moment) -> None:
        """Ends the wait for joins if no member is missing. A first rebalance waits for its delay instead."""
        if self.state is ClassicState.PREPARING and self._initial_delay is None and self._all_joined:
            self._complete_joining(moment)

    def _begin_rebalance(self, cause: str, moment: Moment) -> None:
        rebalance = Rebalance(cause, moment.now, moment.now_ms)
        for member in self.members:
            rebalance.expected[member.member_id] = member.participant
        for member in self.members:
            if member.joining is not None:
                rebalance.on_arrival(member.participant, moment.now)
        self.rebalances.append(rebalance)

    def _on_join_deadline(self, moment: Moment) -> None:
        extra_ms = self._initial_delay.next_ms() if self._initial_delay is not None else 0
        if extra_ms:
            self._join_deadline = moment.now + extra_ms / 1000
        else:
            self._complete_joining(moment)

    def _complete_joining(self, moment: Moment) -> None:
        self._join_deadline = math.inf
        rebalance = self.rebalances[-1]
        waited = f"{LATE} join within {moment.now - rebalance.began:.1f} s"
        for member in [member for member in self.members if member.joining is None and not member.is_static]:
            self._remove(member, waited, moment)
        if self.members and not self.members.elect_joined_leader():
            # Only static members are left and none has joined: they stay until their sessions end.
            self._join_deadline = moment.now + max(self.members.rebalance_timeout_ms / 1000, STATIC_WAIT_SECONDS_MIN)
            return
        self.generation += 1
        rebalance.generation = self.generation
        rebalance.joined_ms = moment.now_ms
        if not self.members:
            self.protocol_name = None
            self._enter(ClassicState.EMPTY, moment)
            rebalance.ended_ms = moment.now_ms
            self._output.append(self.record())
            return
        self.protocol_name = self.members.vote()
        self._enter(ClassicState.COMPLETING, moment)
        self._sync_deadline = moment.now + self.members.rebalance_timeout_ms / 1000
        for member in self.members:
            waiter = self.members.take_join(member)
            if waiter is not None:
                self._output.respond_at_once(waiter, self.join_response(member))
            member.is_new = False
            self._not_synced.add(member.member_id)
            self._start_session(member, moment)

    # syncing

    def sync(self, member: ClassicMember, assignments: dict[str, bytes], waiter: Waiter, moment: Moment) -> None:
        """Handles SyncGroup: a member fetches its assignment, and the leader sends the assignments of all."""
        match self.state:
            case ClassicState.PREPARING:
                raise classic_responses.rebalancing()
            case ClassicState.COMPLETING:
                self._on_synced(member)
                self._refuse_sync(member, classic_responses.rebalancing())  # the client has sent a newer request
                member.syncing = waiter
                if member.member_id == self.members.leader_id:
                    self._assign(assignments, moment)
            case _:
                self._on_synced(member)
                self._output.respond(waiter, self._sync_response(member))

    def _assign(self, assignments: dict[str, bytes], moment: Moment) -> None:
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
        if self._bytes_assigned() > ASSIGNED_BYTES_MAX:
            too_large = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the assignments are too large to be stored")
            self._revoke_assignments(too_large, moment)
            self.prepare("the assignments of the leader were too large to be stored", moment)
            return
        self._enter(ClassicState.STABLE, moment)
        self.rebalances[-1].ended_ms = moment.now_ms
        self._output.counts.group_rebalances += 1
        self._output.append(self.record())
        for member in self.members:
            waiter, member.syncing = member.syncing, None
            if waiter is not None:
                self._output.respond(waiter, self._sync_response(member))
                self._start_session(member, moment)

    def _bytes_assigned(self) -> int:
        return sum(len(member.assignment) + len(member.metadata(self.protocol_name)) for member in self.members)

    def _sync_response(self, member: ClassicMember) -> SyncGroupResponse:
        return classic_responses.synced(member, self.protocol_type, self.protocol_name)

    def _on_synced(self, member: ClassicMember) -> None:
        self._not_synced.discard(member.member_id)
        if not self._not_synced:
            self._sync_deadline = math.inf

    def _refuse_sync(self, member: ClassicMember, error: KafkaError) -> None:
        waiter, member.syncing = member.syncing, None
        if waiter is not None:
            self._output.refuse(waiter, error)

    def _revoke_assignments(self, error: KafkaError, moment: Moment) -> None:
        """Clears all assignments, refuses parked SyncGroup requests, and starts the sessions of their members."""
        for member in self.members:
            member.assignment = b""
            if member.syncing is not None:
                self._refuse_sync(member, error)
                self._start_session(member, moment)

    def _on_sync_deadline(self, moment: Moment) -> None:
        self._sync_deadline = math.inf
        late = [member for member in self.members if member.member_id in self._not_synced]
        if not late:
            return
        names = ", ".join(member.name for member in late[:5]) + (" and others" if len(late) > 5 else "")
        for member in late:
            self._remove(member, f"{LATE} ask for its assignment in time", moment)
        self.prepare(f"{names} {LATE} ask for an assignment in time", moment)

    # heartbeats, leaving, timeouts

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, moment: Moment) -> ErrorCode:
        member = self.members.check(member_id, instance_id)
        self.check_generation(generation)
        self._start_session(member, moment)
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is ClassicState.PREPARING else ErrorCode.NONE

    def on_commit(self, member_id: str, moment: Moment) -> None:
        """Counts a commit as a heartbeat."""
        member = self.members.find(member_id)
        if member is not None and self.state in (ClassicState.STABLE, ClassicState.PREPARING):
            self._start_session(member, moment)

    def leave_pending(self, member_id: str) -> None:
        self.pending.discard(member_id)
        self._sessions.clear(member_id)

    def leave(self, member: ClassicMember, why: str, moment: Moment) -> None:
        """Removes the member. Call `on_members_left` after the last member of the request."""
        self._remove(member, why, moment)

    def on_members_left(self, cause: str, moment: Moment) -> None:
        """Starts a rebalance, or ends the wait for joins, after members have left."""
        if self.state is ClassicState.PREPARING:
            self.complete_if_all_joined(moment)
        elif not self.is_empty:
            self.prepare(cause, moment)

    def on_loaded(self, moment: Moment) -> None:
        """Starts the sessions of all members, and a rebalance if the group needs one."""
        for member in self.members:
            self._start_session(member, moment)
        size_max = self._settings().members_max
        if len(self.members) > size_max:
            self.prepare(f"the group has {len(self.members)} members, and group.max.size is {size_max} now", moment)
        elif self.members and self.members.leader_id is None:
            self.prepare("the last member that used the consumer protocol has left", moment)

    def on_deadline(self, moment: Moment) -> None:
        for member_id in self._sessions.take_due(moment.now):
            if not self._sessions.has(member_id):  # the session was started again when another member was removed
                self._on_session_ended(member_id, moment)
        if self._join_deadline <= moment.now:
            self._on_join_deadline(moment)
        if self._sync_deadline <= moment.now:
            self._on_sync_deadline(moment)

    def _on_session_ended(self, member_id: str, moment: Moment) -> None:
        if member_id in self.pending:
            self.pending.remove(member_id)
        else:
            member = self.members.find(member_id)
            if member is None:
                return
            if not member.is_new and (member.joining is not None or member.syncing is not None):
                return  # the member waits for us; its session starts again with our response
            limit = NEW_MEMBER_SECONDS_MAX if member.is_new else member.session_timeout_ms / 1000
            self._remove(member, f"{SILENT} for {limit:g} s", moment)
            if self.state in (ClassicState.STABLE, ClassicState.COMPLETING):
                self.prepare(f"{member.name} {SILENT} for {limit:g} s, its session timeout", moment)
                return
        self.complete_if_all_joined(moment)

    def _remove(self, member: ClassicMember, why: str, moment: Moment) -> None:
        waiter = self.members.take_join(member)
        if waiter is not None:
            self._output.respond_at_once(waiter, classic_responses.join_of_removed())
        self._refuse_sync(member, classic_responses.removed())
        self.members.remove(member)
        self._sessions.clear(member.member_id)
        self._not_synced.discard(member.member_id)
        if self._is_rebalancing:
            self.rebalances[-1].on_departure(member.participant, why, moment.now)

    def _start_session(self, member: ClassicMember, moment: Moment) -> None:
        self._sessions.set(member.member_id, moment.now + member.session_timeout_ms / 1000)

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                f"the generation of the group is {self.generation}, not {generation}",
            )

    def _enter(self, state: ClassicState, moment: Moment) -> None:
        self.state = state
        self.since_ms = moment.now_ms

    def _read_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        try:
            return frozenset(
                topic for member in self.members for topic in read_topics(member.metadata(self.protocol_name))
            )
        except RemoteProtocolError:
            return None
