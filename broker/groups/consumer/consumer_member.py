"""A member of a consumer group: its profile, and its current assignment on the way to its target.

Both are immutable and are replaced as a whole by a record. What is compared, written and sent is therefore the same.
"""

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field
from msgspec.structs import replace

from tailrace.broker.groups.assignment.assignments import NO_PARTITIONS, Partitions, TopicPartition
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

LEFT_FOR_NOW = -2
"""The epoch of a static member that left and keeps its partitions until its session ends. Others leave with -1."""
_PROFILE_OVERHEAD = 500
_NAME_OVERHEAD = 60
"""About how much memory a member, or a name, takes in addition to its characters."""

_NO_CHANGES = (None, None, None, None, -1)


class MemberState(IntEnum):
    """The state of a member's reconciliation, with the numbers that Kafka's records have."""

    STABLE = 0
    """The member has exactly the partitions of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member has to revoke partitions before it gets the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for other members to revoke partitions of its target."""
    UNKNOWN = 127
    """A state that a later version has written."""


class ClassicProtocols(Struct, frozen=True):
    """The protocols of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names and metadata, in the member's order of preference."""

    @property
    def chosen(self) -> str:
        """The protocol that the member is told to use.

        The coordinator makes the assignment, so any protocol will do.
        """
        return self.protocols[0][0]


class Profile(Struct, frozen=True):
    """The data that a member reports about itself."""

    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    topic_names: frozenset[str] = frozenset()
    topic_pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocols | None = None
    """The classic protocols, or None for a member that sends ConsumerGroupHeartbeat."""

    @property
    def bytes_held(self) -> int:
        topics = sum(len(name) + _NAME_OVERHEAD for name in self.topic_names)
        names = (self.client_id, self.instance_id or "", self.rack_id or "", self.topic_pattern)
        protocols = self.classic.protocols if self.classic else ()
        return _PROFILE_OVERHEAD + topics + sum(map(len, names)) + sum(len(each[1]) for each in protocols)

    def subscribes_as(self, other: "Profile") -> bool:
        """Returns whether both subscribe to the same topics."""
        return self.topic_names == other.topic_names and self.topic_pattern == other.topic_pattern

    def after_heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> "Profile":
        """Returns the profile after a heartbeat. What the heartbeat leaves out stays unchanged."""
        names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        if (
            (names, pattern, request.server_assignor, request.rack_id, timeout_ms) == _NO_CHANGES
            and (request.instance_id, caller.client_id, caller.host) == (self.instance_id, self.client_id, self.host)
            and self.classic is None
        ):
            return self  # nearly every heartbeat takes this path
        return replace(
            self,
            client_id=caller.client_id,
            host=caller.host,
            instance_id=self.instance_id if request.instance_id is None else request.instance_id,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            topic_names=self.topic_names if names is None else frozenset(names),
            topic_pattern=self.topic_pattern if pattern is None else pattern,
            rebalance_timeout_ms=self.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            assignor=self.assignor if request.server_assignor is None else request.server_assignor,
            classic=None,
        )


class CurrentAssignment(Struct, frozen=True):
    """The partitions that a member has now."""

    epoch: int = 0
    previous_epoch: int = 0
    """The epoch that the member still sends if the response with its current epoch was lost."""
    state: MemberState = MemberState.STABLE
    assigned: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The partitions of the member, with the epoch since which it has each. No earlier epoch may commit for it."""
    revoking: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The partitions that the member has to revoke, and has not reported as revoked."""

    @property
    def held(self) -> Partitions:
        """The partitions that the member has, and those that it has not revoked yet."""
        if not self.assigned and not self.revoking:
            return NO_PARTITIONS  # a large group has many members without partitions
        return frozenset((*self.assigned, *self.revoking))

    def is_reconciled_to(self, epoch: int) -> bool:
        """Returns whether the member has exactly its target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch


class ConsumerMember(Struct):
    member_id: str
    profile: Profile = Profile()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def participant(self) -> Participant:
        profile = self.profile
        return Participant(self.member_id, profile.instance_id, profile.client_id, profile.host)
