"""One change of a consumer group: it writes records and applies them to the group.

Every event of a member takes the same four steps, and each step writes only what has changed. The profile of the member
is stored. The group epoch rises if subscriptions or topics have changed. If the epoch has risen, new targets are made.
Finally the member is reconciled with its target.
"""

from collections import deque
from collections.abc import Sequence, Set
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.assignment.assignments import NO_PARTITIONS, Partitions
from tailrace.broker.groups.assignment.assignors import ASSIGNORS
from tailrace.broker.groups.assignment.subscriptions import TopicPatterns, existing, fingerprint
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.group import TopicViewer
from tailrace.broker.groups.common.group_output import GroupOutput
from tailrace.broker.groups.common.group_settings import UNLIMITED, GroupSettings
from tailrace.broker.groups.common.rebalances import EXPECTED_MAX, Rebalance
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.ids import TopicId

from .consumer_group import ConsumerGroup
from .consumer_member import LEFT_FOR_NOW, ConsumerMember, CurrentAssignment, MemberState, Profile
from .consumer_records import (
    current_record,
    epoch_record,
    member_tombstones,
    pattern_record,
    pattern_tombstone,
    profile_record,
    target_epoch_record,
    target_record,
)
from .reconciliation import reconcile
from .target_making import TargetMaking, make_targets

FIRST_EPOCH = 1
"""The first epoch of a group."""
SMALL_MAX = 1_000
"""A group with at most this many members and partitions together gets its targets at once."""
ITEMS_AT_ONCE = 10_000
"""How many items are handled at once for a small group. Very different subscriptions may need more than that."""


class ConsumerChange(Struct, frozen=True):
    group: ConsumerGroup
    settings: GroupSettings
    cluster: Cluster
    patterns: TopicPatterns
    output: GroupOutput
    moment: Moment
    assigning: deque[ConsumerGroup]
    """The groups whose target assignments are made in steps."""

    def write(self, record: GroupRecord) -> None:
        """Appends the record and applies it to the group."""
        self.output.append(record)
        self.group.apply(record)

    # members

    def update_member(
        self,
        member_id: str,
        profile: Profile,
        owned: Partitions | None,
        *,
        is_late: bool = False,
        viewer: TopicViewer | None = None,
    ) -> ConsumerMember:
        """Handles the heartbeat of a member, which may be new, with its profile and the partitions that it owns.

        `is_late` means that the member does not know its epoch. Perhaps our response was lost; it is then sent again.
        Perhaps the heartbeat was delayed and reports an old state; the member is then not reconciled until it reports
        its current state. `viewer` says which topics the member may see; None stands for all.
        """
        group = self.group
        group.viewers[member_id] = viewer
        known = group.members.get(member_id)
        before = known.profile if known is not None else Profile()
        if known is None or profile != before:
            self.write(profile_record(group.group_id, member_id, profile))
        member = group.members[member_id]
        changed = not profile.subscribes_as(before)
        cause = None
        if changed:
            cause = member.participant.name + (" joined" if known is None else " subscribed to other topics")
        self.refresh(cause, 0 if viewer is None else viewer.version)
        if changed or not (is_late or member.current.is_reconciled_to(group.target_epoch)):
            self._reconcile(member, owned)
        self.start_session(member)
        return member

    def start_session(self, member: ConsumerMember) -> None:
        classic = member.profile.classic
        timeout_ms = self.settings.consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
        self.group.sessions.set(member.member_id, self.moment.now + timeout_ms / 1000)

    def replace_static(self, old: ConsumerMember, member_id: str) -> None:
        """Gives the target of a static member to its new member id. The new member has no partitions yet."""
        group_id = self.group.group_id
        target = self.group.targets.get(old.member_id, NO_PARTITIONS)
        if self.group.making is not None:
            self.group.making.on_replaced(old.member_id, member_id)
        for record in member_tombstones(group_id, old.member_id):
            self.write(record)
        self.write(profile_record(group_id, member_id, old.profile))
        self.write(target_record(group_id, member_id, target))

    def leave_for_now(self, member: ConsumerMember) -> None:
        """Lets a static member leave for a while. It keeps its partitions, except those that it had to revoke."""
        self._set_current(member, replace(member.current, epoch=LEFT_FOR_NOW, state=MemberState.STABLE, revoking={}))

    def remove(self, members: Sequence[ConsumerMember], why: str) -> None:
        """Removes members. `why` follows the name of the member in the cause of the rebalance: "left"."""
        for member in members:
            if self.group.rebalances:
                self.group.rebalances[-1].on_departure(member.participant, why, self.moment.now)
            for record in member_tombstones(self.group.group_id, member.member_id):
                self.write(record)
        self.group.emptied_ms = self.moment.now_ms
        others = f", and {len(members) - 1} more" if len(members) > 1 else ""
        self.update_topics(f"{members[0].participant.name} {why}{others}")

    # the group

    def refresh(self, cause: str | None = None, viewers_version: int = 0) -> None:
        """Looks at the topics if they have changed or there is a cause, and makes an assignment if one is due.

        Also looks at the topics if a member that subscribes to a pattern may see other topics than before.
        """
        group = self.group
        sees_others = bool(group.patterns_subscribed) and group.viewers_version < viewers_version
        group.viewers_version = max(group.viewers_version, viewers_version)  # members that see all have no version
        if cause is not None or group.epoch == 0 or sees_others or group.topics_version != self.cluster.topics_version:
            self.update_topics(cause)
        if group.epoch > group.target_epoch and group.making is None and group.members and self._may_assign():
            self.assign()

    def update_topics(self, cause: str | None) -> None:
        """Raises the group epoch if there is a cause, or if the topics have changed."""
        group = self.group
        group.topics_version = self.cluster.topics_version
        viewers = self._known_viewers()
        for pattern in group.patterns_subscribed:
            before = group.patterns.get(pattern)
            names = self._matches(pattern, viewers.get(pattern, frozenset()))
            if names != before:
                version = self.cluster.topics_version
                self.write(pattern_record(group.group_id, pattern, names, version, self.moment.now_ms))
                if cause is None and before is not None:  # others may subscribe to the same topics by name
                    cause = "the topics it subscribes to have changed"
        for pattern in group.patterns.keys() - group.patterns_subscribed.keys():
            self.write(pattern_tombstone(group.group_id, pattern))
        metadata_hash = fingerprint(self._topics(group.subscribed_topics()))
        if cause is None and metadata_hash != group.metadata_hash:
            cause = "the topics it subscribes to have changed"
        if cause is not None:
            self.write(epoch_record(group.group_id, max(group.epoch, FIRST_EPOCH) + 1, metadata_hash))
            self._begin_rebalance(cause)
        elif group.epoch == 0:
            self.write(epoch_record(group.group_id, FIRST_EPOCH, metadata_hash))

    def _known_viewers(self) -> dict[str, set[TopicViewer | None]]:
        """Returns what the members that subscribe to each pattern may see, as far as this coordinator knows it."""
        group = self.group
        viewers: dict[str, set[TopicViewer | None]] = {}
        if group.patterns_subscribed:
            for member_id, viewer in group.viewers.items():
                member = group.members.get(member_id)
                if member is not None and member.profile.topic_pattern:
                    viewers.setdefault(member.profile.topic_pattern, set()).add(viewer)
        return viewers

    def _matches(self, pattern: str, viewers: Set[TopicViewer | None]) -> frozenset[str]:
        """Returns the topics that match a pattern and that all members which subscribe to it may see.

        A new coordinator does not know what the members may see until they have sent heartbeats. So it begins with the
        topics of the coordinator before.
        """
        group = self.group
        if not viewers and pattern in group.patterns:
            return group.patterns[pattern] & frozenset(self.cluster.topics)
        names = self.patterns.matches(pattern)
        for viewer in viewers:
            if viewer is not None:
                names = frozenset(filter(viewer.may_describe, names))
        return names

    def assign(self) -> None:
        """Makes the target assignment for the current group epoch, or begins to make it if the group is large."""
        group = self.group
        topics = self._topics(group.subscribed_topics())
        assignor = ASSIGNORS[group.preferred_assignor(self.settings.consumer_assignors)]
        members = dict(group.members)
        steps = make_targets(members, dict(group.targets), topics, group.topic_names_of, assignor)
        group.making = TargetMaking(group.epoch, members, steps)
        if group.target_epoch == 0 or len(members) == 1:
            self.go_on_assigning(UNLIMITED)  # a member must not wait for the first epoch
        elif len(members) + sum(len(topic.partitions) for topic in topics) <= SMALL_MAX:
            self.go_on_assigning(ITEMS_AT_ONCE)
        if group.making is not None:
            self.assigning.append(group)

    def go_on_assigning(self, items: int) -> int:
        """Handles about so many items of the target assignment that is made. Returns how many it has handled."""
        group = self.group
        making = group.making
        assert making is not None, "the caller looks for groups that are making targets"
        done = making.go_on(items)
        if making.is_finished:
            group.making = None
            if group.members:
                self._set_targets(making)
        return done

    def _set_targets(self, making: TargetMaking) -> None:
        group = self.group
        for member_id, target in making.changed_targets():
            if member_id in group.members:
                self.write(target_record(group.group_id, member_id, target))
        self.write(target_epoch_record(group.group_id, making.epoch, self.moment.now_ms))
        self.output.counts.group_rebalances += 1
        if group.rebalances:
            group.rebalances[-1].generation = making.epoch
        if making.later_cause is not None:
            self._begin_rebalance(making.later_cause)

    def _may_assign(self) -> bool:
        """Returns whether the assignment interval has passed, or the group has one member.

        With the interval, many members that join at about the same time need few assignments.
        """
        since_ms = self.moment.now_ms - self.group.target_made_ms
        return len(self.group.members) == 1 or not 0 <= since_ms < self.settings.consumer_assignment_interval_ms

    def _topics(self, names: frozenset[str]) -> list[TopicSpec]:
        return existing(names, self.cluster.topics)

    def _topic_ids(self, profile: Profile) -> frozenset[TopicId]:
        return frozenset(topic.id for topic in self._topics(self.group.topic_names_of(profile)))

    # one member

    def _reconcile(self, member: ConsumerMember, owned: Partitions | None) -> None:
        group = self.group
        target = group.targets.get(member.member_id, NO_PARTITIONS)
        if group.epoch > group.target_epoch:  # the target may be for an earlier subscription
            topics = self._topic_ids(member.profile)
            target = frozenset(partition for partition in target if partition.topic_id in topics)
        current = reconcile(
            member.current,
            target=target,
            target_epoch=group.target_epoch,
            owned=owned,
            is_free=lambda partition: group.is_free_for(member.member_id, partition),
            subscribed=lambda: self._topic_ids(member.profile),
        )
        self._set_current(member, current)

    def _set_current(self, member: ConsumerMember, current: CurrentAssignment) -> None:
        group = self.group
        if current == member.current:
            return
        self.write(current_record(group.group_id, member.member_id, current))
        if current.state is MemberState.UNREVOKED_PARTITIONS and member.profile.classic is None:
            seconds = max(member.profile.rebalance_timeout_ms, 0) / 1000
            group.revocations.set(member.member_id, self.moment.now + seconds)
        else:
            group.revocations.clear(member.member_id)
        if current.is_reconciled_to(group.target_epoch):
            self._on_arrival(member)

    # the history of rebalances

    def _begin_rebalance(self, cause: str) -> None:
        """Begins a rebalance, unless one still waits for its targets: the next targets are for both causes.

        While targets are made, they are not for this cause. The rebalance then begins when they are finished.
        """
        rebalances, making = self.group.rebalances, self.group.making
        if making is not None:
            making.later_cause = making.later_cause or cause
        elif not rebalances or rebalances[-1].generation is not None:
            members = islice(self.group.members.values(), EXPECTED_MAX)
            expected = {member.member_id: member.participant for member in members}
            rebalances.append(Rebalance(cause, self.moment.now, self.moment.now_ms, expected))

    def _on_arrival(self, member: ConsumerMember) -> None:
        rebalance = self.group.rebalances[-1] if self.group.rebalances else None
        if rebalance is None or rebalance.generation != self.group.target_epoch or rebalance.ended_ms is not None:
            return
        rebalance.on_arrival(member.participant, self.moment.now)
        if not self.group.unreconciled:
            rebalance.ended_ms = self.moment.now_ms
