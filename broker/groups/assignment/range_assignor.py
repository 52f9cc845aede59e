"""The assignor "range", which gives each subscriber a range of partitions of each topic.

Members have one order for all topics. If topics have the same number of partitions and the same subscribers, a member
therefore gets the same partition numbers of each topic, and records with the same key meet in one member. Static
members come first, in the order of their instance ids, so that they keep their ranges when they return with another
member id.
"""

from collections.abc import Mapping, Sequence

from tailrace.protocol.ids import TopicId

from .assignments import Partitions, TopicPartition
from .assignor import Subscriber


def assign_ranges(subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]) -> dict[str, Partitions]:
    in_order = sorted(subscribers, key=_order)
    shares: dict[str, list[TopicPartition]] = {subscriber.member_id: [] for subscriber in in_order}
    for topic_id, count in partition_counts.items():
        topic_subscribers = [subscriber.member_id for subscriber in in_order if topic_id in subscriber.topics]
        if not topic_subscribers:
            continue
        quota, larger = divmod(count, len(topic_subscribers))
        start = 0
        for index, member_id in enumerate(topic_subscribers):
            end = start + quota + (index < larger)
            shares[member_id] += [TopicPartition(topic_id, partition) for partition in range(start, end)]
            start = end
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _order(subscriber: Subscriber) -> tuple[bool, str]:
    if subscriber.instance_id is not None:
        return False, subscriber.instance_id
    return True, subscriber.member_id
