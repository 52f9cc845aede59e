"""Tests the precedence of broker configs: of one SPU, of all SPUs, of the start, and defaults."""

import pytest

from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.broker_configs import COMPACTION_BACKOFF_MS_MIN, BrokerConfigs
from tailrace.cluster.configs.config_definitions import ConfigSource
from tailrace.runtime.settings import SettingsError


def test_defaults_apply_where_nothing_is_set() -> None:
    settings = BrokerConfigs({}).settings
    assert settings.partitions_default == 1
    assert settings.auto_create_topics is True
    assert settings.request_bytes_max == 100 << 20


def test_each_layer_wins_over_the_next() -> None:
    configs = BrokerConfigs({"num.partitions": "2"})
    assert configs.settings.partitions_default == 2
    configs.use_dynamic(own={}, default={"num.partitions": "3"})
    assert configs.settings.partitions_default == 3
    configs.use_dynamic(own={"num.partitions": "4"}, default={"num.partitions": "3"})
    assert configs.settings.partitions_default == 4
    places = configs.values(BROKER_CONFIGS["num.partitions"])
    assert places == [
        ("num.partitions", "4", ConfigSource.DYNAMIC_BROKER),
        ("num.partitions", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("num.partitions", "2", ConfigSource.STATIC_BROKER),
        ("num.partitions", "1", ConfigSource.DEFAULT),
    ]
    configs.use_dynamic(own={}, default={})
    assert configs.settings.partitions_default == 2


def test_facts_are_configs_too() -> None:
    configs = BrokerConfigs({}, {"broker.id": "7"})
    assert configs.value("broker.id") == 7
    assert configs.value("broker.rack") is None
    assert configs.values(BROKER_CONFIGS["broker.rack"]) == []
    configs.use_rack("a")
    assert configs.values(BROKER_CONFIGS["broker.rack"]) == [("broker.rack", "a", ConfigSource.STATIC_BROKER)]
    configs.use_rack(None)
    assert configs.value("broker.rack") is None


def test_compaction_that_is_not_to_rest_leaves_time_for_all_else() -> None:
    configs = BrokerConfigs({"log.cleaner.backoff.ms": "0"})
    assert configs.settings.compaction_backoff_ms == COMPACTION_BACKOFF_MS_MIN
    assert configs.number("log.cleaner.backoff.ms") == 0


@pytest.mark.parametrize(
    ("static", "sentence"),
    [
        ({"num.partition": "3"}, "there is no broker setting 'num.partition'; did you mean 'num.partitions'?"),
        ({"zzz": "3"}, "there is no broker setting 'zzz'"),
        ({"broker.id": "7"}, "broker.id cannot be set directly; it follows from the SPU's --id"),
        ({"broker.rack": "a"}, "broker.rack cannot be set directly; it follows from the SPU's registration"),
        ({"listeners": "X://a:1"}, "listeners cannot be set directly; it follows from the SPU's --public"),
        ({"num.partitions": "0"}, "num.partitions: '0' is not allowed; it takes a number of at least 1"),
        ({"log.retention.hours": "x"}, "log.retention.hours: 'x' is not allowed; it takes a whole number of 32 bits"),
        (
            {"group.consumer.session.timeout.ms": "70000"},
            "group.consumer.session.timeout.ms: 70000 is not allowed; it must be at most "
            "group.consumer.max.session.timeout.ms, which is 60000",
        ),
        (
            {"group.consumer.min.session.timeout.ms": "5000", "group.consumer.session.timeout.ms": "5000"},
            "group.consumer.heartbeat.interval.ms must be shorter than group.consumer.session.timeout.ms",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_told_to_who_started_the_spu(static: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        BrokerConfigs(static)
    assert str(refused.value) == sentence
