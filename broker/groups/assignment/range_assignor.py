"""The assignor "range": of each topic, every subscriber gets one stretch of neighbouring partitions.

Members stand in one order for all topics, so where topics have equally many partitions and equal subscribers, whoever
has a partition of one has that of the others too: records of the same key meet in one member. Static members stand
first, by their instance ids: they keep their stretches when they come back under another member id.
"""

from collections.abc import Mapping, Sequence

from tailrace.protocol.ids import TopicId

from .assignments import Partitions, TopicPartition
from .assignor import Subscriber


def assign_ranges(subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]) -> dict[str, Partitions]:
    in_order = sorted(subscribers, key=_place)
    shares: dict[str, list[TopicPartition]] = {subscriber.member_id: [] for subscriber in in_order}
    for topic_id, count in partition_counts.items():
        of_topic = [subscriber.member_id for subscriber in in_order if topic_id in subscriber.topics]
        if not of_topic:
            continue
        quota, larger = divmod(count, len(of_topic))
        start = 0
        for index, member_id in enumerate(of_topic):
            end = start + quota + (index < larger)
            shares[member_id] += [TopicPartition(topic_id, partition) for partition in range(start, end)]
            start = end
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _place(subscriber: Subscriber) -> tuple[bool, str]:
    if subscriber.instance_id is not None:
        return False, subscriber.instance_id
    return True, subscriber.member_id
