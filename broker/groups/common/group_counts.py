"""The counters of groups, which all coordinators of one SPU share."""

from msgspec import Struct


class GroupCounts(Struct):
    """Counters since the SPU started. They never decrease, and outlive the coordinators."""

    group_rebalances: int = 0
    """How many assignments were made for groups, because their members or topics had changed."""
    committed_offsets: int = 0
    """How many offsets were committed: one for each partition of a commit."""
    expired_offsets: int = 0
    """How many committed offsets were removed because they had expired."""
    group_loads: int = 0
    """How often the groups of a partition were loaded from its log."""
    group_load_seconds: float = 0.0
