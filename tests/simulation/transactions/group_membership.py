"""The membership of a processor in a classic group: its generation fences the offsets that its transactions commit."""

from collections.abc import Sequence

import trio
from simulation.classic_member import HEARTBEAT_VERSION, JOIN_GROUP_VERSION, SYNC_GROUP_VERSION, encoded, partitions_of

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tailrace.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .transaction_client import GROUP_KEYS, REMOVED, TransactionClient, check
from .transaction_history import Partition
from .transaction_scenario import GROUP, SESSION_SECONDS

REBALANCE_SECONDS = 2.0
HEARTBEAT_SECONDS = 0.3
NO_GENERATION = -1
_PROTOCOL = "simulated"


class GroupMembership:
    def __init__(self, client: TransactionClient, consumed: Sequence[Partition]) -> None:
        """Prepares a membership; `consumed` are all partitions of the topic that the group consumes."""
        self.generation = NO_GENERATION
        self.member_id = ""
        self.partitions: tuple[Partition, ...] = ()
        """The partitions that were assigned to the member in its generation."""
        self._client = client
        self._consumed = consumed
        self._next_heartbeat = 0.0

    async def refresh(self) -> None:
        """Joins if that is needed, or else sends a heartbeat if one is due."""
        if self.generation != NO_GENERATION and trio.current_time() < self._next_heartbeat:
            return
        if self.generation == NO_GENERATION:
            await self._join()
        else:
            request = HeartbeatRequest(GROUP, self.generation, self.member_id)
            response = await self._client.ask_coordinator(
                GROUP_KEYS, GROUP, ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request
            )
            self._is_member(response.error_code)
        self._next_heartbeat = trio.current_time() + HEARTBEAT_SECONDS

    def _is_member(self, code: int) -> bool:
        """Returns whether the coordinator still knows this member in its generation."""
        self._client.check(code, GROUP_KEYS, GROUP)
        if code in REMOVED:
            self.generation, self.partitions = NO_GENERATION, ()
            self.member_id = "" if code == ErrorCode.UNKNOWN_MEMBER_ID else self.member_id
            return False
        check(code, self._client.name)
        return True

    async def _join(self) -> None:
        subscription = encoded(ConsumerProtocolSubscription([self._consumed[0].topic]))
        request = JoinGroupRequest(
            GROUP,
            int(SESSION_SECONDS * 1000),
            int(REBALANCE_SECONDS * 1000),
            self.member_id,
            None,
            "consumer",
            [JoinGroupRequestProtocol(_PROTOCOL, subscription)],
        )
        joined: JoinGroupResponse = await self._client.ask_coordinator(
            GROUP_KEYS, GROUP, ApiKey.JOIN_GROUP, JOIN_GROUP_VERSION, request, more_seconds=REBALANCE_SECONDS
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        elif self._is_member(joined.error_code):
            self.member_id = joined.member_id
            await self._sync(joined)

    async def _sync(self, joined: JoinGroupResponse) -> None:
        request = SyncGroupRequest(GROUP, joined.generation_id, self.member_id, None, "consumer", joined.protocol_name)
        if joined.leader == self.member_id and not joined.skip_assignment:
            request.assignments = self._plan([each.member_id for each in joined.members])
        synced = await self._client.ask_coordinator(
            GROUP_KEYS, GROUP, ApiKey.SYNC_GROUP, SYNC_GROUP_VERSION, request, more_seconds=REBALANCE_SECONDS
        )
        if self._is_member(synced.error_code):
            self.generation = joined.generation_id
            topic = self._consumed[0].topic
            self.partitions = tuple(Partition(topic, each) for each in sorted(partitions_of(synced.assignment)))

    def _plan(self, members: Sequence[str]) -> list[SyncGroupRequestAssignment]:
        """Assigns the partitions anew each time, so that most rebalances move some."""
        shares: dict[str, list[int]] = {each: [] for each in members}
        for each in self._consumed:
            shares[self._client.chance.choice(members)].append(each.number)
        topic = self._consumed[0].topic
        return [
            SyncGroupRequestAssignment(
                member, encoded(ConsumerProtocolAssignment([TopicPartition(topic, share)] if share else []))
            )
            for member, share in shares.items()
        ]
