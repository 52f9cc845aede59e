"""What an assignor is: from who subscribes to what, to who shall have which partitions.

It is a function of what it is given, so that it can be tested alone, and so that a decision that was lost with its
coordinator is made again as it was.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tailrace.protocol.ids import TopicId

from .assignments import NO_PARTITIONS, Partitions


class Subscriber(NamedTuple):
    """A member, as far as it matters to who gets what."""

    member_id: str
    topics: frozenset[TopicId]
    """Those that exist, of those it subscribes to."""
    assigned: Partitions = NO_PARTITIONS
    """What the assignment before this one gave it."""
    instance_id: str | None = None
    held: Partitions = NO_PARTITIONS
    """What it has by now, or has not given up yet, whatever it was to have."""


Assignor = Callable[[Sequence[Subscriber], Mapping[TopicId, int]], dict[str, Partitions]]
"""Takes all members, and how many partitions each of their topics has; returns what each member shall have. Every
partition that anybody subscribes to goes to exactly one of its subscribers."""
