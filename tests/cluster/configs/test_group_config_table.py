"""Tests that the configs of groups and the broker configs behind them are what Kafka's tools expect."""

import pytest

from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.config_definitions import parse, text_of
from tailrace.cluster.configs.group_config_table import BROKER_CONFIGS_OF_GROUPS, GROUP_CONFIGS
from tailrace.protocol.error_codes import KafkaError

AS_IN_KAFKA = {
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.size": "2147483647",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.max.session.timeout.ms": "60000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.max.heartbeat.interval.ms": "15000",
    "group.consumer.max.size": "2147483647",
    "group.consumer.assignors": "uniform,range",
    "group.consumer.migration.policy": "bidirectional",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.minutes": "10080",
    "offsets.retention.check.interval.ms": "600000",
    "offsets.commit.timeout.ms": "5000",
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.segment.bytes": "104857600",
}


def test_defaults_are_those_of_kafka_and_wait_for_a_restart() -> None:
    for name, text in AS_IN_KAFKA.items():
        assert text_of(BROKER_CONFIGS[name].default) == text, name
        assert BROKER_CONFIGS[name].read_only, name


def test_a_group_that_sets_nothing_has_what_the_broker_config_says() -> None:
    for group_config in GROUP_CONFIGS.values():
        (synonym,) = group_config.synonyms
        assert synonym.name == f"group.{group_config.name}"
        assert BROKER_CONFIGS[synonym.name].default == group_config.default
        assert "for groups that do not set it" in BROKER_CONFIGS[synonym.name].documentation


def test_no_config_stands_in_both_tables() -> None:
    assert not {each.name for each in BROKER_CONFIGS_OF_GROUPS} & set(GROUP_CONFIGS)
    assert len({each.name for each in BROKER_CONFIGS_OF_GROUPS}) == len(BROKER_CONFIGS_OF_GROUPS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("group.coordinator.rebalance.protocols", "classic"),
        ("group.coordinator.rebalance.protocols", "consumer,classic,streams"),
        ("group.consumer.migration.policy", "UPGRADE"),
        ("group.consumer.assignors", "range"),
    ],
)
def test_what_is_allowed(name: str, text: str) -> None:
    assert text_of(parse(BROKER_CONFIGS[name], text)) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("group.coordinator.rebalance.protocols", "consumer"),
        ("group.coordinator.rebalance.protocols", "classic,nope"),
        ("group.consumer.migration.policy", "sideways"),
        ("group.consumer.assignors", "cooperative-sticky"),
        ("group.consumer.assignors", ""),
        ("group.max.size", "0"),
        ("offsets.retention.minutes", "0"),
    ],
)
def test_what_is_not(name: str, text: str) -> None:
    with pytest.raises(KafkaError):
        parse(BROKER_CONFIGS[name], text)
