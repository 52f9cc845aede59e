"""How groups are kept, by Kafka's broker and group configs."""

from msgspec import Struct

UNLIMITED = 2**31 - 1


class GroupSettings(Struct, frozen=True):
    members_max: int = UNLIMITED
    """group.max.size"""
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    offset_metadata_bytes_max: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_check_interval_ms: int = 600_000
    """The same for all groups."""

    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    """Who joins or leaves within this time of an assignment waits for the next one, with all others who do."""
    consumer_members_max: int = UNLIMITED
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first one is the default."""
    consumer_migration_policy: str = "bidirectional"
