"""The assignor "range", which gives each subscriber a range of partitions of each topic.

Members have one order for all topics. If topics have the same number of partitions and the same subscribers, a member
therefore gets the same partition numbers of each topic, and records with the same key meet in one member. Static
members come first, in the order of their instance ids, so that they keep their ranges when they return with another
member id.
"""

from collections.abc import Mapping, Sequence

from tailrace.cluster.range_shares import even_ranges
from tailrace.protocol.ids import TopicId

from .assignment_steps import Steps, sort_in_steps
from .assignments import Partitions, TopicPartition
from .assignor import Subscriber


def assign_ranges(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]
) -> Steps[dict[str, Partitions]]:
    in_order = yield from sort_in_steps(subscribers, _order)
    shares: dict[str, list[TopicPartition]] = {}
    for subscriber in in_order:
        shares[subscriber.member_id] = []
        yield 1
    for topic_id, count in partition_counts.items():
        takers = []
        for subscriber in in_order:
            if topic_id in subscriber.topics:
                takers.append(subscriber.member_id)
            yield 1
        for member_id, numbers in zip(takers, even_ranges(count, len(takers)), strict=True):
            shares[member_id] += [TopicPartition(topic_id, number) for number in numbers]
            yield 1 + len(numbers)
    assignment = {}
    for member_id, share in shares.items():
        assignment[member_id] = frozenset(share)
        yield 1 + len(share)
    return assignment


def _order(subscriber: Subscriber) -> tuple[bool, str]:
    if subscriber.instance_id is not None:
        return False, subscriber.instance_id
    return True, subscriber.member_id
