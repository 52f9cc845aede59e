"""Members of consumer groups that tests speak for: each does with its heartbeat what a client would."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from grouping import CALLER, Asked, GroupWorld

from tailrace.broker.groups.assignments import TopicPartition, listed, partitions_of
from tailrace.broker.groups.consumer_group import ConsumerGroup
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GROUP = "g"
REBALANCE_TIMEOUT_MS = 60_000


@dataclass
class Consumer:
    """A client: it gives up at once what it is told to, and says so in its next heartbeat."""

    world: GroupWorld
    member_id: str
    topics: tuple[str, ...] | None = ("a",)
    group_id: str = GROUP
    instance_id: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """What else it says when it joins."""
    epoch: int = 0
    owned: frozenset[TopicPartition] = frozenset()
    interval_ms: int = 0

    def join(self) -> ConsumerGroupHeartbeatResponse:
        self.epoch, self.owned = 0, frozenset()
        return self.beat(
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=None if self.topics is None else list(self.topics),
            topic_partitions=[],
            **self.extra,
        )

    def beat(self, *, says_owned: bool = True, **said: Any) -> ConsumerGroupHeartbeatResponse:
        """Does what it is told."""
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
        """What comes of a heartbeat, without doing anything about it."""
        fields = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
        }
        request = ConsumerGroupHeartbeatRequest(**fields | said)
        return self.world.ask(
            lambda coordinator, moment, asked: coordinator.consumer.heartbeat(request, version, CALLER, asked, moment)
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
        """Of the partitions that it has, as it knows."""
        return sorted(partition.partition for partition in self.owned)


def settle(consumers: Iterable[Consumer], rounds_max: int = 10) -> None:
    """Heartbeats until the group is stable, with time enough between them for another assignment."""
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
