"""A whole SPU with groups that are made by real requests, and calls of `tailrace group`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from simulation.client import WireClient
from spus import ADDRESS, SC_PUBLIC, RunningSpu, SteadyClock, batch, newest, running_spu
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from tailrace.broker.spu_counters import KNOWN
from tailrace.cli.groups import group_commands as group
from tailrace.cli.main import parse
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.compile import encode_whole
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tailrace.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tailrace.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NAMED_COMMIT = 9
NAMED_PRODUCE = 9
SESSION_MS, REBALANCE_MS = 10_000, 60_000
_VERSION_0 = b"\0\0"


class GroupedSpu(Struct):
    running: RunningSpu
    client: WireClient
    network: Any

    @property
    def clock(self) -> SteadyClock:
        return self.running.world.clock

    async def tailrace(self, name: str, *words: str) -> int:
        """Returns the exit status of `tailrace group`, which finds the SPU through the SC by default."""
        where = () if "--bootstrap" in words else ("--sc", str(SC_PUBLIC))
        commands = group.commands(self.clock)
        return await commands[name].execute(parse(["group", name, *words, *where]), self.network)

    async def produce(self, topic: str, partition: int, count: int, timestamp: int | None = None) -> None:
        records = batch(*[b"v"] * count, timestamp=self.clock.now_ms() if timestamp is None else timestamp)
        data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, records)])]
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
        response = await self.client.request(ApiKey.PRODUCE, NAMED_PRODUCE, request)
        assert not response.responses[0].partition_responses[0].error_code

    async def delete_records(self, topic: str, partition: int, before: int) -> None:
        wanted = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, before)])]
        key = ApiKey.DELETE_RECORDS
        response = await self.client.request(key, newest(key), DeleteRecordsRequest(wanted, 1000))
        assert not response.topics[0].partitions[0].error_code, response

    async def commit(self, group_id: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commits as a client that is no member."""
        partitions = [OffsetCommitRequestPartition(*each) for each in offsets.items()]
        request = OffsetCommitRequest(group_id, topics=[OffsetCommitRequestTopic(topic, partitions=partitions)])
        response = await self.client.request(ApiKey.OFFSET_COMMIT, NAMED_COMMIT, request)
        assert not any(each.error_code for each in response.topics[0].partitions), response

    async def member(self, group_id: str, name: str, topic: str, partitions: Sequence[int]) -> "Member":
        """A classic member, alone in its group, with these partitions."""
        member = Member(self, await self.running.client(), group_id, name, topic)
        await member.join()
        await member.sync(partitions)
        return member

    async def consumer(self, group_id: str, member_id: str, topic: str) -> None:
        """A member of a consumer group, which joins with its first heartbeat."""
        request = ConsumerGroupHeartbeatRequest(
            group_id,
            member_id,
            0,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        key = ApiKey.CONSUMER_GROUP_HEARTBEAT
        response = await self.client.request(key, newest(key), request)
        assert not response.error_code, response


class Member(Struct):
    spu: GroupedSpu
    client: WireClient
    group_id: str
    name: str
    topic: str
    member_id: str = ""
    generation: int = -1

    async def ask_to_join(self) -> None:
        """Sends the request and does not wait for the response."""
        subscription = _VERSION_0 + encode_whole(ConsumerProtocolSubscription([self.topic]), 0)
        protocols = [JoinGroupRequestProtocol("range", subscription)]
        request = JoinGroupRequest(
            self.group_id, SESSION_MS, REBALANCE_MS, self.member_id, self.name, "consumer", protocols
        )
        await self.client.send(self.client.encode(ApiKey.JOIN_GROUP, newest(ApiKey.JOIN_GROUP), request))

    async def joined(self) -> None:
        response = await self.client.response()
        assert not response.error_code, response
        self.member_id, self.generation = response.member_id, response.generation_id

    async def join(self) -> None:
        await self.ask_to_join()
        await self.joined()

    async def sync(self, partitions: Sequence[int]) -> None:
        """Assigns these partitions to itself, as the group leader."""
        assignment = ConsumerProtocolAssignment([TopicPartition(self.topic, list(partitions))])
        assigned = [SyncGroupRequestAssignment(self.member_id, _VERSION_0 + encode_whole(assignment, 0))]
        request = SyncGroupRequest(
            self.group_id, self.generation, self.member_id, self.name, "consumer", "range", assigned
        )
        response = await self.client.request(ApiKey.SYNC_GROUP, newest(ApiKey.SYNC_GROUP), request)
        assert not response.error_code, response

    async def leave(self) -> None:
        request = LeaveGroupRequest(self.group_id, members=[MemberIdentity(self.member_id, self.name)])
        response = await self.client.request(ApiKey.LEAVE_GROUP, newest(ApiKey.LEAVE_GROUP), request)
        assert not response.members[0].error_code, response


@asynccontextmanager
async def grouped_spu() -> AsyncIterator[GroupedSpu]:
    broker = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
    # Only the command prints.
    with capture_logs():
        async with running_spu(broker=broker) as running:
            client = WireClient(await running.world.network.connect(ADDRESS), client_id="tests", apis=KNOWN)
            key = ApiKey.FIND_COORDINATOR
            while (await client.request(key, 1, FindCoordinatorRequest(key="any"))).error_code != ErrorCode.NONE:
                await wait_all_tasks_blocked()
            await wait_all_tasks_blocked()  # the groups are loaded
            yield GroupedSpu(running, client, running.world.network)
