"""Which value applies to a topic, where it comes from, and what storage and produce are told."""

import pytest

from tailrace.broker.broker_configs import BrokerConfigs
from tailrace.broker.config_definitions import ConfigSource, Value
from tailrace.broker.topic_config_table import DAY_MS, HOUR_MS, TOPIC_CONFIGS
from tailrace.broker.topic_configs import check_topic_configs, effective_value, places_of, settings_of
from tailrace.protocol.compression import Compression
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.storage.log_config import LogConfig

RETENTION = TOPIC_CONFIGS["retention.ms"]


def retention(own: dict[str, str], broker: BrokerConfigs) -> tuple[Value, ConfigSource]:
    return effective_value(RETENTION, own, broker)


def test_the_topic_wins_then_the_spu_then_the_default() -> None:
    broker = BrokerConfigs({"log.retention.ms": "4"})
    broker.use_dynamic(own={"log.retention.ms": "2"}, default={"log.retention.ms": "3"})
    assert retention({"retention.ms": "1"}, broker) == (1, ConfigSource.TOPIC)
    assert retention({}, broker) == (2, ConfigSource.DYNAMIC_BROKER)
    broker.use_dynamic(own={}, default={"log.retention.ms": "3"})
    assert retention({}, broker) == (3, ConfigSource.DYNAMIC_DEFAULT_BROKER)
    broker.use_dynamic(own={}, default={})
    assert retention({}, broker) == (4, ConfigSource.STATIC_BROKER)
    assert retention({}, BrokerConfigs({})) == (7 * DAY_MS, ConfigSource.DEFAULT)


@pytest.mark.parametrize(
    ("static", "milliseconds"),
    [
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 3 * 60_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_larger_units_count_where_smaller_ones_are_not_set(static: dict[str, str], milliseconds: int) -> None:
    assert retention({}, BrokerConfigs(static)) == (milliseconds, ConfigSource.STATIC_BROKER)


def test_a_config_of_the_topic_alone_knows_no_broker() -> None:
    policy = TOPIC_CONFIGS["replication.policy"]
    assert effective_value(policy, {}, BrokerConfigs({})) == ("live", ConfigSource.DEFAULT)
    assert places_of(policy, {}, BrokerConfigs({})) == []


def test_places_are_listed_by_the_names_they_have_there() -> None:
    broker = BrokerConfigs({"log.retention.minutes": "9"})
    assert places_of(RETENTION, {"retention.ms": "1"}, broker) == [
        ("retention.ms", "1", ConfigSource.TOPIC),
        ("log.retention.minutes", "9", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_the_settings_of_a_topic_that_sets_nothing() -> None:
    settings = settings_of({}, BrokerConfigs({}))
    assert settings.log == LogConfig(flush_ms=1000, flush_bytes=64 << 20)
    assert settings.produce.batch_bytes_max == 1048588
    assert not settings.produce.needs_keys
    assert not settings.produce.append_time
    assert settings.produce.timestamp_before_ms_max == 2**63 - 1
    assert settings.produce.timestamp_after_ms_max == HOUR_MS
    assert settings.produce.compression is None
    assert settings.min_insync_replicas == 1
    assert not settings.reads_uncommitted


def test_every_config_reaches_its_setting() -> None:
    own = check_topic_configs(
        {
            "cleanup.policy": "compact",
            "retention.ms": "1",
            "retention.bytes": "2",
            "delete.retention.ms": "3",
            "min.cleanable.dirty.ratio": "0.25",
            "min.compaction.lag.ms": "4",
            "max.compaction.lag.ms": "5",
            "segment.bytes": "1048577",
            "segment.ms": "6",
            "segment.index.bytes": "77",
            "index.interval.bytes": "8",
            "flush.messages": "9",
            "flush.ms": "10",
            "flush.bytes": "11",
            "max.message.bytes": "12",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "13",
            "message.timestamp.after.max.ms": "14",
            "min.insync.replicas": "15",
            "unclean.leader.election.enable": "true",
            "replication.policy": "nrw:3,2,2",
            "consumer.consistency": "uncommitted",
        }
    )
    settings = settings_of(own, BrokerConfigs({}))
    assert settings.log == LogConfig(
        segment_bytes_max=1048577,
        segment_age_ms_max=6,
        index_interval_bytes=8,
        index_bytes_max=77,
        retention_ms=1,
        retention_bytes=2,
        deletes=False,
        compacts=True,
        delete_retention_ms=3,
        min_cleanable_dirty_ratio=0.25,
        min_compaction_lag_ms=4,
        max_compaction_lag_ms=5,
        flush_messages=9,
        flush_ms=10,
        flush_bytes=11,
    )
    assert settings.produce.batch_bytes_max == 12
    assert settings.produce.needs_keys
    assert settings.produce.append_time
    assert settings.produce.timestamp_before_ms_max == 13
    assert settings.produce.timestamp_after_ms_max == 14
    assert settings.min_insync_replicas == 15
    assert settings.unclean_election
    assert settings.replication_policy == "nrw:3,2,2"
    assert settings.reads_uncommitted


def test_tests_may_have_smaller_segments_than_users() -> None:
    assert settings_of({"internal.segment.bytes": "500"}, BrokerConfigs({})).log.segment_bytes_max == 500


@pytest.mark.parametrize(
    ("name", "compression", "level"),
    [
        ("producer", None, None),
        ("uncompressed", Compression.NONE, None),
        ("gzip", Compression.GZIP, 4),
        ("snappy", Compression.SNAPPY, None),
        ("lz4", Compression.LZ4, 9),
        ("zstd", Compression.ZSTD, 3),
    ],
)
def test_compression_comes_with_its_level(name: str, compression: Compression | None, level: int | None) -> None:
    settings = settings_of({"compression.type": name, "compression.gzip.level": "4"}, BrokerConfigs({}))
    assert (settings.produce.compression, settings.produce.compression_level) == (compression, level)


@pytest.mark.parametrize(
    ("configs", "name"),
    [
        ({"no.such.config": "1"}, "no.such.config"),
        ({"retention.ms": None}, "retention.ms"),
        ({"retention.ms": "-2"}, "retention.ms"),
        ({"segment.bytes": "1048575"}, "segment.bytes"),
        ({"cleanup.policy": "Compact"}, "cleanup.policy"),
        ({"compression.type": "none"}, "compression.type"),
        ({"compression.gzip.level": "0"}, "compression.gzip.level"),
        ({"remote.storage.enable": "true"}, "remote.storage.enable"),
        ({"leader.replication.throttled.replicas": "0"}, "leader.replication.throttled.replicas"),
        ({"leader.replication.throttled.replicas": "*,0:1"}, "leader.replication.throttled.replicas"),
        ({"replication.policy": "nrw:3,2"}, "replication.policy"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, "min.compaction.lag.ms"),
    ],
)
def test_a_config_that_cannot_be_is_named(configs: dict[str, str | None], name: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_topic_configs(configs)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert name in refused.value.message


@pytest.mark.parametrize("value", ["*", "", "0:1", "0:1,12:3"])
def test_throttled_replicas_are_all_none_or_pairs(value: str) -> None:
    name = "leader.replication.throttled.replicas"
    assert check_topic_configs({name: value}) == {name: value}


def test_checked_configs_are_canonical() -> None:
    assert check_topic_configs({"cleanup.policy": " delete , compact ", "preallocate": "TRUE"}) == {
        "cleanup.policy": "delete,compact",
        "preallocate": "true",
    }
