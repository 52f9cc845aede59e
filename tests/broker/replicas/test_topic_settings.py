"""Settings that storage and produce get from configs."""

import pytest

from tailrace.broker.peers.peer_frames import RECORDS_BYTES_MAX
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.topic_config_table import HOUR_MS, TOPIC_CONFIGS
from tailrace.cluster.configs.topic_configs import check_topic_configs
from tailrace.protocol.batches.compression import Compression
from tailrace.storage.log_config import LogConfig


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
    assert settings.replication_policy == "live"
    assert settings.lag_records_max == 1_000_000
    assert settings.lag_seconds_max == 10
    assert not settings.reads_uncommitted
    assert not settings.shelves
    assert (settings.local_retention_ms, settings.local_retention_bytes) == (7 * 24 * HOUR_MS, -1)


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
            "lrs.max.lag.records": "16",
            "lrs.max.lag.ms": "1700",
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
    assert settings.replication_policy == "nrw:3,2,2"
    assert settings.lag_records_max == 16
    assert settings.lag_seconds_max == 1.7
    assert settings.reads_uncommitted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("remote.storage.enable", "false"),
        ("remote.log.copy.disable", "true"),
        ("log.cleanup.policy", "compact"),
        ("unclean.leader.election.enable", "true"),
    ],
)
def test_shelves_must_be_enabled_and_exclude_topics_that_may_change(name: str, value: str) -> None:
    own = {"remote.storage.enable": "true"}
    assert settings_of(own, BrokerConfigs({})).shelves
    if name in TOPIC_CONFIGS and name not in BROKER_CONFIGS:
        assert not settings_of({**own, name: value}, BrokerConfigs({})).shelves
    else:
        assert not settings_of(own, BrokerConfigs({name: value})).shelves


@pytest.mark.parametrize(
    ("local", "total", "effective"),
    [(-2, 7, 7), (-2, -1, -1), (-1, -1, -1), (5, -1, 5), (5, 7, 5), (-1, 7, 7), (9, 7, 7), (0, 7, 0)],
)
def test_local_retention_is_at_most_total_retention(local: int, total: int, effective: int) -> None:
    names = ("log.local.retention.ms", "log.retention.ms", "log.local.retention.bytes", "log.retention.bytes")
    values = map(str, (local, total, local, total))
    settings = settings_of({}, BrokerConfigs(dict(zip(names, values, strict=True))))
    assert (settings.local_retention_ms, settings.local_retention_bytes) == (effective, effective)


def test_no_batch_is_taken_that_could_not_reach_a_follower() -> None:
    largest = str(2**31 - 1)
    assert settings_of({"max.message.bytes": largest}, BrokerConfigs({})).produce.batch_bytes_max == RECORDS_BYTES_MAX
    broker = BrokerConfigs({"message.max.bytes": largest})
    assert settings_of({}, broker).produce.batch_bytes_max == RECORDS_BYTES_MAX


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
