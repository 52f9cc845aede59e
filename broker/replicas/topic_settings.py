"""The typed settings of a topic, which storage and produce read instead of configs.

Handlers and logs never parse a config. `TopicSettings` is made again when a config changes.
"""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.broker.replication.messages import RECORDS_BYTES_MAX
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_definitions import Value
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.cluster.configs.topic_configs import AS_RETENTION, effective_value
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.produced_batch import ProduceRules
from tailrace.storage.log_config import UNLIMITED, LogConfig


class TopicSettings(Struct, frozen=True):
    """The settings of a topic, with types. Each produce request reads them."""

    log: LogConfig
    produce: ProduceRules
    """How the batches of producers are checked and changed."""
    min_insync_replicas: int
    replication_policy: str
    lag_records_max: int
    """How many records a follower may lag and stay in the live replica set."""
    lag_seconds_max: float
    reads_uncommitted: bool
    shelves: bool
    """Whether sealed segments are put on shelves. Compacted topics, and topics that allow unclean elections, have no
    shelves."""
    local_retention_ms: int
    """How long records on a shelf also stay in the log; UNLIMITED (-1) means as long as the partition has them."""
    local_retention_bytes: int


def settings_of(own: Mapping[str, str], broker_configs: BrokerConfigs) -> TopicSettings:
    """Returns the settings of a topic with the configs `own`."""

    def value(name: str) -> Value:
        return effective_value(TOPIC_CONFIGS[name], own, broker_configs)[0]

    def number(name: str) -> int:
        found = value(name)
        assert isinstance(found, int), "the table gives it a whole number and a default"
        return found

    compression = _COMPRESSIONS[value("compression.type")]
    level = _LEVELS.get(compression)
    cleanup = value("cleanup.policy")
    dirty_ratio = value("min.cleanable.dirty.ratio")
    assert isinstance(cleanup, tuple)
    assert isinstance(dirty_ratio, float)
    small_segments = value("internal.segment.bytes")
    wants_shelves = value("remote.storage.enable") is True and value("remote.log.copy.disable") is False
    is_unclean = value("unclean.leader.election.enable") is True
    return TopicSettings(
        log=LogConfig(
            segment_bytes_max=small_segments if isinstance(small_segments, int) else number("segment.bytes"),
            segment_age_ms_max=number("segment.ms"),
            index_interval_bytes=number("index.interval.bytes"),
            index_bytes_max=number("segment.index.bytes"),
            retention_ms=number("retention.ms"),
            retention_bytes=number("retention.bytes"),
            deletes="delete" in cleanup,
            compacts="compact" in cleanup,
            delete_retention_ms=number("delete.retention.ms"),
            min_cleanable_dirty_ratio=dirty_ratio,
            min_compaction_lag_ms=number("min.compaction.lag.ms"),
            max_compaction_lag_ms=number("max.compaction.lag.ms"),
            flush_messages=number("flush.messages"),
            flush_ms=number("flush.ms"),
            flush_bytes=number("flush.bytes"),
        ),
        produce=ProduceRules(
            batch_bytes_max=min(number("max.message.bytes"), RECORDS_BYTES_MAX),
            needs_keys="compact" in cleanup,
            append_time=value("message.timestamp.type") == "LogAppendTime",
            timestamp_before_ms_max=number("message.timestamp.before.max.ms"),
            timestamp_after_ms_max=number("message.timestamp.after.max.ms"),
            compression=compression,
            compression_level=None if level is None else number(level),
        ),
        min_insync_replicas=number("min.insync.replicas"),
        replication_policy=str(value("replication.policy")),
        lag_records_max=number("lrs.max.lag.records"),
        lag_seconds_max=number("lrs.max.lag.ms") / 1000,
        reads_uncommitted=value("consumer.consistency") == "uncommitted",
        shelves=wants_shelves and "compact" not in cleanup and not is_unclean,
        local_retention_ms=_local(number("local.retention.ms"), number("retention.ms")),
        local_retention_bytes=_local(number("local.retention.bytes"), number("retention.bytes")),
    )


def _local(local: int, total: int) -> int:
    """Returns the local limit, which is at most the total one."""
    if local == AS_RETENTION or total == UNLIMITED:
        return total if local == AS_RETENTION else local
    return total if local == UNLIMITED else min(local, total)


_COMPRESSIONS: Mapping[Value, Compression | None] = {
    "producer": None,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_LEVELS: Mapping[Compression | None, str] = {
    Compression.GZIP: "compression.gzip.level",
    Compression.LZ4: "compression.lz4.level",
    Compression.ZSTD: "compression.zstd.level",
}
