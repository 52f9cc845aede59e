"""Model test of a classic group with random clients, time, and coordinators that lose uncommitted records.

Each request gets exactly one response. All assignments of a generation come from one leader. Generations with an
assignment never decrease. The state of a coordinator follows from its log.
"""

from collections import defaultdict

import pytest
from classic_groups import GROUP, SESSION_SECONDS, Client, subscription
from grouping import CALLER, Asked, GroupWorld
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tailrace.broker.coordination.coordinator_output import PendingResponse
from tailrace.broker.groups.classic.classic_group import NEW_MEMBER_SECONDS_MAX, ClassicGroup
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupResponse

CLIENTS_MAX = 5
LONGEST_SECONDS = 40.0
NEVER = 10**15
PROTOCOLS = [
    {"range": subscription("a"), "sticky": subscription("a")},
    {"sticky": subscription("a"), "range": subscription("a")},
    {"range": subscription("b")},
    {"own": b"x"},
]


class LaggingWorld(GroupWorld):
    """A world in which appended records are committed later, or never."""

    def __post_init__(self) -> None:
        self.committed = 0
        self.uncommitted: list[tuple[int, PendingResponse]] = []
        """The pending responses, with the log length that must be committed for each."""
        super().__post_init__()

    def commit(self) -> None:
        self.committed = len(self.log)
        due, self.uncommitted = self.uncommitted, []
        for _, answer in due:
            answer.send()

    def fail_over(self, kept: int) -> None:
        """Starts a new coordinator whose log has this number of the uncommitted records."""
        due, self.uncommitted = self.uncommitted, []
        for _, answer in due:
            answer.waiter.refuse(KafkaError(ErrorCode.NOT_COORDINATOR))
        self.restart(min(self.committed + kept, len(self.log)))
        self.commit()  # a leader has committed its whole log when it has recovered

    def _carry_out(self) -> None:
        output = self.coordinator.output.take()
        self.log.extend(output.records)
        for response in output.responses_at_once:
            response.send()
        self.uncommitted.extend((len(self.log), response) for response in output.responses)
        if len(self.log) == self.committed:
            self.commit()


class ClassicGroupMachine(RuleBasedStateMachine):
    @initialize(
        first_wait_ms=st.sampled_from([0, 3000]),
        members_max=st.sampled_from([100, 100, 2]),
        leader_is_slow=st.booleans(),
    )
    def begin(self, first_wait_ms: int, members_max: int, leader_is_slow: bool) -> None:
        self.world = LaggingWorld()
        self.world.use(
            initial_rebalance_delay_ms=first_wait_ms, members_max=members_max, offsets_check_interval_ms=NEVER
        )
        self.clients: list[Client] = []
        self.syncs: list[tuple[int, str, Asked]] = []
        """The SyncGroup requests, with generation and member. Some still wait for a response."""
        self.assigned: dict[int, set[bytes]] = defaultdict(set)
        self.told: dict[tuple[int, str], bytes] = {}
        self.leaders = 0
        for instance in (None, "i"):
            self.start(instance, 9, PROTOCOLS[0], LONGEST_SECONDS)
        self.world.pass_time(2 * first_wait_ms / 1000)  # the second member made it wait again
        self.behave(4, commits=True)
        if leader_is_slow:
            self.start(None, 9, PROTOCOLS[0], LONGEST_SECONDS)
            self.behave(3, commits=True, leaders_assign=False)
            self.pass_time_while_leaders_show_that_they_are_there(5)

    def client(self, number: int) -> Client:
        return self.clients[number % len(self.clients)]

    # events

    @rule(
        instance=st.sampled_from([None, None, "i", "j"]),
        version=st.sampled_from([0, 3, 5, 8, 9]),
        protocols=st.sampled_from([*PROTOCOLS[:2] * 3, *PROTOCOLS]),
        rebalance_seconds=st.sampled_from([5.0, LONGEST_SECONDS]),
    )
    def start(self, instance: str | None, version: int, protocols: dict[str, bytes], rebalance_seconds: float) -> None:
        if version < 5:
            instance = None
        client = Client(self.world, instance, protocols, version=version, rebalance_seconds=rebalance_seconds)
        self.clients = [*self.clients[-CLIENTS_MAX + 1 :], client]
        client.join()

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, CLIENTS_MAX), protocols=st.sampled_from([None, None, *PROTOCOLS]))
    def join(self, number: int, protocols: dict[str, bytes] | None) -> None:
        client = self.client(number)
        client.protocols = protocols or client.protocols
        client.join()

    @precondition(lambda self: self.clients)
    @rule(rounds=st.integers(1, 4), commits=st.booleans(), leaders_assign=st.sampled_from([True, True, False]))
    def behave(self, rounds: int, commits: bool, leaders_assign: bool = True) -> None:
        """Lets all clients join, sync, and rejoin when they have to. Some leaders are slow."""
        for client in self.clients * rounds:
            joined, synced = client.joined, client.synced
            if joined is None or joined.is_waiting or (synced is not None and synced.is_waiting):
                continue
            if joined.error is not None or joined.reply.error_code:
                client.member_id, client.protocols = "", PROTOCOLS[0]
                client.join()
            elif joined.reply.generation_id != client.generation:
                if leaders_assign or joined.reply.leader != joined.reply.member_id:
                    self.synchronize(client)
            elif client.heartbeat() != ErrorCode.NONE or synced is None or synced.error is not None:
                client.join()
            if commits:
                self.world.commit()

    def synchronize(self, client: Client) -> None:
        """Sends SyncGroup. A leader marks its assignments with its name."""
        assert client.joined is not None
        reply = client.joined_reply
        self.leaders += 1
        tag = b"by leader %d" % self.leaders
        self.sync_with(client, {member.member_id: tag for member in reply.members})

    def sync_with(self, client: Client, assignments: dict[str, bytes]) -> None:
        joined = client.joined
        if joined is not None and joined.reply is not None and joined.reply.protocol_name in client.protocols:
            chosen = joined.reply.protocol_name  # each client prefers its first protocol
            client.protocols = {chosen: client.protocols[chosen]} | client.protocols
        self.syncs.append((client.generation, client.member_id, client.sync(assignments)))

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, CLIENTS_MAX))
    def sync_out_of_turn(self, number: int) -> None:
        self.sync_with(self.client(number), {})

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, CLIENTS_MAX))
    def heartbeat(self, number: int) -> None:
        self.client(number).heartbeat()

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, CLIENTS_MAX))
    def leave(self, number: int) -> None:
        client = self.client(number)
        request = LeaveGroupRequest(GROUP, members=[MemberIdentity(client.member_id, client.instance_id)])
        self.world.ask(lambda coordinator, moment, asked: coordinator.classic.leave(request, 5, CALLER, asked, moment))

    @rule(seconds=st.sampled_from([0.5, 3.0, 6.0, 11.0, LONGEST_SECONDS]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: self.clients)
    @rule(times=st.sampled_from([3, 5]))
    def pass_time_while_leaders_show_that_they_are_there(self, times: int) -> None:
        for _ in range(times):
            self.world.pass_time(SESSION_SECONDS / 3)
            for client in self.clients:
                reply = client.joined.reply if client.joined is not None else None
                if reply is not None and reply.leader == reply.member_id:
                    client.generation, client.member_id = reply.generation_id, reply.member_id
                    client.heartbeat()

    @rule()
    def commit(self) -> None:
        self.world.commit()

    @rule(kept=st.integers(0, 3))
    def fail_over(self, kept: int) -> None:
        self.world.fail_over(kept)

    # invariants

    @property
    def group(self) -> ClassicGroup | None:
        group = self.world.coordinator.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    @invariant()
    def all_of_a_generation_were_assigned_by_one_leader(self) -> None:
        waiting = []
        for generation, member_id, asked in self.syncs:
            if asked.is_waiting:
                waiting.append((generation, member_id, asked))
            elif asked.error is None and not asked.reply.error_code:
                reply: SyncGroupResponse = asked.reply
                assert self.told.setdefault((generation, member_id), reply.assignment) == reply.assignment
                self.assigned[generation].add(reply.assignment)
                assert len(self.assigned[generation] - {b""}) <= 1
        self.syncs = waiting

    @invariant()
    def a_generation_that_was_assigned_is_never_forgotten(self) -> None:
        if self.assigned:
            assert self.group is not None and self.group.generation >= max(self.assigned)

    @invariant()
    def what_is_known_follows_from_the_log(self) -> None:
        group = self.group
        replayed = GroupWorld(settings=self.world.settings, log=list(self.world.log), now=self.world.now)
        replayed.restart()
        stored = replayed.coordinator.groups.get(GROUP)
        if stored is None:
            assert group is None or group.generation == 0 or not group.is_empty
            return
        assert group is not None and isinstance(stored, ClassicGroup)
        if group.state in ("Stable", "Empty") and stored.state != "PreparingRebalance":
            assert stored.record().value == group.record().value
        else:
            assert stored.generation <= group.generation

    @invariant()
    def nobody_is_forgotten(self) -> None:
        group = self.group
        if group is None:
            return
        members, sessions = group.members, group._sessions
        assert members.joining == sum(member.joining is not None for member in members)
        assert members.bytes_held == sum(member.bytes_held for member in members)
        assert group.is_empty == (not len(members)) or group.state == "PreparingRebalance"
        for member in members:
            waits = not member.is_new and (member.joining is not None or member.syncing is not None)
            assert waits or member.member_id in sessions._ends, "nothing would ever remove it"
            assert member.joining is None or group.state == "PreparingRebalance"
            assert member.syncing is None or group.state == "CompletingRebalance"
        for member_id in group.pending:
            assert member_id in sessions._ends and member_id not in members
        if group.state == "PreparingRebalance":
            assert group._join_deadline < NEVER
        assert self.world.coordinator.deadline <= group.deadline

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.commit()
        world.pass_time(NEW_MEMBER_SECONDS_MAX + 10 * LONGEST_SECONDS)
        world.commit()
        self.all_of_a_generation_were_assigned_by_one_leader()
        assert not any(asked.is_waiting for asked in world.asked if asked is not None)
        if self.group is not None:
            assert self.group.is_empty and not self.group.pending and not len(self.group.members)


TestClassicGroups = ClassicGroupMachine.TestCase
TestClassicGroups.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)
pytestmark = pytest.mark.timeout(120)
