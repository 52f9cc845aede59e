"""Tests which configs a group may have, and which apply."""

import pytest

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.group_configs import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    check_group_configs,
    number_for_group,
)
from tailrace.protocol.error_codes import ErrorCode, KafkaError


@pytest.mark.parametrize(
    "own",
    [
        {},
        {SESSION_TIMEOUT: "45000"},
        {SESSION_TIMEOUT: "60000", HEARTBEAT_INTERVAL: "15000"},
        {ASSIGNMENT_INTERVAL: "0"},
        {"of.a.later.version": "7"},
    ],
)
def test_what_lies_within_the_bounds_may_be_set(own: dict[str, str]) -> None:
    check_group_configs(own, BrokerConfigs({}))


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (
            {SESSION_TIMEOUT: "44999"},
            "consumer.session.timeout.ms: 44999 is not allowed; it must be from 45000 to 60000, as "
            "group.consumer.min.session.timeout.ms and group.consumer.max.session.timeout.ms say",
        ),
        ({SESSION_TIMEOUT: "60001"}, "from 45000 to 60000"),
        ({HEARTBEAT_INTERVAL: "4999"}, "from 5000 to 15000"),
        ({HEARTBEAT_INTERVAL: "15001"}, "from 5000 to 15000"),
        ({ASSIGNMENT_INTERVAL: "15001"}, "from 0 to 15000"),
    ],
)
def test_what_lies_outside_of_them_may_not(own: dict[str, str], sentence: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_group_configs(own, BrokerConfigs({}))
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert sentence in refused.value.message


def test_heartbeats_come_more_than_once_in_a_session() -> None:
    configs = BrokerConfigs({"group.consumer.min.session.timeout.ms": "6000"})
    check_group_configs({SESSION_TIMEOUT: "6000"}, configs)
    with pytest.raises(KafkaError, match=r"it must be more than consumer\.heartbeat\.interval\.ms"):
        check_group_configs({SESSION_TIMEOUT: "6000", HEARTBEAT_INTERVAL: "6000"}, configs)


def test_a_group_has_its_own_or_that_of_the_broker_within_what_is_allowed_now() -> None:
    configs = BrokerConfigs({"group.consumer.session.timeout.ms": "50000"})
    assert number_for_group(SESSION_TIMEOUT, {}, configs) == 50_000
    assert number_for_group(SESSION_TIMEOUT, {SESSION_TIMEOUT: "55000"}, configs) == 55_000
    narrower = BrokerConfigs({"group.consumer.max.session.timeout.ms": "46000"})
    assert number_for_group(SESSION_TIMEOUT, {SESSION_TIMEOUT: "55000"}, narrower) == 46_000
