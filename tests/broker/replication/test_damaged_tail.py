"""A damaged tail may be truncated or not, depending on what all other stores say."""

import pytest
from msgspec.structs import replace

from tailrace.broker.replication.damaged_tail import (
    TailReport,
    may_truncate_tail,
    newest_membership,
    stores_that_may_hold,
)
from tailrace.broker.replication.policy import parse_policy
from tailrace.broker.replication.quorum_read import Membership
from tailrace.protocol.ids import Epoch, SpuId

HERE, B, C, D, E = map(SpuId, (1, 2, 3, 4, 5))
THREE = (HERE, B, C)


def member(
    policy: str = "nrw:3,2,2", *, live: tuple[SpuId, ...] = THREE, replicas: tuple[SpuId, ...] = THREE, epoch: int = 1
) -> Membership:
    parsed = parse_policy(policy, replicas=len(replicas), replicas_min=1)
    return Membership(Epoch(epoch), 0, True, frozenset(replicas), frozenset(live), 1, parsed)


def lacks(knows: Membership | None = None) -> TailReport:
    return TailReport(knows or member(), in_doubt=False, may_hold_tail=False)


def doubts(knows: Membership) -> TailReport:
    return replace(lacks(knows), in_doubt=True)


def test_a_damaged_tail_may_be_truncated_if_all_others_lack_it() -> None:
    assert may_truncate_tail(HERE, member(), {B: lacks(), C: lacks()})


@pytest.mark.parametrize("policy", ["live", "majority", "nrw:3,2,2"])
def test_whoever_does_not_answer_may_be_the_one_that_has_it(policy: str) -> None:
    knows = member(policy)
    assert may_truncate_tail(HERE, knows, {B: lacks(knows), C: lacks(knows)})
    assert not may_truncate_tail(HERE, knows, {B: lacks(knows)})


@pytest.mark.parametrize("policy", ["live", "majority", "nrw:3,2,2"])
def test_nor_is_it_if_one_may_have_it(policy: str) -> None:
    knows = member(policy)
    assert not may_truncate_tail(HERE, knows, {B: lacks(knows), C: replace(lacks(knows), may_hold_tail=True)})


@pytest.mark.parametrize("policy", ["majority", "nrw:3,2,2"])
def test_nor_if_this_store_may_have_acknowledged_it_together_with_one_in_doubt(policy: str) -> None:
    knows = member(policy)
    assert not may_truncate_tail(HERE, knows, {B: lacks(knows), C: doubts(knows)})


@pytest.mark.parametrize(("policy", "are_enough"), [("nrw:3,1,3", True), ("nrw:3,3,1", False), ("live", True)])
def test_those_in_doubt_do_not_matter_if_it_could_not_have_been_acknowledged_without_another(
    policy: str, are_enough: bool
) -> None:
    knows = member(policy)
    assert may_truncate_tail(HERE, knows, {B: lacks(knows), C: doubts(knows)}) is are_enough
    assert not may_truncate_tail(HERE, knows, {B: doubts(knows), C: doubts(knows)})


def test_of_five_stores_with_three_copies_one_may_be_in_doubt_and_not_two() -> None:
    knows = member("nrw:5,3,3", replicas=(HERE, B, C, D, E))
    others = {spu: lacks(knows) for spu in (B, C, D, E)}
    assert may_truncate_tail(HERE, knows, {**others, E: doubts(knows)})
    assert not may_truncate_tail(HERE, knows, {**others, D: doubts(knows), E: doubts(knows)})


def test_with_live_other_replicas_need_not_answer() -> None:
    knows = member("live", live=(HERE, B))
    assert stores_that_may_hold(HERE, knows) == {B}
    assert may_truncate_tail(HERE, knows, {B: lacks(knows)})
    assert stores_that_may_hold(HERE, member("majority", live=(HERE, B))) == {B, C}


def test_entries_that_this_store_alone_could_acknowledge_are_never_truncated() -> None:
    alone = member("live", live=(HERE,))
    assert not may_truncate_tail(HERE, alone, {})
    assert not may_truncate_tail(HERE, alone, {B: lacks(alone), C: lacks(alone)})
    one_copy = member("nrw:3,3,1")
    assert not may_truncate_tail(HERE, one_copy, {B: lacks(one_copy), C: lacks(one_copy)})


def test_while_sets_take_over_one_of_which_this_store_is_all_it_is_kept() -> None:
    for last, is_given_up in ((C, True), (HERE, False)):
        sets = parse_policy("majority", replicas=3, replicas_min=1, copy_sets=[(HERE, B), (last,)])
        knows = replace(member(), policy=sets)
        assert may_truncate_tail(HERE, knows, {B: lacks(knows), C: lacks(knows)}) is is_given_up
        assert not may_truncate_tail(HERE, knows, {B: doubts(knows), C: lacks(knows)})


def test_the_newest_membership_says_which_stores_must_answer() -> None:
    old, new = member("live", live=(HERE, B)), member("live", live=(HERE, B, C), epoch=2)
    others = {B: lacks(new)}
    assert newest_membership(old, others) == new
    assert newest_membership(new, {B: lacks(old)}) == new
    assert not may_truncate_tail(HERE, old, others)
    assert may_truncate_tail(HERE, old, {**others, C: lacks(old)})
