"""Divides the partitions of topics among the members of a group, as Kafka's assignor `range` does.

The coordinator divides by topic id, and `tailrace consume --group` by topic name.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

Topic = TypeVar("Topic")


def range_shares(
    members: Sequence[tuple[str, Collection[Topic]]], partition_counts: Mapping[Topic, int]
) -> dict[str, dict[Topic, range]]:
    """Returns neighbouring ranges of each topic for the members that subscribe to it.

    Takes the members with their topics, in order.
    """
    shares: dict[str, dict[Topic, range]] = {member: {} for member, _ in members}
    for topic, count in partition_counts.items():
        subscribers = [member for member, topics in members if topic in topics]
        for member, numbers in zip(subscribers, even_ranges(count, len(subscribers)), strict=True):
            shares[member][topic] = numbers
    return shares


def even_ranges(count: int, takers: int) -> Iterator[range]:
    """Divides the partitions of one topic into a range for each taker.

    The first takers get one partition more if the partitions cannot be divided evenly.
    """
    start = 0
    for index in range(takers):
        end = start + count // takers + (index < count % takers)
        yield range(start, end)
        start = end
