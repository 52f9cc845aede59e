"""A member of a consumer group: what it says of itself, and which partitions it has on the way to its target.

Both are replaced as a whole when a record says so, and never changed in place: what was compared, written and answered
is one thing.
"""

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field
from msgspec.structs import replace

from tailrace.broker.groups.assignment.assignments import TopicPartition
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

LEFT_FOR_NOW = -2
"""The epoch of a static member that left, and keeps its partitions until its session ends; others leave with -1."""
_PROFILE_OVERHEAD = 500
_NAME_OVERHEAD = 60
"""About what members, and names, take in memory beside their characters."""

_NOTHING_SAID = (None, None, None, None, -1)


class MemberState(IntEnum):
    """Of its way to the target. The numbers are those of the records."""

    STABLE = 0
    """Its epoch gives it nothing that it does not have, and takes nothing from it."""
    UNREVOKED_PARTITIONS = 1
    """It still has to give up partitions before it may have the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It has its epoch, but others have not given up all that is to be its own."""
    UNKNOWN = 127
    """Written by a later version."""


class ClassicProtocols(Struct, frozen=True):
    """Of a member that speaks the protocol of classic groups."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names and metadata; those that the member likes best come first."""

    @property
    def chosen(self) -> str:
        """What it is told that the group has agreed on; who assigns is not the member, so any will do."""
        return self.protocols[0][0]


class Profile(Struct, frozen=True):
    """What a member says of itself."""

    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    topic_names: frozenset[str] = frozenset()
    topic_pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocols | None = None
    """None for a member that sends ConsumerGroupHeartbeat."""

    @property
    def bytes_held(self) -> int:
        topics = sum(len(name) + _NAME_OVERHEAD for name in self.topic_names)
        names = (self.client_id, self.instance_id or "", self.rack_id or "", self.topic_pattern)
        protocols = self.classic.protocols if self.classic else ()
        return _PROFILE_OVERHEAD + topics + sum(map(len, names)) + sum(len(each[1]) for each in protocols)

    def subscribes_as(self, other: "Profile") -> bool:
        return self.topic_names == other.topic_names and self.topic_pattern == other.topic_pattern

    def after_heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> "Profile":
        """What the request leaves out is as it was."""
        names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        if (
            (names, pattern, request.server_assignor, request.rack_id, timeout_ms) == _NOTHING_SAID
            and (request.instance_id, caller.client_id, caller.host) == (self.instance_id, self.client_id, self.host)
            and self.classic is None
        ):
            return self  # as with nearly every heartbeat
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
    """What a member has by now."""

    epoch: int = 0
    previous_epoch: int = 0
    """Its answer may have been lost: then the member comes with this one again."""
    state: MemberState = MemberState.STABLE
    assigned: Mapping[TopicPartition, int] = field(default_factory=dict)
    """With the epoch since which it has each: who commits with an earlier one is not the owner that it was."""
    revoking: Mapping[TopicPartition, int] = field(default_factory=dict)
    """It was told to give these up, and has not said yet that it did."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch


class ConsumerMember(Struct):
    member_id: str
    profile: Profile = Profile()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def participant(self) -> Participant:
        profile = self.profile
        return Participant(self.member_id, profile.instance_id, profile.client_id, profile.host)
