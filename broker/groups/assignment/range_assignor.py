"""The assignor "range", which gives each subscriber a range of partitions of each topic.

Members have one order for all topics. If topics have the same number of partitions and the same subscribers, a member
therefore gets the same partition numbers of each topic, and records with the same key meet in one member. Static
members come first, in the order of their instance ids, so that they keep their ranges when they return with another
member id.
"""

from collections.abc import Mapping, Sequence

from tailrace.cluster.range_shares import range_shares
from tailrace.protocol.ids import TopicId

from .assignments import Partitions, TopicPartition
from .assignor import Subscriber


def assign_ranges(subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]) -> dict[str, Partitions]:
    in_order = [(each.member_id, each.topics) for each in sorted(subscribers, key=_order)]
    shares = range_shares(in_order, partition_counts)
    return {
        member_id: frozenset(
            TopicPartition(topic_id, number) for topic_id, numbers in share.items() for number in numbers
        )
        for member_id, share in shares.items()
    }


def _order(subscriber: Subscriber) -> tuple[bool, str]:
    if subscriber.instance_id is not None:
        return False, subscriber.instance_id
    return True, subscriber.member_id
