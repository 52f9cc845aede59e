"""Decides whether the damaged end of a log was never acknowledged, so that it may be truncated.

It was never acknowledged if no other store that could hold it does, and enough of these stores are not in doubt. A
store that is not in doubt has lost nothing that it acknowledged: it truncates only when a later leader shows a
difference, and this leader has everything that was acknowledged. With W of N stores, at most N-W lack what was
acknowledged; with `live`, no live replica does. The next leader is one of these stores, or asks one of them, and finds
nothing in that place. So this store may truncate, and still has everything that others count on it for. Until this is
known of every such store, the local copy may be the one that counts.
"""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.protocol.ids import SpuId

from .quorum_read import Membership


class TailReport(Struct, frozen=True):
    """What another store says about the place of the damaged tail."""

    membership: Membership
    in_doubt: bool
    """Whether the store may have lost something that it acknowledged."""
    may_hold_tail: bool
    """Whether the store may hold what was in the place of the damaged tail."""


def newest_membership(own: Membership, others: Mapping[SpuId, TailReport]) -> Membership:
    """Returns the newest membership that any of these stores knows."""
    return max((own, *(each.membership for each in others.values())), key=lambda each: each.recency)


def stores_that_may_hold(here: SpuId, membership: Membership) -> frozenset[SpuId]:
    """Returns the other stores that may hold whatever was acknowledged."""
    policy = membership.policy
    return (membership.replicas if policy.reads_others else membership.live_replicas) - {here}


def may_truncate_tail(here: SpuId, own: Membership, others: Mapping[SpuId, TailReport]) -> bool:
    """Returns whether no other store holds the tail, and enough stores are sure never to have held it."""
    membership = newest_membership(own, others)
    asked = stores_that_may_hold(here, membership)
    answers = {spu: others.get(spu) for spu in asked}
    if not all(each is not None and not each.may_hold_tail for each in answers.values()):
        return False
    sure = {spu for spu, each in answers.items() if each is not None and not each.in_doubt}
    return not membership.policy.commits_without(sure, asked)
