"""The fair share of a member: how many shards it handles, by the configured number of replicas. Pure.

With `n` shards and `r` replicas, `n % r` members have one shard more than the others. Which members these are depends
on who came first: a member decides with the entries of the others before it, and compare-and-set puts the decisions in
an order. If more members have the larger share than may have it, which happens when `r` has grown, those with the
greater ids give one shard back.
"""

from collections.abc import Mapping


def fair_share(shards: int, replicas: int, member_id: str, counts: Mapping[str, int]) -> int:
    """Returns how many shards a member may have; `counts` has the number of shards of each member now."""
    smaller, larger_shares = divmod(shards, max(1, replicas))
    is_larger = counts.get(member_id, 0) > smaller
    before = sum(
        count > smaller
        for other, count in counts.items()
        if other != member_id and (not is_larger or other < member_id)
    )
    return smaller + (before < larger_shares)
