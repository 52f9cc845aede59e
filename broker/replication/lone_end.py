"""Whether what is damaged at the end of a log, for good, was never acknowledged, and never will be.

So it is if no other store has it of those that might. A store that is not in doubt has given up nothing that it
acknowledged: it cuts on the word of a later leader alone, who has all of that. With W of N stores, another one than
this would have what W of them acknowledged, if W is more than one; with `live`, each live replica. Who leads next is
one of these stores, or asks one of them, and finds nothing there: so it can be cut off here, and takes nothing from
what this store is counted on for. Until that is known of each of them, it may be the copy that counts.
"""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.protocol.ids import SpuId

from .quorum_read import Membership


class Elsewhere(Struct, frozen=True):
    """What another store says."""

    membership: Membership
    in_doubt: bool
    may_have_it: bool


def newest(own: Membership, others: Mapping[SpuId, Elsewhere]) -> Membership:
    return max((own, *(each.membership for each in others.values())), key=lambda each: each.age)


def who_might(here: SpuId, membership: Membership) -> frozenset[SpuId]:
    """Have what is acknowledged, of the others."""
    policy = membership.policy
    return (membership.replicas if policy.reads_others else membership.live_replicas) - {here}


def is_lone(here: SpuId, own: Membership, others: Mapping[SpuId, Elsewhere]) -> bool:
    """Whether nobody else has it, and it cannot have been acknowledged by this store alone."""
    membership = newest(own, others)
    asked = who_might(here, membership)
    if not asked or membership.policy.copies_min == 1:
        return False
    answers = [others.get(spu) for spu in asked]
    return all(each is not None and not (each.in_doubt or each.may_have_it) for each in answers)
