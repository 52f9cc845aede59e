import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.client.group_assignment import (
    assigned_partitions,
    assignment_data,
    range_assignment,
    subscribed_topics,
    subscription_data,
)
from tailrace.client.log_facts import Partition


def _partitions(topic: str, count: int) -> list[Partition]:
    return [Partition(topic, number) for number in range(count)]


def test_members_exchange_topics_and_partitions() -> None:
    assert subscription_data(["b", "a"]) == bytes.fromhex("0000 00000002 0001 61 0001 62 ffffffff")
    assert subscribed_topics(subscription_data(["b", "a"])) == {"a", "b"}
    # Later versions begin like the first one.
    assert subscribed_topics(b"\0\3" + subscription_data(["a"])[2:] + b"more") == {"a"}
    assert subscribed_topics(b"\0\0\xff") == frozenset()
    partitions = [*_partitions("a", 2), Partition("b", 7)]
    assert assigned_partitions(assignment_data(partitions)) == partitions
    assert assigned_partitions(b"") == []


@pytest.mark.parametrize(
    ("count", "members", "expected"),
    [(6, 2, [3, 3]), (7, 3, [3, 2, 2]), (1, 3, [1, 0, 0]), (0, 2, [0, 0])],
)
def test_ranges_are_as_even_as_possible(count: int, members: int, expected: list[int]) -> None:
    topics = {f"member-{number}": ["a"] for number in range(members)}
    assigned = range_assignment(topics, {"a": _partitions("a", count)})
    assert [len(each) for each in assigned.values()] == expected
    assert [each for ranges in assigned.values() for each in ranges] == _partitions("a", count)


@given(
    st.dictionaries(st.text(max_size=3), st.lists(st.sampled_from("abc"), unique=True), max_size=5),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)),
)
def test_each_partition_of_a_topic_with_a_reader_has_one(topics: dict[str, list[str]], counts: dict[str, int]) -> None:
    assigned = range_assignment(topics, {topic: _partitions(topic, count) for topic, count in counts.items()})
    read = [each for partitions in assigned.values() for each in partitions]
    wanted = {topic for of_member in topics.values() for topic in of_member}
    assert sorted(read) == [
        each for topic in sorted(wanted & set(counts)) for each in _partitions(topic, counts[topic])
    ]
    assert all(each.topic in topics[member] for member, partitions in assigned.items() for each in partitions)
