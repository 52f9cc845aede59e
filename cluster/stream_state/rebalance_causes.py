"""Why shards move between the members of a group: the causes that metrics, logs and `tailrace trigger explain` name."""

from enum import StrEnum

from msgspec import Struct


class RebalanceCause(StrEnum):
    """Why a member got, released or lost shards. The reference of metrics and logs explains each cause."""

    JOINED = "joined"
    """A replica registered itself and took its share of the free shards."""
    STALE_MEMBER_REMOVED = "stale-member-removed"
    """A replica sent no heartbeat within its session timeout and was removed."""
    SCALED = "scaled"
    """The number of replicas or of shards has changed, so each replica has another share."""
    LEFT = "left"
    """A replica stopped and released its shards at once."""


class Rebalance(Struct, frozen=True):
    """Shards that one member got, released or lost by one write of the state."""

    cause: RebalanceCause
    member_id: str
    """The member that got, released or lost the shards."""
    shards: frozenset[int]
    is_gain: bool
    """Whether the member got the shards."""
