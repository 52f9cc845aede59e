"""Whether what is damaged at the end of a log, for good, was never acknowledged, and never will be.

So it is if no other store has it of those that might, and enough of them are not in doubt: such a store has given up
nothing that it acknowledged, for it cuts on the word of a later leader alone, who has all of that. With W of N stores,
no more than N-W lack what was acknowledged; with `live`, no live replica does. Who leads next is one of these stores,
or asks one of them, and finds nothing there: so it can be cut off here, and takes nothing from what this store is
counted on for. Until that is known of each of them, it may be the copy that counts.
"""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.protocol.ids import SpuId

from .quorum_read import Membership


class TailReport(Struct, frozen=True):
    """What another store says."""

    membership: Membership
    in_doubt: bool
    may_hold_tail: bool


def newest_membership(own: Membership, others: Mapping[SpuId, TailReport]) -> Membership:
    return max((own, *(each.membership for each in others.values())), key=lambda each: each.age)


def stores_that_may_hold(here: SpuId, membership: Membership) -> frozenset[SpuId]:
    """Have what is acknowledged, of the others."""
    policy = membership.policy
    return (membership.replicas if policy.reads_others else membership.live_replicas) - {here}


def may_truncate_tail(here: SpuId, own: Membership, others: Mapping[SpuId, TailReport]) -> bool:
    """Whether nobody else has it, and so many have never had it that it cannot have been acknowledged."""
    membership = newest_membership(own, others)
    asked = stores_that_may_hold(here, membership)
    answers = {spu: others.get(spu) for spu in asked}
    if not all(each is not None and not each.may_hold_tail for each in answers.values()):
        return False
    sure = {spu for spu, each in answers.items() if each is not None and not each.in_doubt}
    return not membership.policy.commits_without(sure, asked)
