"""The settings of one log, which the broker derives from the topic's Kafka configuration."""

from msgspec import Struct

UNLIMITED = -1
"""The value of `retention_ms` and `retention_bytes` that sets no limit."""


class LogConfig(Struct, frozen=True):
    """How a log rolls, indexes, retains, compacts and flushes. The names follow Kafka's topic configs."""

    segment_bytes_max: int = 2**30
    segment_age_ms_max: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    index_bytes_max: int = 10 * 2**20
    retention_ms: int = 7 * 24 * 3600 * 1000
    """The age after which records are deleted. UNLIMITED keeps records of any age."""
    retention_bytes: int = UNLIMITED
    deletes: bool = True
    """Whether `cleanup.policy` has "delete": old segments are deleted by age and by size."""
    compacts: bool = False
    """Whether `cleanup.policy` has "compact": only the last record of each key is kept."""
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    flush_bytes: int = 2**63 - 1

    def __post_init__(self) -> None:
        # An index entry has 32 bits for the position.
        assert 0 < self.segment_bytes_max < 2**32
        assert self.index_interval_bytes >= 0
        assert self.index_bytes_max > 0
