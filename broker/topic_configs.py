"""Which configs apply to a topic: its own, else the SPU's, else the default; and what storage and produce make of them.

Handlers and logs never parse a config: they read `TopicSettings`, which is made anew when a config changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.protocol.compression import Compression
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.produced_batch import ProduceRules
from tailrace.storage.log_config import LogConfig

from .broker_config_table import BROKER_CONFIGS
from .broker_configs import BrokerConfigs
from .config_definitions import ConfigDefinition, ConfigSource, ConfiguredValue, Value, parse, text_of
from .topic_config_table import TOPIC_CONFIGS


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What applies to a topic now, typed; read on every produce."""

    log: LogConfig
    produce: ProduceRules
    """What is asked of a producer's batches, and made of them."""
    min_insync_replicas: int
    unclean_election: bool
    replication_policy: str
    reads_uncommitted: bool


def check_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The configs in their canonical form. Raises KafkaError for the first that cannot be."""
    checked: dict[str, str] = {}
    values: dict[str, Value] = {}
    for name, text in configs.items():
        definition = TOPIC_CONFIGS.get(name)
        if definition is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no topic config {name[:_QUOTED_CHARACTERS_MAX]!r}")
        values[name] = parse(definition, text)
        checked[name] = text_of(values[name]) or ""
    _check_together(values)
    return checked


def places_of(
    definition: ConfigDefinition, own: Mapping[str, str], broker_configs: BrokerConfigs
) -> list[ConfiguredValue]:
    """Every place where this topic config has a value, the one that applies first, by the name and in the unit that it
    has there."""
    values = []
    if definition.name in own:
        values.append(ConfiguredValue(definition.name, own[definition.name], ConfigSource.TOPIC))
    values.extend(broker_configs.layered(synonym.name for synonym in definition.synonyms))
    for synonym in definition.synonyms:
        if synonym.default is not None:
            values.append(ConfiguredValue(synonym.name, text_of(synonym.default), ConfigSource.DEFAULT))
    return values


def effective_value(
    definition: ConfigDefinition, own: Mapping[str, str], broker_configs: BrokerConfigs
) -> tuple[Value, ConfigSource]:
    """The value that applies to a topic, in the topic config's unit, and where it was set."""
    if definition.name in own:
        return parse(definition, own[definition.name]), ConfigSource.TOPIC
    for set_value in broker_configs.layered(synonym.name for synonym in definition.synonyms):
        value = parse(BROKER_CONFIGS[set_value.name], set_value.text)
        factor = next(each.milliseconds for each in definition.synonyms if each.name == set_value.name)
        if factor != 1 and isinstance(value, int) and value > 0:  # -1 means "no bound" in every unit
            value = min(value * factor, _LONG_MAX)
        return value, set_value.source
    return definition.default, ConfigSource.DEFAULT


def settings_of(own: Mapping[str, str], broker_configs: BrokerConfigs) -> TopicSettings:
    """What applies to a topic that sets `own` itself."""

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
            batch_bytes_max=number("max.message.bytes"),
            needs_keys="compact" in cleanup,
            append_time=value("message.timestamp.type") == "LogAppendTime",
            timestamp_before_ms_max=number("message.timestamp.before.max.ms"),
            timestamp_after_ms_max=number("message.timestamp.after.max.ms"),
            compression=compression,
            compression_level=None if level is None else number(level),
        ),
        min_insync_replicas=number("min.insync.replicas"),
        unclean_election=value("unclean.leader.election.enable") is True,
        replication_policy=str(value("replication.policy")),
        reads_uncommitted=value("consumer.consistency") == "uncommitted",
    )


_LONG_MAX = 2**63 - 1
_QUOTED_CHARACTERS_MAX = 200
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


def _check_together(values: Mapping[str, Value]) -> None:
    """What no config can be checked for alone."""
    low = values.get("min.compaction.lag.ms", TOPIC_CONFIGS["min.compaction.lag.ms"].default)
    high = values.get("max.compaction.lag.ms", TOPIC_CONFIGS["max.compaction.lag.ms"].default)
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms: {low} is not allowed; it is at most max.compaction.lag.ms, which is {high}",
        )
