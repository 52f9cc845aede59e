"""The assignor "uniform", which makes shares equal and moves few partitions.

If all members subscribe to the same topics, the sizes of their shares differ by at most one, and no other assignment
with such sizes moves fewer partitions. If subscriptions differ, some shares may have to be larger. Then neither moving
a partition nor a chain of moves from member to member could make two shares more equal.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from tailrace.protocol.ids import TopicId

from .assignments import Partitions, TopicPartition
from .assignor import Subscriber


class _Hop(NamedTuple):
    """A possible move of one partition of this topic from one member to another."""

    giver: str
    topic_id: TopicId
    taker: str


def assign_uniformly(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]
) -> dict[str, Partitions]:
    in_order = sorted(subscribers, key=attrgetter("member_id"))
    shares = {subscriber.member_id: _kept(subscriber, partition_counts) for subscriber in in_order}
    different_topics = {subscriber.topics for subscriber in in_order}
    subscribed = partition_counts.keys() & frozenset[TopicId]().union(*different_topics)
    assigned = {partition for share in shares.values() for partition in share}
    unassigned = [
        place
        for topic_id in sorted(subscribed)
        for partition in range(partition_counts[topic_id])
        if (place := TopicPartition(topic_id, partition)) not in assigned
    ]
    if len(different_topics) <= 1:
        _even_out(shares, unassigned, in_order)
        return {member_id: frozenset(share) for member_id, share in shares.items()}
    uneven = _UnevenShares(in_order, shares)
    uneven.distribute(unassigned)
    uneven.even_out()
    return uneven.shares()


def _kept(subscriber: Subscriber, partition_counts: Mapping[TopicId, int]) -> list[TopicPartition]:
    """Returns the assigned partitions that the member may keep, with those that it already has first."""
    if not subscriber.assigned:
        return []
    kept = (
        partition
        for partition in subscriber.assigned
        if partition.topic_id in subscriber.topics and partition.partition < partition_counts.get(partition.topic_id, 0)
    )
    return sorted(kept, key=lambda partition: (partition not in subscriber.held, partition))


def _even_out(
    shares: dict[str, list[TopicPartition]], free: list[TopicPartition], subscribers: Sequence[Subscriber]
) -> None:
    """Makes the shares equal if each member may have each partition.

    If the sizes cannot be equal, the members with the most partitions keep the shares that are larger by one.
    """
    if not shares:
        return
    quota, larger = divmod(sum(map(len, shares.values())) + len(free), len(shares))
    sizes = {}
    for index, member_id in enumerate(sorted(shares, key=lambda member_id: -len(shares[member_id]))):
        size = sizes[member_id] = quota + (index < larger)
        free += shares[member_id][size:]
        del shares[member_id][size:]
    free = _return_to_holders(shares, sizes, free, subscribers)
    with_room = deque(member_id for member_id in shares if len(shares[member_id]) < sizes[member_id])
    for partition in free:  # each member in turn gets one, so that the partitions of a topic are spread
        member_id = with_room.popleft()
        shares[member_id].append(partition)
        if len(shares[member_id]) < sizes[member_id]:
            with_room.append(member_id)


def _return_to_holders(
    shares: dict[str, list[TopicPartition]],
    sizes: Mapping[str, int],
    free: Iterable[TopicPartition],
    subscribers: Iterable[Subscriber],
) -> list[TopicPartition]:
    """Gives free partitions to members that still hold them, as far as their sizes allow. Returns the rest.

    Such a member had to revoke the partition for a member that has left.
    """
    holders = {partition: subscriber.member_id for subscriber in subscribers for partition in subscriber.held}
    others = []
    for partition in free:
        holder = holders.get(partition)
        if holder is not None and len(shares[holder]) < sizes[holder]:
            shares[holder].append(partition)
        else:
            others.append(partition)
    return others


class _UnevenShares:
    """The shares of members whose subscriptions differ."""

    def __init__(self, subscribers: Sequence[Subscriber], shares: Mapping[str, list[TopicPartition]]) -> None:
        self._subscribers: dict[TopicId, list[str]] = {}
        """The member ids of the subscribers of each topic."""
        for subscriber in subscribers:
            for topic_id in subscriber.topics:
                self._subscribers.setdefault(topic_id, []).append(subscriber.member_id)
        self._sizes = {member_id: len(share) for member_id, share in shares.items()}
        self._by_topic: dict[str, dict[TopicId, list[TopicPartition]]] = {}
        """The share of each member, by topic."""
        for member_id, share in shares.items():
            topics = self._by_topic[member_id] = {}
            for partition in share:
                topics.setdefault(partition.topic_id, []).append(partition)

    def shares(self) -> dict[str, Partitions]:
        return {
            member_id: frozenset(partition for partitions in topics.values() for partition in partitions)
            for member_id, topics in self._by_topic.items()
        }

    def distribute(self, free: Iterable[TopicPartition]) -> None:
        """Gives each partition to the subscriber with the smallest share.

        Topics with the fewest subscribers come first.
        """
        topics: dict[TopicId, list[TopicPartition]] = {}
        for partition in free:
            topics.setdefault(partition.topic_id, []).append(partition)
        for topic_id in sorted(topics, key=lambda topic_id: len(self._subscribers[topic_id])):
            smallest = [(self._sizes[member_id], member_id) for member_id in self._subscribers[topic_id]]
            heapq.heapify(smallest)
            for partition in topics[topic_id]:
                size, member_id = smallest[0]
                self._by_topic[member_id].setdefault(topic_id, []).append(partition)
                self._sizes[member_id] = size + 1
                heapq.heapreplace(smallest, (size + 1, member_id))

    def even_out(self) -> None:
        """Moves partitions from larger to smaller shares until no move would make two shares more equal."""
        changed = True
        while changed:
            changed = False
            for member_id in sorted(self._sizes, key=lambda member_id: -self._sizes[member_id]):
                while hops := self._path_to_smaller(member_id):
                    self._move(hops)
                    changed = True

    def _path_to_smaller(self, start: str) -> list[_Hop]:
        """Returns the shortest path from a member to the smallest share that is smaller by at least two, or no hops."""
        enough = min(self._sizes.values())
        best, best_size = "", self._sizes[start] - 1
        arrived: dict[str, _Hop | None] = {start: None}
        topics_seen: set[TopicId] = set()
        reached = deque([start])
        while reached and best_size > enough:
            giver = reached.popleft()
            for topic_id, partitions in self._by_topic[giver].items():
                if topic_id in topics_seen or not partitions:
                    continue
                topics_seen.add(topic_id)
                for taker in self._subscribers[topic_id]:
                    if taker not in arrived:
                        arrived[taker] = _Hop(giver, topic_id, taker)
                        reached.append(taker)
                        if self._sizes[taker] < best_size:
                            best, best_size = taker, self._sizes[taker]
        hops = []
        hop = arrived.get(best)
        while hop is not None:
            hops.append(hop)
            hop = arrived[hop.giver]
        return hops

    def _move(self, hops: list[_Hop]) -> None:
        for hop in hops:
            partition = self._by_topic[hop.giver][hop.topic_id].pop()
            self._by_topic[hop.taker].setdefault(hop.topic_id, []).append(partition)
        self._sizes[hops[0].taker] += 1
        self._sizes[hops[-1].giver] -= 1
