"""What coordinators count of their groups, over all partitions that one SPU has coordinated since it started."""

from msgspec import Struct


class GroupCounts(Struct):
    """They only grow, and outlive the coordinators that count."""

    group_rebalances: int = 0
    """Assignments that were made for a group, because its members or its topics were others than before."""
    committed_offsets: int = 0
    """One for each partition that a commit was about."""
    expired_offsets: int = 0
    """Forgotten because nobody had used them for so long."""
    group_loads: int = 0
    """Times that the groups of a partition were read from its log."""
    group_load_seconds: float = 0.0
