"""Why shards move between the members of a group: the causes that metrics, logs and `tailrace trigger explain` name."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class RebalanceCause(StrEnum):
    JOINED = "joined"
    STALE_MEMBER_REMOVED = "stale-member-removed"
    SCALED = "scaled"
    LEFT = "left"


CAUSES: Mapping[RebalanceCause, str] = {
    RebalanceCause.JOINED: "a replica registered itself and took its share of the free shards",
    RebalanceCause.STALE_MEMBER_REMOVED: "a replica sent no heartbeat within its session timeout and was removed",
    RebalanceCause.SCALED: "the number of replicas or of shards has changed, so each replica has another share",
    RebalanceCause.LEFT: "a replica stopped and released its shards at once",
}
"""What each cause means, for people."""


class Rebalance(Struct, frozen=True):
    """One change of who handles which shards, which one write of the state has made."""

    cause: RebalanceCause
    member_id: str
    """The member that got, released or lost the shards."""
    shards: frozenset[int]
    is_gain: bool
    """Whether the member got the shards."""
