"""A classic group: its members join, its leader assigns, and all of them work until somebody comes or goes.

    Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
      ▲           │ ▲  waits for joins      │  waits for       │
      └───────────┘ └──────────────────────┴── the leader ────┘

The group's record is appended when the leader's assignment is there, and when the last member has gone. What happens
in between is known to this object alone: another coordinator begins with the generation before.
"""

import math
from collections.abc import Callable
from enum import StrEnum

from tailrace.broker.groups.common.coordinator_output import CoordinatorOutput, Waiter
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.coordinator_settings import GroupSettings
from tailrace.broker.groups.common.group import GroupKind
from tailrace.broker.groups.common.member_sessions import Sessions
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.common.rebalances import Rebalance, no_rebalances
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.group_records.group_metadata import GroupMetadataValue
from tailrace.protocol.messages.describe_groups import DescribedGroup
from tailrace.protocol.messages.join_group import JoinGroupResponse
from tailrace.protocol.messages.sync_group import SyncGroupResponse

from . import classic_responses as classic_answers
from .classic_member import ClassicMember
from .classic_members import ClassicMembers
from .classic_records import group_record, group_tombstone, members_in
from .embedded_protocol import CONSUMER, read_topics
from .initial_rebalance_delay import FirstWait

ASSIGNED_BYTES_MAX = 64 << 20
"""Of a group's record: what its members subscribed with, and what they were assigned."""
NEW_MEMBER_SECONDS_MAX = 300
"""For which a member is waited with that has had no answer yet: it cannot show that it is still there."""
STATIC_WAIT_SECONDS_MIN = 1
"""Between two looks at whether a static member has come, even if all of them wanted no rebalance to take time."""


class ClassicState(StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    """Waits for its members to join again."""
    COMPLETING = "CompletingRebalance"
    """Waits for the leader's assignment."""
    STABLE = "Stable"
    DEAD = "Dead"
    """There is no such group."""


class ClassicGroup:
    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str, output: CoordinatorOutput, settings: Callable[[], GroupSettings]) -> None:
        self.group_id = group_id
        self.state: ClassicState = ClassicState.EMPTY
        self.since_ms = -1
        """When it came into this state; -1 when that is not known."""
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.members = ClassicMembers()
        self.pending: set[str] = set()
        """Ids that were given to clients which have not joined with them yet."""
        self.rebalances = no_rebalances()
        self._output = output
        self._settings = settings
        self._sessions = Sessions()
        self._join_deadline = math.inf
        self._sync_deadline = math.inf
        self._not_synced: set[str] = set()
        self._first_wait: FirstWait | None = None
        """None when the rebalance that goes on began with members."""
        self._topics: frozenset[str] | None = None
        self._topics_of: int | None = None
        """The generation whose topics these are."""

    @classmethod
    def stored(
        cls, group_id: str, value: GroupMetadataValue, output: CoordinatorOutput, settings: Callable[[], GroupSettings]
    ) -> "ClassicGroup":
        """As its record has it; sessions begin with `on_loaded`."""
        group = cls(group_id, output, settings)
        group.members = members_in(value)
        group.state = ClassicState.STABLE if group.members else ClassicState.EMPTY
        group.since_ms = value.current_state_timestamp
        group.generation = value.generation
        group.protocol_type = value.protocol_type
        group.protocol_name = value.protocol
        return group

    # what a coordinator asks of any group

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

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
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, and the commit names none of them")
        if not transactional and self.state is ClassicState.COMPLETING:
            raise classic_answers.rebalancing()

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Members of classic groups have no epoch."""

    def check_deletable(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"the group {self.group_id} is in use: it is {self.state}")

    def subscribed_topics(self) -> frozenset[str] | None:
        if self._topics_of != self.generation:
            self._topics = self._read_topics()
            self._topics_of = self.generation
        return self._topics

    def waiters(self) -> list[Waiter]:
        self.members.joining = 0
        return [waiter for member in self.members for waiter in member.take_waiters()]

    def tombstones(self) -> list[GroupRecord]:
        return [group_tombstone(self.group_id)]

    def describe(self) -> DescribedGroup:
        protocol = self.protocol_name if self.state is ClassicState.STABLE else None
        return classic_answers.described(self.group_id, self.state, self.members, self.protocol_type, protocol)

    def record(self) -> GroupRecord:
        return group_record(
            self.group_id, self.protocol_type, self.generation, self.protocol_name, self.members, self.since_ms
        )

    # joining

    def accepts(self, member_id: str) -> bool:
        """Whether there is room for this member, which may be one that is here already."""
        size_max = self._settings().members_max
        match self.state:
            case ClassicState.PREPARING:
                # Those who have come count, not those who were there: so the last ones of too many are shed.
                member = self.members.find(member_id)
                return (member is not None and member.joining is not None) or self.members.joining < size_max
            case ClassicState.COMPLETING | ClassicState.STABLE:
                return member_id in self.members or len(self.members) < size_max
            case _:
                return True

    def supports(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Whether somebody with these protocols agrees with all members on one of them."""
        if self.is_empty:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and self.members.all_know_one_of(protocols)

    def add_pending(self, member_id: str, session_timeout_ms: int, moment: Moment) -> None:
        self.pending.add(member_id)
        self._sessions.begin(member_id, moment.now + session_timeout_ms / 1000)

    def add(self, member: ClassicMember, protocol_type: str, waiter: Waiter, cause: str, moment: Moment) -> None:
        """A member that was not here before; it may have been pending."""
        self.pending.discard(member.member_id)
        if self.state is ClassicState.PREPARING and self._first_wait is not None:
            self._first_wait.somebody_came = True
        if not self.members:
            self.protocol_type = protocol_type
        self.members.add(member)
        member.is_new = True
        self._park_join(member, waiter)
        self._sessions.begin(member.member_id, moment.now + NEW_MEMBER_SECONDS_MAX)
        self._on_joined(member, cause, moment)

    def rejoin(self, member: ClassicMember, waiter: Waiter, cause: str, moment: Moment) -> None:
        self._park_join(member, waiter)
        self._on_joined(member, cause, moment)

    def replace(self, old: ClassicMember, new: ClassicMember, waiter: Waiter, moment: Moment) -> None:
        """A static member has come back with a new id, and has what it had; its old id is fenced."""
        led = self.members.leader_id == old.member_id
        fenced = self.members.take_join(old)
        if fenced is not None:
            self._output.respond_at_once(fenced, classic_answers.join_of_replaced(old))
        self._refuse_sync(old, classic_answers.replaced(old))
        self.members.remove(old)
        self._sessions.stop(old.member_id)
        self._not_synced.discard(old.member_id)
        if self._is_rebalancing:
            self.rebalances[-1].on_departure(old.participant, "came back as another member", moment.now)
        self.members.add(new)
        if led:
            self.members.leader_id = new.member_id
        self._park_join(new, waiter)
        self._hear(new, moment)

    def on_returned(self, member: ClassicMember, moment: Moment) -> None:
        """A static member has come back while the group prepares."""
        self.rebalances[-1].on_arrival(member.participant, moment.now)
        self.complete_if_all_came(moment)

    def go_on_with(self, member: ClassicMember, reply: JoinGroupResponse) -> None:
        """Answers a static member that came back without a rebalance, when its new id is in the log."""
        self._topics_of = None  # it may have subscribed to others
        self._output.append(self.record())
        waiter = self.members.take_join(member)
        assert waiter is not None
        self._output.respond(waiter, reply)

    def refuse_waiting(self) -> None:
        """Another group takes the place of this one: who waits joins that, by the member id that it may learn here."""
        for member in self.members:
            waiter = self.members.take_join(member)
            if waiter is not None:
                self._output.respond_at_once(waiter, classic_answers.join_again(member))
            self._refuse_sync(member, classic_answers.rebalancing())

    def join_reply(self, member: ClassicMember) -> JoinGroupResponse:
        """The generation as it is; the leader is told who is in it."""
        return classic_answers.joined(member, self.members, self.generation, self.protocol_type, self.protocol_name)

    def _park_join(self, member: ClassicMember, waiter: Waiter) -> None:
        earlier = self.members.park_join(member, waiter)
        if earlier is not None:
            self._output.refuse(earlier, classic_answers.rebalancing())  # its client asked again, and listens there

    def _on_joined(self, member: ClassicMember, cause: str, moment: Moment) -> None:
        if self.state is ClassicState.PREPARING:
            self.rebalances[-1].on_arrival(member.participant, moment.now)
            self.complete_if_all_came(moment)
        else:
            self.prepare(cause, moment)

    # rebalancing

    @property
    def _is_rebalancing(self) -> bool:
        return self.state in (ClassicState.PREPARING, ClassicState.COMPLETING)

    @property
    def _all_came(self) -> bool:
        return self.members.joining == len(self.members) and not self.pending

    def prepare(self, cause: str, moment: Moment) -> None:
        """All members have to join again. Not while they do so already."""
        if self.state is ClassicState.COMPLETING:
            self._take_assignments_back(classic_answers.rebalancing(), moment)
        self._not_synced.clear()
        self._sync_deadline = math.inf
        was_empty = self.is_empty
        self._enter(ClassicState.PREPARING, moment)
        self._begin_rebalance(cause, moment)
        self._first_wait = None
        if was_empty and (delay_ms := self._settings().initial_rebalance_delay_ms) > 0:
            self._first_wait = FirstWait(delay_ms, self.members.rebalance_timeout_ms)
            self._join_deadline = moment.now + delay_ms / 1000
        elif was_empty or self._all_came or not self.members:
            self._complete_joining(moment)
        else:
            self._join_deadline = moment.now + self.members.rebalance_timeout_ms / 1000

    def complete_if_all_came(self, moment: Moment) -> None:
        """Somebody came or went while the group prepares; a first rebalance waits for its time."""
        if self.state is ClassicState.PREPARING and self._first_wait is None and self._all_came:
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
        again_ms = self._first_wait.again_ms() if self._first_wait is not None else 0
        if again_ms:
            self._join_deadline = moment.now + again_ms / 1000
        else:
            self._complete_joining(moment)

    def _complete_joining(self, moment: Moment) -> None:
        self._join_deadline = math.inf
        rebalance = self.rebalances[-1]
        waited = f"did not join within {moment.now - rebalance.began:.1f} s"
        for member in [member for member in self.members if member.joining is None and not member.is_static]:
            self._remove(member, waited, moment)
        if self.members and not self.members.elect_joined_leader():
            # Static members alone, and none of them has come: the end of their sessions decides.
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
                self._output.respond_at_once(waiter, self.join_reply(member))
            member.is_new = False
            self._not_synced.add(member.member_id)
            self._hear(member, moment)

    # synchronizing

    def sync(self, member: ClassicMember, assignments: dict[str, bytes], waiter: Waiter, moment: Moment) -> None:
        """A member asks for its assignment, and the leader brings those of all."""
        match self.state:
            case ClassicState.PREPARING:
                raise classic_answers.rebalancing()
            case ClassicState.COMPLETING:
                self._on_synced(member)
                self._refuse_sync(member, classic_answers.rebalancing())  # its client asked again, and listens there
                member.syncing = waiter
                if member.member_id == self.members.leader_id:
                    self._assign(assignments, moment)
            case _:
                self._on_synced(member)
                self._output.respond(waiter, self._sync_reply(member))

    def _assign(self, assignments: dict[str, bytes], moment: Moment) -> None:
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
        if self._bytes_assigned() > ASSIGNED_BYTES_MAX:
            too_large = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the assignments are too large to be stored")
            self._take_assignments_back(too_large, moment)
            self.prepare("the leader's assignments were too large to be stored", moment)
            return
        self._enter(ClassicState.STABLE, moment)
        self.rebalances[-1].ended_ms = moment.now_ms
        self._output.counts.group_rebalances += 1
        self._output.append(self.record())
        for member in self.members:
            waiter, member.syncing = member.syncing, None
            if waiter is not None:
                self._output.respond(waiter, self._sync_reply(member))
                self._hear(member, moment)

    def _bytes_assigned(self) -> int:
        return sum(len(member.assignment) + len(member.metadata(self.protocol_name)) for member in self.members)

    def _sync_reply(self, member: ClassicMember) -> SyncGroupResponse:
        return classic_answers.synced(member, self.protocol_type, self.protocol_name)

    def _on_synced(self, member: ClassicMember) -> None:
        self._not_synced.discard(member.member_id)
        if not self._not_synced:
            self._sync_deadline = math.inf

    def _refuse_sync(self, member: ClassicMember, error: KafkaError) -> None:
        waiter, member.syncing = member.syncing, None
        if waiter is not None:
            self._output.refuse(waiter, error)

    def _take_assignments_back(self, error: KafkaError, moment: Moment) -> None:
        """Whoever waited for one may have been gone for long: from now on it has to show again that it is there."""
        for member in self.members:
            member.assignment = b""
            if member.syncing is not None:
                self._refuse_sync(member, error)
                self._hear(member, moment)

    def _on_sync_deadline(self, moment: Moment) -> None:
        self._sync_deadline = math.inf
        late = [member for member in self.members if member.member_id in self._not_synced]
        if not late:
            return
        names = ", ".join(member.name for member in late[:5]) + (" and others" if len(late) > 5 else "")
        for member in late:
            self._remove(member, "did not ask for its assignment in time", moment)
        self.prepare(f"{names} did not ask for an assignment in time", moment)

    # being there, and going

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, moment: Moment) -> ErrorCode:
        member = self.members.check(member_id, instance_id)
        self.check_generation(generation)
        self._hear(member, moment)
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is ClassicState.PREPARING else ErrorCode.NONE

    def on_commit(self, member_id: str, moment: Moment) -> None:
        """Who commits offsets is there, as after a heartbeat."""
        member = self.members.find(member_id)
        if member is not None and self.state in (ClassicState.STABLE, ClassicState.PREPARING):
            self._hear(member, moment)

    def leave_pending(self, member_id: str) -> None:
        self.pending.discard(member_id)
        self._sessions.stop(member_id)

    def leave(self, member: ClassicMember, why: str, moment: Moment) -> None:
        """What follows from that is decided by `on_left`, once all of a request have left."""
        self._remove(member, why, moment)

    def on_left(self, cause: str, moment: Moment) -> None:
        if self.state is ClassicState.PREPARING:
            self.complete_if_all_came(moment)
        elif not self.is_empty:
            self.prepare(cause, moment)

    def on_loaded(self, moment: Moment) -> None:
        """This coordinator is a new one: it has heard of nobody yet."""
        for member in self.members:
            self._hear(member, moment)
        size_max = self._settings().members_max
        if len(self.members) > size_max:
            self.prepare(f"the group has {len(self.members)} members, and group.max.size is {size_max} now", moment)
        elif self.members and self.members.leader_id is None:
            self.prepare("the last member that spoke the protocol of KIP-848 has gone", moment)

    def on_deadline(self, moment: Moment) -> None:
        for member_id in self._sessions.take_ended(moment.now):
            if not self._sessions.awaits(member_id):  # a new one begins for who waited for another of them
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
                return  # it waits for us; its session begins anew when it is answered
            limit = NEW_MEMBER_SECONDS_MAX if member.is_new else member.session_timeout_ms / 1000
            self._remove(member, f"was not heard of for {limit:g} s", moment)
            if self.state in (ClassicState.STABLE, ClassicState.COMPLETING):
                self.prepare(f"{member.name} was not heard of for {limit:g} s, its session timeout", moment)
                return
        self.complete_if_all_came(moment)

    def _remove(self, member: ClassicMember, why: str, moment: Moment) -> None:
        waiter = self.members.take_join(member)
        if waiter is not None:
            self._output.respond_at_once(waiter, classic_answers.join_of_removed())
        self._refuse_sync(member, classic_answers.removed())
        self.members.remove(member)
        self._sessions.stop(member.member_id)
        self._not_synced.discard(member.member_id)
        if self._is_rebalancing:
            self.rebalances[-1].on_departure(member.participant, why, moment.now)

    def _hear(self, member: ClassicMember, moment: Moment) -> None:
        self._sessions.begin(member.member_id, moment.now + member.session_timeout_ms / 1000)

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, f"the group is in generation {self.generation}, not {generation}"
            )

    def _enter(self, state: ClassicState, moment: Moment) -> None:
        self.state = state
        self.since_ms = moment.now_ms

    def _read_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER:
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
