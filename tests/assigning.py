"""Members, topics and earlier assignments for tests of assignors: from Hypothesis, and in a short notation."""

from collections.abc import Mapping
from uuid import UUID

from hypothesis import strategies as st
from msgspec import Struct

from tailrace.broker.groups.assignment.assignments import Partitions, TopicPartition
from tailrace.broker.groups.assignment.assignor import Subscriber

TOPICS = {name: UUID(int=number) for number, name in enumerate("abcde", 1)}


def partitions(*names: str) -> Partitions:
    """Parses partitions, as in `partitions("a0", "b12")`."""
    return frozenset(TopicPartition(TOPICS[name[0]], int(name[1:])) for name in names)


def subscriber(
    member_id: str, topics: str, assigned: Partitions = frozenset(), instance_id: str | None = None
) -> Subscriber:
    return Subscriber(member_id, frozenset(TOPICS[name] for name in topics), assigned, instance_id)


def counts(**topics: int) -> dict[UUID, int]:
    return {TOPICS[name]: count for name, count in topics.items()}


class Case(Struct, frozen=True):
    subscribers: list[Subscriber]
    partition_counts: Mapping[UUID, int]

    def of_subscribed_topics(self) -> Partitions:
        subscribed = frozenset[UUID]().union(*(subscriber.topics for subscriber in self.subscribers))
        return frozenset(
            TopicPartition(topic_id, partition)
            for topic_id, count in self.partition_counts.items()
            if topic_id in subscribed
            for partition in range(count)
        )

    def check_complete(self, shares: Mapping[str, Partitions]) -> None:
        """Checks that each member is named, and that each partition has one owner, which subscribes to it."""
        assert shares.keys() == {subscriber.member_id for subscriber in self.subscribers}
        assert sum(map(len, shares.values())) == len(self.of_subscribed_topics())
        assert frozenset[TopicPartition]().union(*shares.values()) == self.of_subscribed_topics()
        for subscriber in self.subscribers:
            assert {partition.topic_id for partition in shares[subscriber.member_id]} <= subscriber.topics


@st.composite
def cases(draw: st.DrawFn, *, uneven: bool) -> Case:
    """Draws members with earlier assignments, some of which they may not keep or do not exist any more."""
    partition_counts = draw(st.dictionaries(st.sampled_from(list(TOPICS.values())), st.integers(0, 7), min_size=1))
    members = draw(st.lists(st.sampled_from("mnopqrst"), unique=True, min_size=1))
    some_topics = st.frozensets(st.sampled_from(sorted(partition_counts)))
    of_everybody = draw(some_topics)
    places = [
        TopicPartition(topic_id, partition)
        for topic_id in TOPICS.values()
        for partition in range(partition_counts.get(topic_id, 0) + 1)
    ]
    owners = draw(st.lists(st.sampled_from([None, *members]), min_size=len(places), max_size=len(places)))
    holders = draw(st.lists(st.sampled_from([None, *members]), min_size=len(places), max_size=len(places)))
    subscribers = [
        Subscriber(
            member_id,
            draw(some_topics) if uneven else of_everybody,
            frozenset(partition for partition, owner in zip(places, owners, strict=True) if owner == member_id),
            draw(st.sampled_from([None, f"instance-{member_id}"])),
            frozenset(partition for partition, holder in zip(places, holders, strict=True) if holder == member_id),
        )
        for member_id in members
    ]
    return Case(subscribers, partition_counts)
