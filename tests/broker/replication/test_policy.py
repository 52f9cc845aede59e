from itertools import combinations

import pytest

from tailrace.broker.replication.policy import CopySet, CopySetsPolicy, LivePolicy, QuorumPolicy, parse_policy
from tailrace.protocol.ids import SpuId

A, B, C, D = map(SpuId, (1, 2, 3, 4))


def test_all_live_replicas_commit() -> None:
    """The example of the design's page about replica election: log ends 4, 3 and 2. With exclusive ends all numbers are
    larger by one."""
    ends = {A: 5, B: 4, C: 3}
    assert LivePolicy().committed_end(ends, {A, B, C}) == 3
    assert LivePolicy().committed_end(ends, {A, B}) == 4


def test_a_live_replica_that_has_not_replied_has_matched_nothing() -> None:
    assert LivePolicy().committed_end({A: 5}, {A, B}) == 0


def test_too_few_live_replicas_commit_nothing() -> None:
    assert LivePolicy(replicas_min=2).committed_end({A: 5, B: 5}, {A}) == 0
    assert LivePolicy(replicas_min=2).committed_end({A: 5, B: 4}, {A, B}) == 4


def test_a_live_replica_seals_alone() -> None:
    assert LivePolicy().is_sealed({A}, set()) and LivePolicy().is_sealed(set(), {A})


def test_the_end_that_enough_stores_have_is_committed() -> None:
    ends = {A: 5, B: 4, C: 3}
    assert [QuorumPolicy(3, 3, writes).committed_end(ends, ()) for writes in (1, 2, 3)] == [5, 4, 3]
    assert QuorumPolicy(3, 2, 2).committed_end({A: 5}, ()) == 0


def test_each_sealing_includes_a_store_with_what_is_committed() -> None:
    assert [QuorumPolicy(3, 3, writes).commits_without({A}, ()) for writes in (1, 2, 3)] == [True, True, False]
    assert [QuorumPolicy(3, 3, writes).commits_without({A, B}, ()) for writes in (1, 2, 3)] == [True, False, False]
    assert [LivePolicy().commits_without({A}, live) for live in ({A, B}, {B, C}, ())] == [False, True, True]
    sets = CopySetsPolicy(
        (CopySet(frozenset((A, B)), QuorumPolicy(2, 2, 2)), CopySet(frozenset((B, C, D)), QuorumPolicy(3, 2, 2)))
    )
    assert [sets.commits_without(stores, ()) for stores in ({B}, {B, C}, {C, D})] == [True, False, True]


@pytest.mark.parametrize("stores", range(1, 7))
def test_any_set_that_seals_meets_any_set_that_commits(stores: int) -> None:
    everyone = [SpuId(number) for number in range(stores)]
    for writes in range(1, stores + 1):
        policy = QuorumPolicy(stores, stores, writes)
        sizes = [size for size in range(1, stores + 1) if policy.is_sealed(everyone[:size], ())]
        for sealing in combinations(everyone, sizes[0]):
            assert all(set(sealing) & set(committing) for committing in combinations(everyone, writes))


def test_stores_in_doubt_count_only_when_no_other_is_left() -> None:
    policy = QuorumPolicy(3, 2, 2)
    assert policy.is_sealed({A, B}, set())
    assert not policy.is_sealed({A}, {B})
    assert policy.is_sealed({A}, {B, C})


TAKING_OVER = CopySetsPolicy(
    (CopySet(frozenset({A, B, C}), QuorumPolicy(3, 2, 2)), CopySet(frozenset({B, C, D}), QuorumPolicy(3, 2, 2)))
)


def test_while_one_set_takes_over_from_another_it_commits_alone() -> None:
    assert TAKING_OVER.committed_end({A: 9, B: 5, C: 4, D: 3}, ()) == 4
    assert TAKING_OVER.committed_end({A: 9, B: 5}, ()) == 0
    assert TAKING_OVER.takes_over


def test_then_enough_of_both_seal() -> None:
    assert TAKING_OVER.is_sealed({B, C}, set())
    assert TAKING_OVER.is_sealed({A, B, D}, set())
    assert not TAKING_OVER.is_sealed({A, B}, set()) and not TAKING_OVER.is_sealed({B, D}, set())
    assert not TAKING_OVER.is_sealed({A, B}, {C}) and TAKING_OVER.is_sealed({A, B}, {C, D})


def test_a_reader_asks_r_stores_that_have_lost_nothing_or_all() -> None:
    policy = parse_policy("nrw:3,3,1", replicas=3, replicas_min=1)
    assert policy.is_readable({A, B, C}, set(), ()) and policy.is_readable({A}, {B, C}, ())
    assert not policy.is_readable({A, B}, set(), ()) and not policy.is_readable({A}, {B}, ())
    assert TAKING_OVER.is_readable({B, C}, set(), ())
    assert not TAKING_OVER.is_readable({A, B}, set(), ())


def test_with_live_he_asks_one_of_the_live_replicas() -> None:
    assert LivePolicy().is_readable({A}, set(), {A, B}) and LivePolicy().is_readable(set(), {A, B}, {A, B})
    assert not LivePolicy().is_readable({C}, {A}, {A, B}) and not LivePolicy().is_readable(set(), set(), ())


def test_a_replica_that_was_just_added_does_not_count() -> None:
    coming = parse_policy("majority", replicas=4, replicas_min=1, copy_sets=[(A, B, C)])
    assert not coming.takes_over
    assert coming.committed_end({A: 5, D: 5}, ()) == 0 and coming.committed_end({A: 5, B: 4, D: 5}, ()) == 4
    assert not coming.is_sealed({A, D}, set())
    assert parse_policy("live", replicas=4, replicas_min=2, copy_sets=[(A, B, C)]) == LivePolicy(2)


def test_policies_have_names() -> None:
    assert parse_policy("live", replicas=3, replicas_min=2) == LivePolicy(2)
    assert parse_policy("majority", replicas=3, replicas_min=1) == QuorumPolicy(3, 2, 2)
    assert parse_policy("majority", replicas=4, replicas_min=1) == QuorumPolicy(4, 3, 3)
    assert parse_policy("nrw:3,1,3", replicas=3, replicas_min=1) == QuorumPolicy(3, 1, 3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("all", "live, majority or nrw:N,R,W"),
        ("nrw:3,2", "live, majority or nrw:N,R,W"),
        ("nrw:3,2,x", "live, majority or nrw:N,R,W"),
        ("nrw:5,3,3", "there are 3"),
        ("nrw:3,1,2", "R \\+ W must be more than N"),
        ("nrw:3,0,4", "between 1 and N"),
    ],
)
def test_an_invalid_policy_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_policy(text, replicas=3, replicas_min=1)
