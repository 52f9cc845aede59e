"""Divides the partitions of topics among the members of a group, as Kafka's assignor `range` does.

The coordinator divides by topic id, and `tailrace consume --group` by topic name.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

Topic = TypeVar("Topic")


def range_shares(
    members: Sequence[tuple[str, Collection[Topic]]], partition_counts: Mapping[Topic, int]
) -> dict[str, dict[Topic, range]]:
    """Returns neighbouring ranges of each topic for the members that subscribe to it.

    Takes the members with their topics, in order: the first ones get one partition more if the partitions of a topic
    cannot be divided evenly.
    """
    shares: dict[str, dict[Topic, range]] = {member: {} for member, _ in members}
    for topic, count in partition_counts.items():
        subscribers = [member for member, topics in members if topic in topics]
        if not subscribers:
            continue
        quota, larger = divmod(count, len(subscribers))
        start = 0
        for index, member in enumerate(subscribers):
            end = start + quota + (index < larger)
            shares[member][topic] = range(start, end)
            start = end
    return shares
