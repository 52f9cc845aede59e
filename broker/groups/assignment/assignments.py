"""Partitions that members of consumer groups have, as sets: what is decided about them is set algebra.

On the wire and in records they are listed by topic; only the edges know that.
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


class Listed(Protocol):
    """How messages name the partitions of one topic."""

    topic_id: TopicId
    partitions: list[int]


def partitions_of(listed: Iterable[Listed]) -> Partitions:
    return frozenset(TopicPartition(topic.topic_id, partition) for topic in listed for partition in topic.partitions)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[TopicId, list[int]]:
    """In an order that depends on nothing but the partitions, so that equal sets are written as equal bytes."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return topics


def listed(partitions: Iterable[TopicPartition], make: Callable[[TopicId, list[int]], T]) -> list[T]:
    return [make(topic_id, numbers) for topic_id, numbers in by_topic(partitions).items()]
