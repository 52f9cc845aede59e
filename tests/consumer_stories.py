"""Members of consumer groups for tests, which send the requests of real clients."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from grouping import CALLER, Asked, GroupWorld

from tailrace.broker.groups.assignment.assignments import TopicPartition, by_topic, listed, partitions_of
from tailrace.broker.groups.classic.named_partitions import partitions_from_names
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.protocol.codec.compile import encode_whole
from tailrace.protocol.embedded_protocol import read_assignment
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tailrace.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tailrace.protocol.messages.consumer_protocol_assignment import TopicPartition as Assigned
from tailrace.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tailrace.protocol.messages.consumer_protocol_subscription import TopicPartition as Owned
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "g"
REBALANCE_TIMEOUT_MS = 60_000


@dataclass
class Consumer:
    """A client that revokes partitions at once and reports that with its next heartbeat."""

    world: GroupWorld = field(repr=False)
    member_id: str
    topics: tuple[str, ...] | None = ("a",)
    group_id: str = GROUP
    instance_id: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """Further fields of the heartbeat with which it joins."""
    epoch: int = 0
    owned: frozenset[TopicPartition] = frozenset()
    interval_ms: int = 0
    caller: Caller = CALLER

    def join(self) -> ConsumerGroupHeartbeatResponse:
        self.epoch, self.owned = 0, frozenset()
        return self.beat(
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=None if self.topics is None else list(self.topics),
            topic_partitions=[],
            **self.extra,
        )

    def beat(self, *, says_owned: bool = True, **said: Any) -> ConsumerGroupHeartbeatResponse:
        """Sends a heartbeat and applies the response."""
        if says_owned and "topic_partitions" not in said:
            said["topic_partitions"] = listed(self.owned, TopicPartitions)
        response = self.ask(**said).reply
        assert response is not None, self.world.asked[-1].error
        self.epoch = response.member_epoch
        self.interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self.owned = partitions_of(response.assignment.topic_partitions)
        return response

    def ask(self, *, version: int = 1, **said: Any) -> Asked:
        """Sends a heartbeat without applying the response."""
        fields = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
        }
        request = ConsumerGroupHeartbeatRequest(**fields | said)
        return self.world.ask(
            lambda coordinator, moment, asked: coordinator.consumer.heartbeat(
                request, version, self.caller, asked, moment
            )
        )

    def leave(self, epoch: int = -1) -> None:
        assert self.ask(member_epoch=epoch).reply.member_epoch == epoch
        self.owned = frozenset()

    def error(self, **said: Any) -> ErrorCode:
        asked = self.ask(**said)
        assert asked.error is not None, asked.reply
        return asked.error.code

    @property
    def numbers(self) -> list[int]:
        """The numbers of the partitions that it knows to have."""
        return sorted(partition.partition for partition in self.owned)


@dataclass
class ClassicConsumer:
    """A client of the classic protocol, which takes part in rebalances until it has an assignment."""

    world: GroupWorld = field(repr=False)
    member_id: str = ""
    topics: tuple[str, ...] = ("a",)
    protocols: tuple[str, ...] = ("range", "cooperative-sticky")
    instance_id: str | None = None
    is_cooperative: bool = True
    """Whether the client keeps its partitions while it joins again."""
    caller: Caller = CALLER
    join_version: int = 9
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
    generation: int = -1
    owned: frozenset[TopicPartition] = frozenset()
    waiting: Asked | None = None
    """Whether a JoinGroup or a SyncGroup has no response yet."""
    leads: bool = False

    # steps

    def ask_join(self, **said: Any) -> Asked:
        request = JoinGroupRequest(
            GROUP, 10_000, self.rebalance_timeout_ms, self.member_id, self.instance_id, "consumer", **said
        )
        if not said:
            request.protocols = [JoinGroupRequestProtocol(name, self.metadata()) for name in self.protocols]
        return self._ask("join", request, self.join_version)

    def ask_sync(self, assignments: Iterable[SyncGroupRequestAssignment] = (), **said: Any) -> Asked:
        fields = {"protocol_type": "consumer", "protocol_name": self.protocols[0]} | said
        request = SyncGroupRequest(GROUP, self.generation, self.member_id, self.instance_id, **fields)
        request.assignments = list(assignments)
        return self._ask("sync", request, 5)

    def ask_beat(self, generation: int | None = None) -> Asked:
        return self._ask(
            "heartbeat",
            HeartbeatRequest(
                GROUP, self.generation if generation is None else generation, self.member_id, self.instance_id
            ),
            4,
        )

    def leave(self) -> ErrorCode:
        request = LeaveGroupRequest(GROUP, members=[MemberIdentity(self.member_id, self.instance_id)])
        (member,) = self._ask("leave", request, 5).reply.members
        self.owned = frozenset()
        return ErrorCode(member.error_code)

    # a client's loop

    def go_on(self) -> None:
        """Goes on until the client has nothing to do or waits for others."""
        for _ in range(4):
            if self.waiting is None:
                if self.generation >= 0 and self._is_well():
                    return
                self.owned = self.owned if self.is_cooperative else frozenset()
                self.waiting = self.ask_join()
            if self.waiting.is_waiting:
                return
            asked, self.waiting = self.waiting, None
            if asked.error is not None:
                self._on_refused(asked.error.code)
            elif isinstance(asked.reply, JoinGroupResponse):
                self._on_joined(asked.reply)
            else:
                self.owned = self._named(asked.reply.assignment)
                return

    def _is_well(self) -> bool:
        asked = self.ask_beat()
        if asked.error is not None:
            self._on_refused(asked.error.code)
            return False
        return bool(asked.reply.error_code == ErrorCode.NONE)

    def _on_refused(self, code: ErrorCode) -> None:
        """Joins again, with its member id or with a new one."""
        self.generation = -1
        if code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            assert code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
            self.owned = frozenset()
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def _on_joined(self, reply: JoinGroupResponse) -> None:
        self.member_id = reply.member_id
        if reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._on_refused(ErrorCode.REBALANCE_IN_PROGRESS)
            return
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.waiting = self.ask_join()
            return
        self.generation = reply.generation_id
        self.leads = reply.leader == reply.member_id
        self.waiting = self.ask_sync(self._assign(reply) if self.leads else ())

    def _assign(self, reply: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Assigns partitions round-robin. A real cooperative leader would move fewer."""
        partitions = [
            (name, number)
            for name in sorted(self.topics)
            for number in range(len(self.world.cluster.topics[name].partitions))
        ]
        members = sorted(member.member_id for member in reply.members)
        return [
            SyncGroupRequestAssignment(
                member_id,
                b"\0\1"
                + encode_whole(
                    ConsumerProtocolAssignment(
                        [Assigned(name, [number]) for name, number in partitions[place :: len(members)]]
                    ),
                    1,
                ),
            )
            for place, member_id in enumerate(members)
        ]

    def metadata(self) -> bytes:
        owned = [
            Owned(topic.name, numbers)
            for topic_id, numbers in by_topic(self.owned).items()
            if (topic := self.world.cluster.topic_by_id(topic_id)) is not None
        ]
        return b"\0\3" + encode_whole(ConsumerProtocolSubscription(list(self.topics), None, owned), 3)

    def _named(self, assignment: bytes) -> frozenset[TopicPartition]:
        topics = read_assignment(assignment).assigned_partitions
        return partitions_from_names(topics, self.world.cluster)

    def _ask(self, method: str, request: Any, version: int) -> Asked:
        return self.world.ask(
            lambda coordinator, moment, asked: getattr(coordinator.classic, method)(
                request, version, self.caller, asked, moment
            )
        )

    @property
    def numbers(self) -> list[int]:
        return sorted(partition.partition for partition in self.owned)


def settle(consumers: Iterable[Consumer], rounds_max: int = 10) -> None:
    """Sends heartbeats until the group is stable, with time for another assignment in between."""
    consumers = list(consumers)
    for _ in range(rounds_max):
        for consumer in consumers:
            consumer.beat()
        if group_in(consumers[0].world).state == "Stable":
            return
        consumers[0].world.pass_time(1.0)
    raise AssertionError(f"the group is still {group_in(consumers[0].world).state}")


def group_in(world: GroupWorld, group_id: str = GROUP) -> ConsumerGroup:
    group = world.coordinator.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    return group


def describe(world: GroupWorld, group_id: str = GROUP) -> DescribedGroup:
    return world.coordinator.consumer.describe(group_id)


def classic_group(world: GroupWorld, members: int = 1) -> list[ClassicConsumer]:
    consumers = [ClassicConsumer(world) for _ in range(members)]
    settle_all(consumers)
    return consumers


def settle_all(consumers: list[ClassicConsumer] | list[Consumer] | list[ClassicConsumer | Consumer]) -> None:
    for _ in range(8):
        for consumer in consumers:
            if isinstance(consumer, ClassicConsumer):
                consumer.go_on()
            else:
                consumer.beat()
        consumers[0].world.pass_time(1.0)
    owned = [partition for consumer in consumers for partition in consumer.owned]
    assert len(owned) == len(set(owned)) == 6, [consumer.numbers for consumer in consumers]


def kind_of(world: GroupWorld) -> str:
    return world.coordinator.groups[GROUP].kind
