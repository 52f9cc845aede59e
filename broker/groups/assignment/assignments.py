"""The partitions of members as sets, and their conversion to lists by topic.

Decisions about partitions are set algebra. Messages and records list partitions by topic instead, so both are converted
where they come in and go out.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

from tailrace.protocol.ids import TopicId

T = TypeVar("T")


class TopicPartition(NamedTuple):
    topic_id: TopicId
    partition: int


Partitions = frozenset[TopicPartition]
NO_PARTITIONS: Partitions = frozenset()


class TopicPartitionList(Protocol):
    """The form in which messages name the partitions of one topic."""

    topic_id: TopicId
    partitions: list[int]


def partitions_of(listed: Iterable[TopicPartitionList]) -> Partitions:
    return frozenset(TopicPartition(topic.topic_id, partition) for topic in listed for partition in topic.partitions)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[TopicId, list[int]]:
    """Groups the partitions by topic, in sorted order, so that equal sets are written as equal bytes."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return topics


def listed(partitions: Iterable[TopicPartition], make: Callable[[TopicId, list[int]], T]) -> list[T]:
    """Calls `make` with each topic and its partitions, and returns the results in sorted order."""
    return [make(topic_id, numbers) for topic_id, numbers in by_topic(partitions).items()]
