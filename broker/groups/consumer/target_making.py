"""Makes the target assignment of a consumer group in small steps, while the group may change.

The targets are made from the members, topics and targets at the beginning. A change of the group meanwhile raises its
epoch, so that another target assignment follows. Three rules hold in spite of changes: no partition is in the targets
of two members, a member that has left gets no target, and a static member that has got another member id gets the
target of the member whose place it took.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TypeAlias

from tailrace.broker.groups.assignment.assignment_steps import Steps
from tailrace.broker.groups.assignment.assignments import NO_PARTITIONS, Partitions
from tailrace.broker.groups.assignment.assignor import Assignor, Subscriber
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.ids import TopicId

from .consumer_member import ConsumerMember, Profile

ChangedTargets: TypeAlias = list[tuple[str, Partitions]]


class TargetMaking:
    """A target assignment that is made in the steps of `make_targets`."""

    def __init__(self, epoch: int, member_ids: Container[str], steps: Steps[ChangedTargets]) -> None:
        """Takes the group epoch and the members at the beginning, and the steps."""
        self.epoch = epoch
        """The group epoch for which the targets are made."""
        self.later_cause: str | None = None
        """The cause of the first change of the group after the beginning."""
        self._member_ids = member_ids
        self._steps = steps
        self._changed: ChangedTargets | None = None
        self._successors: dict[str, str] = {}
        """The present member ids of replaced static members, by their member ids at the beginning."""
        self._origins: dict[str, str] = {}
        """The member ids at the beginning, by the present member ids: the inverse of `_successors`."""

    @property
    def is_finished(self) -> bool:
        return self._changed is not None

    def go_on(self, items: int) -> int:
        """Handles about so many items, unless the work ends earlier. Returns how many it has handled."""
        done = 0
        while done < items:
            try:
                done += next(self._steps)
            except StopIteration as end:
                self._changed = end.value
                break
        return done

    def on_replaced(self, old: str, new: str) -> None:
        """Notes that a static member has another member id, with the target that it had."""
        origin = self._origins.pop(old, None)
        if origin is None:
            if old not in self._member_ids or old in self._successors:
                return  # the member has come later, perhaps with the id of one that was replaced; it has no target
            origin = old
        self._successors[origin] = new
        self._origins[new] = origin

    def changed_targets(self) -> ChangedTargets:
        """Returns the new targets by the present member ids. Some members may have left."""
        assert self._changed is not None
        return [(self._successors.get(member_id, member_id), target) for member_id, target in self._changed]


def make_targets(
    members: Mapping[str, ConsumerMember],
    targets: Mapping[str, Partitions],
    topics: Iterable[TopicSpec],
    topic_names_of: Callable[[Profile], frozenset[str]],
    assign: Assignor,
) -> Steps[ChangedTargets]:
    """Returns the targets that differ from those before, in steps.

    The members and the targets are mappings by member id that nothing else changes. The members themselves may change.
    """
    by_name = {topic.name: topic for topic in topics}
    topic_ids: dict[tuple[frozenset[str], str], frozenset[TopicId]] = {}
    subscribers = []
    for member in members.values():
        profile = member.profile
        subscription = profile.topic_names, profile.topic_pattern
        if subscription not in topic_ids:
            names = topic_names_of(profile)
            topic_ids[subscription] = frozenset(by_name[name].id for name in names if name in by_name)
            yield len(names)
        target = targets.get(member.member_id, NO_PARTITIONS)
        subscribers.append(
            Subscriber(member.member_id, topic_ids[subscription], target, profile.instance_id, member.current.held)
        )
        yield 1
    counts = {topic.id: len(topic.partitions) for topic in by_name.values()}
    assignment = yield from assign(subscribers, counts)
    changed = []
    for member_id, target in assignment.items():
        if target != targets.get(member_id, NO_PARTITIONS):
            changed.append((member_id, target))
        yield 1
    return changed
