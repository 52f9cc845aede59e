"""The interface of assignors, which distribute partitions over the members of a group.

An assignor is a pure function. It can be tested alone, and if an assignment is lost with its coordinator, the next
coordinator makes the same assignment again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tailrace.protocol.ids import TopicId

from .assignment_steps import Steps
from .assignments import NO_PARTITIONS, Partitions


class Subscriber(NamedTuple):
    """A member, as far as assignors need to know it."""

    member_id: str
    topics: frozenset[TopicId]
    """The existing topics that the member subscribes to."""
    assigned: Partitions = NO_PARTITIONS
    """The partitions that the previous assignment gave the member."""
    instance_id: str | None = None
    held: Partitions = NO_PARTITIONS
    """The partitions that the member has now, including those that it has not revoked yet."""


Assignor = Callable[[Sequence[Subscriber], Mapping[TopicId, int]], Steps[dict[str, Partitions]]]
"""Takes all members and the number of partitions of each topic, and returns the partitions of each member, in steps.

Each partition of a topic with subscribers goes to exactly one of them, even if the previous assignment gave it to two.
"""
