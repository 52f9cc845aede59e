"""The settings of a group, from the broker configs and the group configs."""

from msgspec import Struct

UNLIMITED = 2**31 - 1


class GroupSettings(Struct, frozen=True):
    members_max: int = UNLIMITED
    """The largest size of a classic group (group.max.size)."""
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    offset_metadata_bytes_max: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_check_interval_ms: int = 600_000
    """How often expired offsets are removed. This setting is the same for all groups."""

    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    """The shortest time between two assignments. Members that join or leave within it share the next assignment."""
    consumer_members_max: int = UNLIMITED
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The assignors that members may choose. The first one is the default."""
    consumer_migration_policy: str = "bidirectional"
