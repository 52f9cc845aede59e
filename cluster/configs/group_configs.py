"""Finds the configs that apply to a consumer group (its own, the SPU's, or the default), and checks its own ones."""

from collections.abc import Mapping

from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .broker_configs import BrokerConfigs
from .config_definitions import ConfigSource
from .group_config_table import GROUP_CONFIGS
from .topic_configs import effective_value

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"


def number_for_group(name: str, own: Mapping[str, str], broker_configs: BrokerConfigs) -> int:
    """Returns the value that applies to a group, within the bounds of the broker configs, which may have changed."""
    low, high = _bounds(name, broker_configs)
    return min(max(_number(name, own, broker_configs), low), high)


def check_group_configs(own: Mapping[str, str], broker_configs: BrokerConfigs) -> None:
    """Raises KafkaError if a group may not have this combination of configs. Each config is valid by itself."""
    for name in own.keys() & GROUP_CONFIGS.keys():
        low, high = _bounds(name, broker_configs)
        if not low <= _number(name, own, broker_configs) <= high:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{name}: {own[name]} is not allowed; it must be from {low} to {high}, "
                f"as {_bound_name('min', name)} and {_bound_name('max', name)} say",
            )
    timeout_ms = _number(SESSION_TIMEOUT, own, broker_configs)
    interval_ms = _number(HEARTBEAT_INTERVAL, own, broker_configs)
    if timeout_ms <= interval_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{SESSION_TIMEOUT}: {timeout_ms} is not allowed; it must be more than {HEARTBEAT_INTERVAL}, "
            f"which is {interval_ms}",
        )


def _number(name: str, own: Mapping[str, str], broker_configs: BrokerConfigs) -> int:
    value, _ = effective_value(GROUP_CONFIGS[name], own, broker_configs, ConfigSource.GROUP)
    assert isinstance(value, int), "all group configs are whole numbers"
    return value


def _bounds(name: str, broker_configs: BrokerConfigs) -> tuple[int, int]:
    return broker_configs.number(_bound_name("min", name)), broker_configs.number(_bound_name("max", name))


def _bound_name(bound: str, name: str) -> str:
    """Returns the name of a bound, as `group.consumer.max.session.timeout.ms` for `consumer.session.timeout.ms`."""
    protocol, _, rest = name.partition(".")
    return f"group.{protocol}.{bound}.{rest}"
