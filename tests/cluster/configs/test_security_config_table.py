"""Tests that the broker configs of security are what Kafka's tools expect."""

import pytest

from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_definitions import ConfigType, text_of
from tailrace.cluster.configs.security_config_table import BROKER_CONFIGS_OF_SECURITY
from tailrace.runtime.settings import SettingsError

AS_IN_KAFKA = {"ssl.client.auth": "none", "ssl.principal.mapping.rules": "DEFAULT"}


def test_defaults_are_those_of_kafka() -> None:
    for name, text in AS_IN_KAFKA.items():
        assert text_of(BROKER_CONFIGS[name].default) == text, name


def test_passwords_are_never_shown() -> None:
    for definition in BROKER_CONFIGS_OF_SECURITY:
        assert definition.sensitive == (definition.type is ConfigType.PASSWORD), definition.name


def test_a_listener_can_have_settings_of_its_own() -> None:
    BrokerConfigs({"listener.name.public.ssl.client.auth": "required"})
    with pytest.raises(SettingsError, match="no broker setting"):
        BrokerConfigs({"listener.name.public.num.partitions": "3"})
    with pytest.raises(SettingsError, match="it takes one of"):
        BrokerConfigs({"listener.name.public.ssl.client.auth": "maybe"})
