"""How one log is kept. The broker makes it from the topic's Kafka configuration."""

from msgspec import Struct

UNLIMITED = -1


class LogConfig(Struct, frozen=True):
    segment_bytes_max: int = 2**30
    segment_age_ms_max: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    index_bytes_max: int = 10 * 2**20
    retention_ms: int = 7 * 24 * 3600 * 1000
    """UNLIMITED (-1) keeps records however old they are."""
    retention_bytes: int = UNLIMITED
    deletes: bool = True
    """cleanup.policy has "delete": old segments go by age and size."""
    compacts: bool = False
    """cleanup.policy has "compact": of each key the last record stays."""
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    flush_bytes: int = 2**63 - 1

    def __post_init__(self) -> None:
        # An entry of the index has 32 bits for the position.
        assert 0 < self.segment_bytes_max < 2**32
        assert self.index_interval_bytes >= 0
        assert self.index_bytes_max > 0
