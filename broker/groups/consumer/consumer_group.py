"""A consumer group (KIP-848): the coordinator assigns, and members reconcile by heartbeats.

`apply` is the only way to change what outlives a coordinator, for new records and for replayed ones. Counters and
indexes follow from the records, so that the work for a heartbeat does not grow with the number of members.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.assignment.assignments import Partitions, TopicPartition, partitions_of
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.group import GroupKind, TopicViewer
from tailrace.broker.groups.common.member_deadlines import MemberDeadlines
from tailrace.broker.groups.common.rebalances import new_rebalance_history
from tailrace.protocol.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from tailrace.protocol.group_records.consumer_group_member_metadata import ConsumerGroupMemberMetadataKey
from tailrace.protocol.group_records.consumer_group_metadata import ConsumerGroupMetadataKey
from tailrace.protocol.group_records.consumer_group_regular_expression import ConsumerGroupRegularExpressionKey
from tailrace.protocol.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from tailrace.protocol.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
)

from .consumer_member import ConsumerMember, CurrentAssignment, MemberState, Profile
from .consumer_records import (
    current_from,
    epoch_tombstone,
    member_tombstones,
    pattern_tombstone,
    profile_from,
    target_epoch_tombstone,
)
from .target_making import TargetMaking

T = TypeVar("T")

STALE_EPOCH_FROM = 9
"""The first version of OffsetCommit that can report a stale member epoch."""


class ConsumerGroup:
    kind = GroupKind.CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str, on_overdue: Callable[["ConsumerGroup", Moment], None]) -> None:
        self.group_id = group_id
        self.epoch = 0
        """The group epoch, which rises with every change that may lead to another assignment."""
        self.metadata_hash = 0
        """The hash of the topics and partitions that the assignment of this epoch distributes."""
        self.target_epoch = 0
        """The group epoch for which the targets were made (Kafka: assignment epoch)."""
        self.target_made_ms = 0
        """The time at which the targets were made."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """The member ids of static members, by instance id."""
        self.targets: dict[str, Partitions] = {}
        """The target assignment of each member, by member id."""
        self.patterns: dict[str, frozenset[str]] = {}
        """The topics that matched each pattern when the group last looked at the topics."""
        self.viewers: dict[str, TopicViewer | None] = {}
        """Which topics each member may see that has sent a heartbeat to this coordinator; None stands for all."""
        self.viewers_version = 0
        """The version of the permissions with which the patterns were matched."""
        self.owners: dict[TopicPartition, str] = {}
        """The member id that has each partition, or has not revoked it yet."""
        self.bytes_held = 0
        self.topics_version = -1
        """The version of the cluster's topics that the group has seen."""
        self.names_subscribed: Counter[str] = Counter()
        self.patterns_subscribed: Counter[str] = Counter()
        self.assignors_preferred: Counter[str] = Counter()
        self.protocols_supported: Counter[str] = Counter()
        """The number of members with the classic protocol that support each protocol, by its name."""
        self.classic_members = 0
        """The number of members that use the classic protocol."""
        self.making: TargetMaking | None = None
        """The next target assignment, while it is made in steps."""
        self._stable: Counter[int] = Counter()
        """The number of members that have exactly their target assignment of an epoch, by this epoch."""
        self.sessions = MemberDeadlines()
        self.revocations = MemberDeadlines()
        """The deadlines by which members have to revoke partitions."""
        self.joins = MemberDeadlines()
        """The deadlines by which members with the classic protocol have to join again."""
        self.syncs = MemberDeadlines()
        """The deadlines by which members with the classic protocol have to send SyncGroup."""
        self.rebalances = new_rebalance_history()
        self.emptied_ms: int | None = None
        """The time at which the last member left; None if that was before this coordinator began, because no record
        tells it."""
        self._on_overdue = on_overdue

    # the interface of every group

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        return "Reconciling" if self.unreconciled else "Stable"

    @property
    def unreconciled(self) -> int:
        """The number of members whose current assignment is not their target assignment."""
        return len(self.members) - self._stable[self.target_epoch]

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def awaits_members(self) -> bool:
        return False  # clients choose their member ids

    @property
    def empty_since_ms(self) -> int | None:
        return None if self.members else self.emptied_ms

    @property
    def deadline(self) -> float:
        return min(self.sessions.deadline, self.revocations.deadline, self.joins.deadline, self.syncs.deadline)

    def on_deadline(self, moment: Moment) -> None:
        self._on_overdue(self, moment)

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        api_version: int,
        *,
        transactional: bool = False,
        partitions: Iterable[TopicPartition] = (),
    ) -> None:
        """Raises KafkaError if this member may not commit offsets of these partitions now.

        A member that does not know its new epoch yet commits with the previous one. This is allowed for partitions that
        it has had since then, because no other member has had them.
        """
        if generation < 0 and not self.members:
            return  # an administrator, or a client that uses the group for its offsets alone
        if transactional and generation < 0 and not member_id and instance_id is None:
            return
        member = self.member(member_id)
        if member.profile.classic is None and api_version < STALE_EPOCH_FROM and not transactional:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"OffsetCommit version {STALE_EPOCH_FROM} or above must be used by members of consumer groups",
            )
        if not _has_had_since(member.current, generation, partitions):
            _check_epoch(member, generation)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        _check_epoch(self.member(member_id or ""), epoch)

    def check_deletable(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"the group {self.group_id} is {self.state}, not empty")

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset(self.names_subscribed).union(
            *(self.patterns.get(pattern, frozenset()) for pattern in self.patterns_subscribed)
        )

    def waiters(self) -> list[Waiter]:
        return []

    def tombstones(self) -> list[GroupRecord]:
        records = [record for member_id in self.members for record in member_tombstones(self.group_id, member_id)]
        records += [pattern_tombstone(self.group_id, pattern) for pattern in self.patterns]
        return [*records, target_epoch_tombstone(self.group_id), epoch_tombstone(self.group_id)]

    # members and partitions

    def member(self, member_id: str) -> ConsumerMember:
        """Returns the member. Raises KafkaError if the group has no such member."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"the group {self.group_id} has no member {member_id}")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return self.members.get(member_id) if member_id is not None else None

    def topic_names_of(self, profile: Profile) -> frozenset[str]:
        """Returns the topics that the member subscribes to. They may not exist."""
        if not profile.topic_pattern:
            return profile.topic_names
        return profile.topic_names | self.patterns.get(profile.topic_pattern, frozenset())

    def is_free_for(self, member_id: str, partition: TopicPartition) -> bool:
        """Returns whether no other member has the partition or has still to revoke it."""
        return self.owners.get(partition, member_id) == member_id

    def preferred_assignor(self, known: tuple[str, ...]) -> str:
        """Returns the known assignor that most members prefer, and the first one in case of a tie."""
        return max(known, key=lambda name: self.assignors_preferred[name])

    # the log

    def apply(self, record: GroupRecord) -> None:
        """Applies a record of the group."""
        key, value = record.key, record.value
        match key:
            case ConsumerGroupMetadataKey():
                self.epoch = value.epoch if value is not None else 0
                self.metadata_hash = value.metadata_hash if value is not None else 0
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.target_epoch = value.assignment_epoch if value is not None else 0
                self.target_made_ms = value.assignment_timestamp if value is not None else 0
            case ConsumerGroupRegularExpressionKey():
                if value is not None:
                    self.patterns[key.regular_expression] = frozenset(value.topics)
                else:
                    self.patterns.pop(key.regular_expression, None)
            case ConsumerGroupMemberMetadataKey():
                if value is not None:
                    self._set_profile(self._member_in_log(key.member_id), profile_from(value))
                elif key.member_id in self.members:
                    self._remove(self.members[key.member_id])
            case ConsumerGroupTargetAssignmentMemberKey():
                if value is not None:
                    self.targets[key.member_id] = partitions_of(value.topic_partitions)
                else:
                    self.targets.pop(key.member_id, None)
            case ConsumerGroupCurrentMemberAssignmentKey():
                if value is not None:
                    self._set_current(self._member_in_log(key.member_id), current_from(value))
                elif key.member_id in self.members:
                    self._set_current(self.members[key.member_id], CurrentAssignment())

    def _member_in_log(self, member_id: str) -> ConsumerMember:
        """Returns the member, or adds it: a compacted log may have its other records before its metadata."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ConsumerMember(member_id)
            self._count_stable(member.current, 1)
            self._count(member.profile, 1)
        return member

    def _set_profile(self, member: ConsumerMember, profile: Profile) -> None:
        self._count(member.profile, -1)
        self._forget_instance(member)
        member.profile = profile
        self._count(profile, 1)
        if profile.instance_id is not None:
            self.static_members[profile.instance_id] = member.member_id

    def _set_current(self, member: ConsumerMember, current: CurrentAssignment) -> None:
        self._release(member)
        self._count_stable(member.current, -1)
        self._count_stable(current, 1)
        member.current = current
        for partitions in (current.assigned, current.revoking):
            self.owners.update(dict.fromkeys(partitions, member.member_id))

    def _remove(self, member: ConsumerMember) -> None:
        self._count(member.profile, -1)
        self._release(member)
        self._forget_instance(member)
        del self.members[member.member_id]
        self._count_stable(member.current, -1)
        self.viewers.pop(member.member_id, None)
        for awaited in (self.sessions, self.revocations, self.joins, self.syncs):
            awaited.clear(member.member_id)

    def _release(self, member: ConsumerMember) -> None:
        for partitions in (member.current.assigned, member.current.revoking):
            for partition in partitions:
                if self.owners.get(partition) == member.member_id:
                    del self.owners[partition]

    def _forget_instance(self, member: ConsumerMember) -> None:
        """Removes the instance id of the member, unless another member has taken its place."""
        instance_id = member.profile.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _count_stable(self, current: CurrentAssignment, change: int) -> None:
        if current.state is MemberState.STABLE:
            _add(self._stable, (current.epoch,), change)

    def _count(self, profile: Profile, change: int) -> None:
        self.bytes_held += change * profile.bytes_held
        _add(self.names_subscribed, profile.topic_names, change)
        if profile.topic_pattern:
            _add(self.patterns_subscribed, (profile.topic_pattern,), change)
        if profile.assignor is not None:
            _add(self.assignors_preferred, (profile.assignor,), change)
        if profile.classic is not None:
            self.classic_members += change
            _add(self.protocols_supported, {name for name, _ in profile.classic.protocols}, change)


def _add(counter: Counter[T], keys: Iterable[T], change: int) -> None:
    for key in keys:
        counter[key] += change
        if not counter[key]:
            del counter[key]


def _has_had_since(current: CurrentAssignment, epoch: int, partitions: Iterable[TopicPartition]) -> bool:
    """Returns whether there are partitions, and the member has had all of them since this epoch or longer."""
    since = [current.assigned.get(each, current.revoking.get(each, math.inf)) for each in partitions]
    return bool(since) and max(since) <= epoch <= current.epoch


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    expected = member.current.epoch
    if epoch == expected:
        return
    if member.profile.classic is not None:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"the generation of the member is {expected}, not {epoch}")
    raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH, f"the member epoch is {expected}, not {epoch}")
