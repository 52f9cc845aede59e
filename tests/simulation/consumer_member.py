"""A member of a KIP-848 group in a simulation, which takes and releases partitions as the heartbeat responses say.

It keeps its own clock. After a session without a response it can be sure of nothing, and tells the history of ownership
so, but it continues with its partitions, as consumers do.
"""

from math import inf
from random import Random
from uuid import UUID

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from .client import WireClient
from .consumer import Position
from .group_client import GroupClient, RefusedError
from .group_reading import GroupReading
from .leaders import METADATA_VERSION
from .patient_client import RetryError
from .simulated_group import Group
from .world import World

HEARTBEAT_VERSION = 1
JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_FOR_A_WHILE_EPOCH = -2
NO_MEMBER_CODES = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
"""Errors after which the member is no longer in the group; the last one means that all members are classic now."""


class ConsumerMember:
    def __init__(
        self, world: World, name: str, group: Group, chance: Random, *, instance_id: str | None, lives: float
    ) -> None:
        self.client = GroupClient(world, name, group, chance)
        self.client.instance_id = instance_id
        self._ends_at = trio.current_time() + lives
        self.ended = trio.Event()
        self.reading: GroupReading | None = None
        self.committed: dict[int, Position] = {}
        self._world = world
        self._name = name
        self._group = group
        self._chance = chance
        self._topic_id: UUID | None = None
        self._owned: set[int] = set()
        self._is_fenced = False
        self._leaves = chance.random() < 0.5
        self._stalls = chance.random() < 0.4
        self._sends_everything = True
        """Whether the next heartbeat repeats everything that the coordinator may have missed."""
        self._answered_at = inf
        """When the last heartbeat with a response was sent."""
        self._unanswered_since = inf
        self._revoking_since = inf
        """When the heartbeat was sent whose response took partitions away."""
        self._start_again()

    def _start_again(self) -> None:
        """Starts again as a new member, which ignores responses to the old one."""
        self.client.member_id = str(UUID(int=self._chance.getrandbits(128)))
        self.client.term = JOINING_EPOCH

    @property
    def is_member(self) -> bool:
        return self.client.term > JOINING_EPOCH

    def unsettled(self) -> str | None:
        if not self.is_member or self.reading is None:
            return f"{self._name} is no member: {self.client.client.last_reason}"
        if self.reading.partitions != self._owned:
            return f"{self._name} owns {sorted(self._owned)} and reads {sorted(self.reading.partitions)}"
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
                    self._sends_everything = True
                    spu = await self.client.find()
                    async with self.client.client.connected(spu) as connected:
                        if self._topic_id is None:
                            self._topic_id = await self._find_topic(connected)
                        while not self.is_over:
                            await self._continue(connected)
                        if self._leaves and not self._is_fenced:
                            await self._leave(connected)
            self.reading.stop()
            nursery.cancel_scope.cancel()
        self._group.ownership.on_left(self.client.member_id)
        self.client.client.die()
        self.ended.set()

    @property
    def is_over(self) -> bool:
        return self._is_fenced or trio.current_time() >= self._ends_at

    async def _find_topic(self, connected: WireClient) -> UUID:
        asked = MetadataRequest([MetadataRequestTopic(name=self._group.topic)], allow_auto_topic_creation=False)
        response = await self.client.ask(connected, ApiKey.METADATA, METADATA_VERSION, asked)
        self.client.check(response.topics[0].error_code)
        topic_id: UUID = response.topics[0].topic_id
        return topic_id

    async def _continue(self, connected: WireClient) -> None:
        assert self.reading is not None
        try:
            await self._send_heartbeat(connected)
            await self.reading.start_unread(self.client, connected, self._owned)
            await self._pause()
            await self._commit(connected)
        except RefusedError as refused:
            self._on_refused(refused.code)

    def _on_refused(self, code: ErrorCode) -> None:
        if code in NO_MEMBER_CODES:
            self._release_everything()
            if code is ErrorCode.UNKNOWN_MEMBER_ID and self._chance.random() < 0.5:
                self._start_again()
        elif code is ErrorCode.UNRELEASED_INSTANCE_ID:
            raise RetryError(code.name)
        elif code is not ErrorCode.STALE_MEMBER_EPOCH:  # the next heartbeat repairs this error
            self._release_everything()
            self._is_fenced = True

    def _release_everything(self) -> None:
        assert self.reading is not None
        self.reading.stop()
        self.committed.clear()
        self._owned.clear()
        self._group.ownership.on_left(self.client.member_id)
        self.client.term = JOINING_EPOCH
        self._sends_everything = True
        self._answered_at = self._unanswered_since = self._revoking_since = inf

    # heartbeats

    async def _send_heartbeat(self, connected: WireClient) -> None:
        now = trio.current_time()
        if self.client.term == JOINING_EPOCH:
            self._group.moments.reach("join")
        request = ConsumerGroupHeartbeatRequest(
            self._group.group_id, self.client.member_id, self.client.term, self.client.instance_id
        )
        if self._sends_everything:
            request.rebalance_timeout_ms = int(self._group.timeouts.rebalance_seconds * 1000)
            request.subscribed_topic_names = [self._group.topic]
        if self._sends_everything or self._revoking_since < inf:
            assert self._topic_id is not None
            request.topic_partitions = [TopicPartitions(self._topic_id, sorted(self._owned))] if self._owned else []
        self._unanswered_since = min(self._unanswered_since, now)
        self._report_sure_until()
        response = await self.client.ask(connected, ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request)
        self.client.check(response.error_code)
        self._sends_everything = False
        asked_at, self._unanswered_since = self._unanswered_since, inf
        self._answered_at, self._revoking_since = now, inf
        self.client.term = response.member_epoch
        self._group.ownership.on_epoch(self.client.member_id, response.member_epoch)
        self._report_sure_until()
        if response.assignment is not None:
            assigned = {
                partition
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
                if topic.topic_id == self._topic_id
            }
            await self._adopt_assignment(connected, assigned, asked_at)

    def _report_sure_until(self) -> None:
        timeouts = self._group.timeouts
        until = min(
            self._answered_at + timeouts.session_seconds,
            self._unanswered_since + timeouts.rebalance_seconds,
            self._revoking_since + timeouts.rebalance_seconds,
        )
        self._group.ownership.on_sure_until(self.client.member_id, until)

    async def _adopt_assignment(self, connected: WireClient, assigned: set[int], asked_at: float) -> None:
        """Takes and releases partitions as the coordinator says.

        What is released is committed, and reported at once. The coordinator has waited for that since it decided so,
        perhaps since a heartbeat that got no response.
        """
        assert self.reading is not None
        given, revoked = assigned - self._owned, self._owned - assigned
        self._owned |= given
        self._group.ownership.on_owned(self.client.member_id, sorted(given), trio.current_time())
        if not revoked:
            return
        self._revoking_since = asked_at
        self._report_sure_until()
        self._group.moments.reach("sync")
        if self._stalls and self._chance.random() < 0.2:
            await trio.sleep(self._group.timeouts.rebalance_seconds * self._chance.uniform(0.2, 1.5))
        positions = {each: at for each, at in self.reading.positions().items() if each in revoked}
        self.reading.stop(revoked)
        try:
            if positions:
                await self.client.commit(connected, positions)
        finally:
            for partition in revoked:
                self.committed.pop(partition, None)
            self._owned -= revoked
            self._group.ownership.on_released(self.client.member_id, revoked)
        await self._send_heartbeat(connected)

    # between heartbeats

    async def _pause(self) -> None:
        timeouts = self._group.timeouts
        await trio.sleep(timeouts.heartbeat_seconds * self._chance.uniform(0.5, 1))
        if self._stalls and self._chance.random() < 0.1:
            await trio.sleep(timeouts.session_seconds * self._chance.uniform(0.2, 2))

    async def _commit(self, connected: WireClient) -> None:
        assert self.reading is not None
        positions = {each: at for each, at in self.reading.positions().items() if self.committed.get(each) != at}
        if positions and self._chance.random() < 0.7:
            await self.client.commit(connected, positions)
            self.committed |= positions

    async def _leave(self, connected: WireClient) -> None:
        assert self.reading is not None
        self.reading.stop()
        self._group.moments.reach("leave")
        self._group.ownership.on_left(self.client.member_id)
        epoch = LEAVING_EPOCH if self.client.instance_id is None else LEAVING_FOR_A_WHILE_EPOCH
        request = ConsumerGroupHeartbeatRequest(
            self._group.group_id, self.client.member_id, epoch, self.client.instance_id
        )
        await self.client.ask(connected, ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request)
