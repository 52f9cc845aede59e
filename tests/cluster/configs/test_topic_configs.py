"""Tests which value applies to a topic, and its source."""

import pytest

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_definitions import ConfigSource, Value
from tailrace.cluster.configs.topic_config_table import DAY_MS, HOUR_MS, TOPIC_CONFIGS
from tailrace.cluster.configs.topic_configs import (
    check_for_replicas,
    check_topic_configs,
    check_unchanged,
    effective_value,
    places_of,
)
from tailrace.protocol.error_codes import ErrorCode, KafkaError

RETENTION = TOPIC_CONFIGS["retention.ms"]
THROTTLED = "leader.replication.throttled.replicas"


def retention(own: dict[str, str], broker: BrokerConfigs) -> tuple[Value, ConfigSource]:
    return effective_value(RETENTION, own, broker)


SHELVED: dict[str, str | None] = {"remote.storage.enable": "true"}


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


@pytest.mark.parametrize(
    ("configs", "name"),
    [
        ({"no.such.config": "1"}, "no.such.config"),
        ({"retention.ms": None}, "retention.ms"),
        ({"retention.ms": "-2"}, "retention.ms"),
        ({THROTTLED: ",".join(f"{number}:1" for number in range(8000))}, THROTTLED),
        ({"segment.bytes": "1048575"}, "segment.bytes"),
        ({"cleanup.policy": "Compact"}, "cleanup.policy"),
        ({"compression.type": "none"}, "compression.type"),
        ({"compression.gzip.level": "0"}, "compression.gzip.level"),
        ({"remote.storage.enable": "yes"}, "remote.storage.enable"),
        ({"local.retention.ms": "-3"}, "local.retention.ms"),
        ({**SHELVED, "cleanup.policy": "compact"}, "cleanup.policy has compact"),
        ({**SHELVED, "cleanup.policy": "compact,delete"}, "cleanup.policy has compact"),
        ({**SHELVED, "unclean.leader.election.enable": "true"}, "unclean.leader.election.enable"),
        ({**SHELVED, "local.retention.ms": "8", "retention.ms": "7"}, "local.retention.ms: 8"),
        ({**SHELVED, "local.retention.ms": "-1", "retention.ms": "7"}, "local.retention.ms: -1"),
        ({**SHELVED, "local.retention.bytes": "8", "retention.bytes": "7"}, "local.retention.bytes: 8"),
        ({"leader.replication.throttled.replicas": "0"}, "leader.replication.throttled.replicas"),
        ({"leader.replication.throttled.replicas": "*,0:1"}, "leader.replication.throttled.replicas"),
        ({"replication.policy": "nrw:3,2"}, "replication.policy"),
        ({"replication.policy": "nrw:3,1,2"}, "R + W more than N"),
        ({"lrs.max.lag.ms": "0"}, "lrs.max.lag.ms"),
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


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"cleanup.policy": "delete", "local.retention.ms": "7", "retention.ms": "7"},
        {"cleanup.policy": "", "local.retention.bytes": "9"},
        {"local.retention.ms": "-2", "retention.ms": "7"},
        {"local.retention.ms": "-1", "retention.ms": "-1"},
        {"local.retention.bytes": "9", "retention.bytes": "-1"},
    ],
)
def test_a_topic_may_have_shelves(configs: dict[str, str | None]) -> None:
    assert check_topic_configs({**SHELVED, **configs}) == {**SHELVED, **configs}


def test_what_is_kept_by_replicas_alone_is_nobodys_concern_without_shelves() -> None:
    configs: dict[str, str | None] = {"local.retention.ms": "8", "retention.ms": "7", "cleanup.policy": "compact"}
    assert check_topic_configs(configs) == configs


def test_checked_configs_are_canonical() -> None:
    assert check_topic_configs({"cleanup.policy": " delete , compact ", "preallocate": "TRUE"}) == {
        "cleanup.policy": "delete,compact",
        "preallocate": "true",
    }


def test_a_policy_is_for_as_many_replicas_as_a_partition_has() -> None:
    check_for_replicas({"replication.policy": "nrw:3,2,2"}, 3)
    check_for_replicas({}, 2)
    with pytest.raises(KafkaError, match="nrw:3,2,2 is for 3 replicas, but there are 2") as refused:
        check_for_replicas({"replication.policy": "nrw:3,2,2"}, 2)
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_a_policy_stays_what_it_was_when_the_topic_was_created() -> None:
    check_unchanged({"retention.ms": "1"}, {"replication.policy": "live"})
    check_unchanged({"replication.policy": "majority"}, {"replication.policy": "majority", "retention.ms": "2"})
    for before, after in (({}, {"replication.policy": "majority"}), ({"replication.policy": "majority"}, {})):
        with pytest.raises(KafkaError, match="the topic was created with") as refused:
            check_unchanged(before, after)
        assert refused.value.code == ErrorCode.INVALID_CONFIG
