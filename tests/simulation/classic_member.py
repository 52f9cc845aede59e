"""A member of a classic group in a simulation: it joins, leads if it must, reads what it owns, and commits.

The member survives its connections: it continues in its generation with the current coordinator. It ends after its
lifetime, with or without leaving, and may be silent for so long that the others continue without it.
"""

import struct
from math import inf
from random import Random

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.compile import decode, encode_whole
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tailrace.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .client import WireClient
from .consumer import Position
from .group_client import GroupClient, RefusedError
from .group_reading import GroupReading
from .offset_history import NO_TERM
from .patient_client import RetryError
from .simulated_group import Group
from .world import World

JOIN_GROUP_VERSION = 9
SYNC_GROUP_VERSION = 5
HEARTBEAT_VERSION = 4
LEAVE_GROUP_VERSION = 5
CONSUMER_PROTOCOL_VERSION = 0
_VERSION = struct.Struct(">h")
_PROTOCOL = "simulated"


class ClassicMember:
    def __init__(
        self, world: World, name: str, group: Group, chance: Random, *, instance_id: str | None, lives: float
    ) -> None:
        self.client = GroupClient(world, name, group, chance)
        self.client.instance_id = instance_id
        self._ends_at = trio.current_time() + lives
        self.ended = trio.Event()
        self.reading: GroupReading | None = None
        self.committed: dict[int, Position] = {}
        """The committed offsets that were acknowledged in this generation."""
        self._world = world
        self._name = name
        self._group = group
        self._chance = chance
        self._assigned: frozenset[int] = frozenset()
        self._is_fenced = False
        self._leaves = chance.random() < 0.5
        self._stalls = chance.random() < 0.4

    @property
    def key(self) -> str:
        """The name by which the other members know this one."""
        return self.client.instance_id or self.client.member_id

    @property
    def is_member(self) -> bool:
        return self.client.term != NO_TERM

    def unsettled(self) -> str | None:
        newest = self._group.generations.generation
        if not self.is_member or self.reading is None:
            return f"{self._name} is no member: {self.client.client.last_reason}"
        if self.client.term != newest and not self._group.is_mixed:
            return f"{self._name} is in generation {self.client.term}, not {newest}"
        return None

    def stay(self) -> None:
        """Makes the member stay from now on, without pauses."""
        self._ends_at = inf
        self._stalls = False

    # life

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            self.reading = GroupReading(self._world, self._name, self._group, nursery, self._chance)
            while not self.is_over:
                async with self.client.client.trying():
                    spu = await self.client.find()
                    async with self.client.client.connected(spu) as connected:
                        while not self.is_over:
                            await self._continue(connected)
                        if self._leaves and not self._is_fenced:
                            await self._leave(connected)
            self.reading.stop()
            nursery.cancel_scope.cancel()
        self.client.client.die()
        self.ended.set()

    @property
    def is_over(self) -> bool:
        return self._is_fenced or trio.current_time() >= self._ends_at

    async def _continue(self, connected: WireClient) -> None:
        try:
            if self.is_member:
                await self._work(connected)
            else:
                await self._join(connected)
        except RefusedError as refused:
            await self._on_refused(refused.code, connected)

    async def _on_refused(self, code: ErrorCode, connected: WireClient) -> None:
        try:
            if code is ErrorCode.REBALANCE_IN_PROGRESS and self.is_member and self._chance.random() < 0.7:
                await self._commit_the_last(connected)
        finally:
            self._give_up()
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.client.member_id = ""
        self._is_fenced = code is ErrorCode.FENCED_INSTANCE_ID

    async def _commit_the_last(self, connected: WireClient) -> None:
        """Commits the last position before another member takes the partition, although it may be too late."""
        assert self.reading is not None
        positions = self.reading.positions()
        self.reading.stop()
        try:
            if positions:
                await self.client.commit(connected, positions)
        except RefusedError:
            pass

    def _give_up(self) -> None:
        assert self.reading is not None
        self.reading.stop()
        self.committed.clear()
        self.client.term = NO_TERM

    # joining

    async def _join(self, connected: WireClient) -> None:
        timeouts = self._group.timeouts
        subscription = ConsumerProtocolSubscription([self._group.topic])
        request = JoinGroupRequest(
            self._group.group_id,
            int(timeouts.session_seconds * 1000),
            int(timeouts.rebalance_seconds * 1000),
            self.client.member_id,
            self.client.instance_id,
            "consumer",
            [JoinGroupRequestProtocol(_PROTOCOL, encoded(subscription))],
            "simulated",
        )
        began = trio.current_time()
        self._group.moments.reach("join")
        response: JoinGroupResponse = await self.client.ask(
            connected, ApiKey.JOIN_GROUP, JOIN_GROUP_VERSION, request, more_seconds=timeouts.rebalance_seconds
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.client.member_id = response.member_id
            return
        self.client.check(response.error_code)
        self.client.member_id = response.member_id
        if not self._group.is_mixed:
            self._group.generations.on_joined(self.key, response.generation_id, began)
        if self._stalls and self._chance.random() < 0.1:
            await trio.sleep(timeouts.session_seconds * self._chance.uniform(0.2, 2))
        await self._sync(connected, response)

    async def _sync(self, connected: WireClient, joined: JoinGroupResponse) -> None:
        request = SyncGroupRequest(
            self._group.group_id,
            joined.generation_id,
            self.client.member_id,
            self.client.instance_id,
            "consumer",
            joined.protocol_name,
        )
        if joined.leader == self.client.member_id and not joined.skip_assignment:
            request.assignments = self._plan(joined)
        began = trio.current_time()
        self._group.moments.reach("sync")
        response = await self.client.ask(
            connected,
            ApiKey.SYNC_GROUP,
            SYNC_GROUP_VERSION,
            request,
            more_seconds=self._group.timeouts.rebalance_seconds,
        )
        self.client.check(response.error_code)
        partitions = partitions_of(response.assignment)
        now = trio.current_time()
        if self._group.is_mixed:
            self._report_owned(joined.generation_id, partitions, now)
        else:
            self._group.generations.on_assigned(self.key, joined.generation_id, partitions, began, now)
        self.client.term = joined.generation_id
        self._assigned = partitions

    def _report_owned(self, generation: int, partitions: frozenset[int], now: float) -> None:
        """Tells the history of ownership what this generation assigned.

        No member of the other protocol owns these partitions now. This member may have lost its own ones at any time.
        """
        ownership = self._group.ownership
        ownership.on_epoch(self.client.member_id, generation)
        ownership.on_owned(self.client.member_id, sorted(partitions), now)
        ownership.on_released(self.client.member_id, partitions)

    def _plan(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Assigns shares of equal size, which differ each time."""
        members = [(each.group_instance_id or each.member_id, each.member_id) for each in joined.members]
        shares: list[list[int]] = [[] for _ in members]
        for place, history in enumerate(self._chance.sample(self._group.partitions, len(self._group.partitions))):
            shares[place % len(shares)].append(history.partition)
        plan = {key: frozenset(share) for (key, _), share in zip(members, shares, strict=True)}
        self._group.generations.on_planned(joined.generation_id, plan)
        return [
            SyncGroupRequestAssignment(
                member_id, encoded(ConsumerProtocolAssignment([TopicPartition(self._group.topic, share)]))
            )
            for (_, member_id), share in zip(members, shares, strict=True)
        ]

    # working

    async def _work(self, connected: WireClient) -> None:
        assert self.reading is not None
        await self.reading.start_unread(self.client, connected, self._assigned)
        await trio.sleep(self._group.timeouts.heartbeat_seconds * self._chance.uniform(0.5, 1))
        if self._stalls and self._chance.random() < 0.1:
            await trio.sleep(self._group.timeouts.session_seconds * self._chance.uniform(0.2, 2))
        elif self._chance.random() < 0.7:
            request = HeartbeatRequest(
                self._group.group_id, self.client.term, self.client.member_id, self.client.instance_id
            )
            response = await self.client.ask(connected, ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request)
            self.client.check(response.error_code)
        positions = {
            partition: position
            for partition, position in self.reading.positions().items()
            if self.committed.get(partition) != position
        }
        if positions:
            await self.client.commit(connected, positions)
            self.committed |= positions

    async def _leave(self, connected: WireClient) -> None:
        self._group.moments.reach("leave")
        identity = MemberIdentity(self.client.member_id, self.client.instance_id, "simulated")
        request = LeaveGroupRequest(self._group.group_id, members=[identity])
        response = await self.client.ask(connected, ApiKey.LEAVE_GROUP, LEAVE_GROUP_VERSION, request)
        try:
            self.client.check(response.error_code)
            for each in response.members:
                self.client.check(each.error_code)
        except (RefusedError, RetryError):
            pass  # the group need not know, because the member has left anyway


def encoded(message: object) -> bytes:
    return _VERSION.pack(CONSUMER_PROTOCOL_VERSION) + encode_whole(message, CONSUMER_PROTOCOL_VERSION)


def partitions_of(assignment: bytes) -> frozenset[int]:
    if not assignment:
        return frozenset()
    found = decode(ConsumerProtocolAssignment, CONSUMER_PROTOCOL_VERSION, assignment, _VERSION.size)
    return frozenset(partition for topic in found.assigned_partitions for partition in topic.partitions)
