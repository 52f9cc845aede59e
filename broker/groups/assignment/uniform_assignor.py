"""The assignor "uniform", which makes shares equal and moves few partitions.

If all members subscribe to the same topics, the sizes of their shares differ by at most one, and no other assignment
with such sizes moves fewer partitions. If subscriptions differ, some shares may have to be larger. Then neither moving
a partition nor a chain of moves from member to member could make two shares more equal.
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from tailrace.protocol.ids import TopicId

from .assignment_steps import Steps, sort_in_steps
from .assignments import Partitions, TopicPartition
from .assignor import Subscriber


class _Hop(NamedTuple):
    """A possible move of one partition of this topic from one member to another."""

    giver: str
    topic_id: TopicId
    taker: str


def assign_uniformly(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]
) -> Steps[dict[str, Partitions]]:
    in_order = yield from sort_in_steps(subscribers, attrgetter("member_id"))
    shares: dict[str, list[TopicPartition]] = {}
    assigned: set[TopicPartition] = set()
    different_topics: set[frozenset[TopicId]] = set()
    for subscriber in in_order:
        kept = _kept(subscriber, partition_counts)
        if not assigned.isdisjoint(kept):  # only after a corrupt batch of the coordinator's log was skipped
            kept = [partition for partition in kept if partition not in assigned]
        shares[subscriber.member_id] = kept
        assigned.update(kept)
        different_topics.add(subscriber.topics)
        yield 1 + len(subscriber.assigned)
    subscribed: set[TopicId] = set()
    for topics in different_topics:
        subscribed |= topics
        yield 1 + len(topics)
    sorted_topics = yield from sort_in_steps(partition_counts.keys() & subscribed, attrgetter("int"))
    unassigned = []
    for topic_id in sorted_topics:
        for number in range(partition_counts[topic_id]):
            partition = TopicPartition(topic_id, number)
            if partition not in assigned:
                unassigned.append(partition)
            yield 1
    if len(different_topics) <= 1:
        yield from _even_out(shares, len(assigned), unassigned, in_order)
        return (yield from _frozen(shares))
    uneven = _UnevenShares(shares)
    yield from uneven.learn(in_order)
    yield from uneven.distribute(unassigned)
    yield from uneven.even_out()
    return (yield from uneven.frozen())


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


def _frozen(shares: Mapping[str, Sequence[TopicPartition]]) -> Steps[dict[str, Partitions]]:
    assignment = {}
    for member_id, share in shares.items():
        assignment[member_id] = frozenset(share)
        yield 1 + len(share)
    return assignment


def _largest_first(sizes: Iterable[tuple[str, int]]) -> Steps[list[str]]:
    """Returns the member ids, those with the largest shares first. Members with equal shares keep their order."""
    by_size: dict[int, list[str]] = {}
    for member_id, size in sizes:
        by_size.setdefault(size, []).append(member_id)
        yield 1
    largest_first = []
    for size in sorted(by_size, reverse=True):
        largest_first += by_size[size]
    return largest_first


def _even_out(
    shares: dict[str, list[TopicPartition]], kept: int, free: list[TopicPartition], subscribers: Sequence[Subscriber]
) -> Steps[None]:
    """Makes the shares equal if each member may have each partition. The shares have `kept` partitions together.

    If the sizes cannot be equal, the members with the most partitions keep the shares that are larger by one.
    """
    if not shares:
        return
    quota, larger = divmod(kept + len(free), len(shares))
    sizes = {}
    largest_first = yield from _largest_first((member_id, len(share)) for member_id, share in shares.items())
    for index, member_id in enumerate(largest_first):
        size = sizes[member_id] = quota + (index < larger)
        surplus = shares[member_id][size:]
        if surplus:
            free += surplus
            del shares[member_id][size:]
        yield 1 + len(surplus)
    if free:
        free = yield from _return_to_holders(shares, sizes, free, subscribers)
    with_room: deque[str] = deque()
    for member_id, share in shares.items():
        if len(share) < sizes[member_id]:
            with_room.append(member_id)
        yield 1
    for partition in free:  # each member in turn gets one, so that the partitions of a topic are spread
        member_id = with_room.popleft()
        shares[member_id].append(partition)
        if len(shares[member_id]) < sizes[member_id]:
            with_room.append(member_id)
        yield 1


def _return_to_holders(
    shares: dict[str, list[TopicPartition]],
    sizes: Mapping[str, int],
    free: Iterable[TopicPartition],
    subscribers: Iterable[Subscriber],
) -> Steps[list[TopicPartition]]:
    """Gives free partitions to members that still hold them, as far as their sizes allow. Returns the rest.

    Such a member had to revoke the partition for a member that has left.
    """
    holders: dict[TopicPartition, str] = {}
    for subscriber in subscribers:
        holders.update(dict.fromkeys(subscriber.held, subscriber.member_id))
        yield 1 + len(subscriber.held)
    others = []
    for partition in free:
        holder = holders.get(partition)
        if holder is not None and len(shares[holder]) < sizes[holder]:
            shares[holder].append(partition)
        else:
            others.append(partition)
        yield 1
    return others


class _UnevenShares:
    """The shares of members whose subscriptions differ."""

    def __init__(self, shares: Mapping[str, list[TopicPartition]]) -> None:
        self._kept = shares
        self._subscribers: dict[TopicId, list[str]] = {}
        """The member ids of the subscribers of each topic."""
        self._sizes: dict[str, int] = {}
        self._members_of_size: Counter[int] = Counter()
        self._by_topic: dict[str, dict[TopicId, list[TopicPartition]]] = {}
        """The share of each member, by topic."""

    def learn(self, subscribers: Iterable[Subscriber]) -> Steps[None]:
        """Reads the subscriptions, and the shares that the members keep."""
        for subscriber in subscribers:
            member_id = subscriber.member_id
            for topic_id in subscriber.topics:
                self._subscribers.setdefault(topic_id, []).append(member_id)
            topics = self._by_topic[member_id] = {}
            for partition in self._kept[member_id]:
                topics.setdefault(partition.topic_id, []).append(partition)
            size = self._sizes[member_id] = len(self._kept[member_id])
            self._members_of_size[size] += 1
            yield 1 + len(subscriber.topics) + size

    def frozen(self) -> Steps[dict[str, Partitions]]:
        assignment = {}
        for member_id, topics in self._by_topic.items():
            assignment[member_id] = frozenset(chain.from_iterable(topics.values()))
            yield 1 + self._sizes[member_id]
        return assignment

    def distribute(self, free: Iterable[TopicPartition]) -> Steps[None]:
        """Gives each partition to the subscriber with the smallest share.

        Topics with the fewest subscribers come first.
        """
        topics: dict[TopicId, list[TopicPartition]] = {}
        for partition in free:
            topics.setdefault(partition.topic_id, []).append(partition)
            yield 1
        for topic_id in sorted(topics, key=lambda topic_id: len(self._subscribers[topic_id])):
            smallest: list[tuple[int, str]] = []
            for member_id in self._subscribers[topic_id]:
                heapq.heappush(smallest, (self._sizes[member_id], member_id))
                yield 1
            for partition in topics[topic_id]:
                size, member_id = smallest[0]
                self._by_topic[member_id].setdefault(topic_id, []).append(partition)
                self._resize(member_id, 1)
                heapq.heapreplace(smallest, (size + 1, member_id))
                yield 1

    def even_out(self) -> Steps[None]:
        """Moves partitions from larger to smaller shares until no move would make two shares more equal."""
        changed = True
        while changed:
            changed = False
            largest_first = yield from _largest_first(self._sizes.items())
            for member_id in largest_first:
                yield 1
                while hops := (yield from self._path_to_smaller(member_id)):
                    self._move(hops)
                    changed = True

    def _path_to_smaller(self, start: str) -> Steps[list[_Hop]]:
        """Returns the shortest path from a member to the smallest share that is smaller by at least two, or no hops."""
        enough = min(self._members_of_size)
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
                    yield 1
            yield 1 + len(self._by_topic[giver])
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
        self._resize(hops[0].taker, 1)
        self._resize(hops[-1].giver, -1)

    def _resize(self, member_id: str, change: int) -> None:
        size = self._sizes[member_id]
        self._sizes[member_id] = size + change
        self._members_of_size[size + change] += 1
        self._members_of_size[size] -= 1
        if not self._members_of_size[size]:
            del self._members_of_size[size]
