from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest
from assigning import Case, cases, counts, partitions, subscriber
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.groups.assignment.assignment_steps import SORTED_PER_STEP
from tailrace.broker.groups.assignment.assignments import Partitions
from tailrace.broker.groups.assignment.assignor import Subscriber
from tailrace.broker.groups.assignment.range_assignor import assign_ranges
from tailrace.protocol.steps import finish


def assign(subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> dict[str, Partitions]:
    return finish(assign_ranges(subscribers, partition_counts))


def test_the_first_members_get_one_more() -> None:
    shares = assign([subscriber("m", "ab"), subscriber("n", "ab")], counts(a=3, b=3))
    assert shares == {"m": partitions("a0", "a1", "b0", "b1"), "n": partitions("a2", "b2")}


def test_only_subscribers_count() -> None:
    shares = assign([subscriber("m", "a"), subscriber("n", "ab"), subscriber("o", "b")], counts(a=2, b=2))
    assert shares == {"m": partitions("a0"), "n": partitions("a1", "b0"), "o": partitions("b1")}


def test_more_members_than_partitions() -> None:
    shares = assign([subscriber("m", "a"), subscriber("n", "a")], counts(a=1))
    assert shares == {"m": partitions("a0"), "n": frozenset()}


def test_a_static_member_keeps_its_stretch_under_another_id() -> None:
    before = assign([subscriber("m", "a", instance_id="1"), subscriber("n", "a", instance_id="2")], counts(a=3))
    after = assign([subscriber("z", "a", instance_id="1"), subscriber("n", "a", instance_id="2")], counts(a=3))
    assert after["z"] == before["m"] == partitions("a0", "a1")
    assert after["n"] == before["n"]


def test_static_members_stand_first() -> None:
    shares = assign([subscriber("a", "a"), subscriber("z", "a", instance_id="1")], counts(a=3))
    assert shares == {"z": partitions("a0", "a1"), "a": partitions("a2")}


@pytest.mark.parametrize("topics", [["a"], ["a", "ab"]])
def test_no_step_of_a_large_assignment_is_large(topics: list[str]) -> None:
    members = [subscriber(f"m{number}", topics[number % len(topics)]) for number in range(3_000)]
    steps = list(assign_ranges(members, counts(a=2_000, b=10)))
    assert max(steps) <= SORTED_PER_STEP
    assert sum(steps) >= 3 * len(members)


@settings(max_examples=60, deadline=None)
@given(case=st.one_of(cases(uneven=False), cases(uneven=True)))
def test_every_subscriber_of_a_topic_gets_a_stretch_of_nearly_the_same_length(case: Case) -> None:
    shares = assign(case.subscribers, case.partition_counts)
    case.check_complete(shares)
    for topic_id in case.partition_counts:
        lengths = []
        for member in case.subscribers:
            if topic_id in member.topics:
                numbers = sorted(place.partition for place in shares[member.member_id] if place.topic_id == topic_id)
                assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
                lengths.append(len(numbers))
        assert not lengths or max(lengths) - min(lengths) <= 1
