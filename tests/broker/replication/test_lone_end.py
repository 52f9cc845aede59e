"""When what is damaged at the end of a log can be given up, by what all other stores say."""

import pytest
from msgspec.structs import replace

from tailrace.broker.replication.lone_end import Elsewhere, is_lone, newest, who_might
from tailrace.broker.replication.policy import parse_policy
from tailrace.broker.replication.quorum_read import Membership
from tailrace.protocol.ids import Epoch, SpuId

HERE, B, C, D = map(SpuId, (1, 2, 3, 4))


def member(policy: str = "nrw:3,2,2", *, live: tuple[SpuId, ...] = (HERE, B, C), epoch: int = 1) -> Membership:
    replicas = (HERE, B, C)
    parsed = parse_policy(policy, replicas=3, replicas_min=1)
    return Membership(Epoch(epoch), 0, True, frozenset(replicas), frozenset(live), 1, parsed)


def lacks(knows: Membership | None = None) -> Elsewhere:
    return Elsewhere(knows or member(), in_doubt=False, may_have_it=False)


def test_it_is_lone_if_all_others_lack_it() -> None:
    assert is_lone(HERE, member(), {B: lacks(), C: lacks()})


@pytest.mark.parametrize("policy", ["live", "majority", "nrw:3,2,2"])
def test_whoever_does_not_answer_may_be_the_one_that_has_it(policy: str) -> None:
    knows = member(policy)
    assert is_lone(HERE, knows, {B: lacks(knows), C: lacks(knows)})
    assert not is_lone(HERE, knows, {B: lacks(knows)})


@pytest.mark.parametrize("policy", ["live", "majority", "nrw:3,2,2"])
def test_nor_is_it_if_one_may_have_it_or_may_have_lost_it(policy: str) -> None:
    knows = member(policy)
    for other in (replace(lacks(knows), may_have_it=True), replace(lacks(knows), in_doubt=True)):
        assert not is_lone(HERE, knows, {B: lacks(knows), C: other})


def test_who_is_not_live_need_not_answer_where_the_live_replicas_commit() -> None:
    knows = member("live", live=(HERE, B))
    assert who_might(HERE, knows) == {B}
    assert is_lone(HERE, knows, {B: lacks(knows)})
    assert who_might(HERE, member("majority", live=(HERE, B))) == {B, C}


def test_what_this_store_alone_could_acknowledge_is_never_given_up() -> None:
    alone = member("live", live=(HERE,))
    assert not is_lone(HERE, alone, {})
    assert not is_lone(HERE, alone, {B: lacks(alone), C: lacks(alone)})
    one_copy = member("nrw:3,3,1")
    assert not is_lone(HERE, one_copy, {B: lacks(one_copy), C: lacks(one_copy)})


def test_while_sets_take_over_one_with_a_single_copy_is_enough_to_keep_it() -> None:
    sets = parse_policy("majority", replicas=3, replicas_min=1, copy_sets=[(HERE, B), (C,)])
    knows = replace(member(), policy=sets)
    assert not is_lone(HERE, knows, {B: lacks(knows), C: lacks(knows)})


def test_the_newest_spec_says_who_has_to_answer() -> None:
    old, new = member("live", live=(HERE, B)), member("live", live=(HERE, B, C), epoch=2)
    others = {B: lacks(new)}
    assert newest(old, others) == new
    assert newest(new, {B: lacks(old)}) == new
    assert not is_lone(HERE, old, others)
    assert is_lone(HERE, old, {**others, C: lacks(old)})
