"""The membership of a processor in a KIP-848 group: its member epoch fences the offsets that its transactions commit.

A processor asks for its partitions only between two transactions. So it has nothing to finish when the coordinator
revokes a partition, and releases it with its next heartbeat.
"""

from collections.abc import Sequence
from uuid import UUID

import trio
from simulation.consumer_member import HEARTBEAT_VERSION, JOINING_EPOCH, NO_MEMBER_CODES
from simulation.leaders import METADATA_VERSION

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from .group_membership import HEARTBEAT_SECONDS, NO_GENERATION, REBALANCE_SECONDS
from .transaction_client import GROUP_KEYS, TransactionClient, check
from .transaction_history import Partition
from .transaction_scenario import GROUP


class ConsumerMembership:
    def __init__(self, client: TransactionClient, consumed: Sequence[Partition]) -> None:
        """Prepares a membership; `consumed` are all partitions of the topic that the group consumes."""
        self.generation = NO_GENERATION
        """The member epoch, which transactions send as the generation of their offsets."""
        self.member_id = str(UUID(int=client.chance.getrandbits(128)))
        self.partitions: tuple[Partition, ...] = ()
        """The partitions that the member has now."""
        self._client = client
        self._topic = consumed[0].topic
        self._topic_id: UUID | None = None
        self._next_heartbeat = 0.0

    async def refresh(self) -> None:
        """Sends a heartbeat if one is due. It repeats everything, because the coordinator may have missed any part."""
        if self.generation != NO_GENERATION and trio.current_time() < self._next_heartbeat:
            return
        topic_id = await self._find_topic()
        owned = [TopicPartitions(topic_id, [each.number for each in self.partitions])] if self.partitions else []
        epoch = JOINING_EPOCH if self.generation == NO_GENERATION else self.generation
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            self.member_id,
            epoch,
            rebalance_timeout_ms=int(REBALANCE_SECONDS * 1000),
            subscribed_topic_names=[self._topic],
            topic_partitions=owned,
        )
        response = await self._client.ask_coordinator(
            GROUP_KEYS, GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request
        )
        self._client.check(response.error_code, GROUP_KEYS, GROUP)
        if response.error_code in NO_MEMBER_CODES:
            self.generation, self.partitions = NO_GENERATION, ()
            return
        check(response.error_code, self._client.name)
        self.generation = response.member_epoch
        self._next_heartbeat = trio.current_time() + HEARTBEAT_SECONDS
        if response.assignment is not None:
            self._adopt(topic_id, response.assignment.topic_partitions)

    def _adopt(self, topic_id: UUID, assigned: Sequence[TopicPartitions]) -> None:
        before = self.partitions
        numbers = sorted(number for each in assigned if each.topic_id == topic_id for number in each.partitions)
        self.partitions = tuple(Partition(self._topic, number) for number in numbers)
        if not set(before) <= set(self.partitions):
            self._next_heartbeat = 0.0  # another member waits for what is released

    async def _find_topic(self) -> UUID:
        if self._topic_id is None:
            request = MetadataRequest([MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=False)
            response = await self._client.ask_coordinator(GROUP_KEYS, GROUP, ApiKey.METADATA, METADATA_VERSION, request)
            if response.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE:
                self._client.check(ErrorCode.COORDINATOR_NOT_AVAILABLE, GROUP_KEYS, GROUP)
            check(response.topics[0].error_code, self._client.name)
            topic_id: UUID = response.topics[0].topic_id
            self._topic_id = topic_id
        return self._topic_id
