from collections import deque
from collections.abc import Mapping, Sequence
from itertools import combinations
from uuid import UUID

import pytest
from assigning import Case, cases, counts, partitions, subscriber
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.groups.assignment.assignment_steps import SORTED_PER_STEP
from tailrace.broker.groups.assignment.assignments import Partitions
from tailrace.broker.groups.assignment.assignor import Subscriber
from tailrace.broker.groups.assignment.uniform_assignor import assign_uniformly
from tailrace.protocol.steps import finish


def assign(subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> dict[str, Partitions]:
    return finish(assign_uniformly(subscribers, partition_counts))


def test_the_first_member_gets_everything() -> None:
    assert assign([subscriber("m", "ab")], counts(a=2, b=1)) == {"m": partitions("a0", "a1", "b0")}


def test_the_partitions_of_a_topic_are_spread() -> None:
    shares = assign([subscriber("m", "ab"), subscriber("n", "ab")], counts(a=2, b=2))
    assert shares == {"m": partitions("a0", "b0"), "n": partitions("a1", "b1")}


def test_a_new_member_gets_its_share_and_nothing_else_moves() -> None:
    had = partitions("a0", "a1", "a2", "a3", "a4")
    shares = assign([subscriber("m", "a", had), subscriber("n", "a")], counts(a=5))
    assert shares == {"m": partitions("a0", "a1", "a2"), "n": partitions("a3", "a4")}


def test_partitions_of_a_member_that_left_go_to_the_smallest_shares() -> None:
    members = [subscriber("m", "a", partitions("a0", "a1")), subscriber("n", "a", partitions("a2"))]
    assert assign(members, counts(a=4))["n"] == partitions("a2", "a3")


@pytest.mark.parametrize("topics", ["a", "ab"])
def test_a_partition_that_two_members_were_assigned_goes_to_one_of_them(topics: str) -> None:
    """Such targets are left if a coordinator has to skip a corrupt batch of its log."""
    members = [
        subscriber("m", "a", partitions("a0", "a1", "a2")),
        subscriber("n", topics, partitions("a0", "a1", "a2")),
    ]
    shares = assign(members, counts(a=4))
    assert shares["m"].isdisjoint(shares["n"])
    assert shares["m"] | shares["n"] == partitions("a0", "a1", "a2", "a3")
    assert {len(share) for share in shares.values()} == {2}


def test_a_partition_that_was_to_move_to_a_removed_member_stays() -> None:
    held = partitions("a0", "a1", "a5"), partitions("a2", "a3", "a4")
    members = [
        subscriber("m", "a", partitions("a0", "a1"))._replace(held=held[0]),
        subscriber("n", "a", partitions("a3", "a4"))._replace(held=held[1]),
    ]
    assert assign(members, counts(a=6)) == {"m": held[0], "n": held[1]}


def test_what_was_to_move_to_a_member_and_has_not_comes_back_first() -> None:
    held = partitions("a0", "a1", "a2"), partitions("b0", "b1", "b2")
    members = [
        subscriber("m", "ab")._replace(held=held[0]),
        subscriber("n", "ab", held[0] | held[1])._replace(held=held[1]),
    ]
    assert assign(members, counts(a=3, b=3)) == {"m": held[0], "n": held[1]}


def test_what_a_member_has_counts_less_than_equal_shares() -> None:
    members = [subscriber("m", "a", partitions("a0", "a1"))._replace(held=partitions("a0", "a1", "a2", "a3"))]
    members.append(subscriber("n", "a"))
    assert assign(members, counts(a=4)) == {"m": partitions("a0", "a1"), "n": partitions("a2", "a3")}


def test_members_with_more_topics_leave_the_others_their_only_topics() -> None:
    members = [subscriber("m", "ab"), subscriber("n", "a")]
    shares = assign(members, counts(a=2, b=2))
    assert shares == {"m": partitions("b0", "b1"), "n": partitions("a0", "a1")}


def test_partitions_are_handed_on_where_no_single_one_could_go() -> None:
    # m and o share no topic, but each shares one with n.
    members = [
        subscriber("m", "a", partitions("a0", "a1", "a2")),
        subscriber("n", "ab", partitions("b0", "b1")),
        subscriber("o", "b", partitions("b2")),
    ]
    shares = assign(members, counts(a=3, b=3))
    assert {member_id: len(share) for member_id, share in shares.items()} == {"m": 2, "n": 2, "o": 2}


def test_no_member_subscribes_to_anything() -> None:
    assert assign([], counts(a=3)) == {}
    assert assign([subscriber("m", "")], {}) == {"m": frozenset()}


def test_the_work_does_not_grow_with_the_square_of_the_members() -> None:
    members = [subscriber(f"m{number}", ("a", "ab")[number % 2]) for number in range(1_000)]
    assert sum(assign_uniformly(members, counts(a=2_500, b=1_000))) < 50 * len(members)


@pytest.mark.parametrize("topics", [["a"], ["a", "ab"]])
def test_no_step_of_a_large_assignment_is_large(topics: list[str]) -> None:
    members = [subscriber(f"m{number}", topics[number % len(topics)]) for number in range(3_000)]
    steps = list(assign_uniformly(members, counts(a=2_000, b=10)))
    assert max(steps) <= SORTED_PER_STEP
    assert sum(steps) >= 3 * len(members)


@settings(max_examples=60, deadline=None)
@given(case=cases(uneven=False))
def test_equal_members_get_equal_shares_and_no_partition_moves_without_need(case: Case) -> None:
    shares = assign(case.subscribers, case.partition_counts)
    case.check_complete(shares)
    sizes = sorted(map(len, shares.values()))
    assert sizes[-1] - sizes[0] <= 1
    assert sum(_kept(case, shares).values()) == _most_that_can_be_kept(case)


@settings(max_examples=60, deadline=None)
@given(case=cases(uneven=True))
def test_shares_of_unequal_members_cannot_be_more_alike(case: Case) -> None:
    shares = assign(case.subscribers, case.partition_counts)
    case.check_complete(shares)
    for larger, smaller in combinations(sorted(shares, key=lambda member_id: -len(shares[member_id])), 2):
        if len(shares[larger]) - len(shares[smaller]) >= 2:
            assert smaller not in _reachable_by_handing_on(case, shares, larger)


@settings(max_examples=60, deadline=None)
@given(case=st.one_of(cases(uneven=False), cases(uneven=True)))
def test_what_is_fair_already_stays(case: Case) -> None:
    shares = assign(case.subscribers, case.partition_counts)
    again = [member._replace(assigned=shares[member.member_id]) for member in case.subscribers]
    assert assign(again, case.partition_counts) == shares


def _kept(case: Case, shares: dict[str, Partitions]) -> dict[str, int]:
    return {member.member_id: len(member.assigned & shares[member.member_id]) for member in case.subscribers}


def _most_that_can_be_kept(case: Case) -> int:
    """The fewest partitions move if the members with the largest shares keep the extra partitions."""
    had = sorted((len(member.assigned & case.of_subscribed_topics()) for member in case.subscribers), reverse=True)
    quota, larger = divmod(len(case.of_subscribed_topics()), len(had))
    return sum(min(size, quota + (index < larger)) for index, size in enumerate(had))


def _reachable_by_handing_on(case: Case, shares: dict[str, Partitions], start: str) -> set[str]:
    reached, queue = {start}, deque([start])
    while queue:
        topics = {partition.topic_id for partition in shares[queue.popleft()]}
        for member in case.subscribers:
            if member.topics & topics and member.member_id not in reached:
                reached.add(member.member_id)
                queue.append(member.member_id)
    return reached
