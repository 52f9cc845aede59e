import pytest

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.quota_config_table import overrides_of
from tailrace.runtime.settings import SettingsError
from tailrace.security.quotas.quota_window import QuotaWindow


def test_the_defaults_are_those_of_kafka() -> None:
    settings = BrokerConfigs({}).settings
    assert settings.quota_window == settings.mutation_window == QuotaWindow(11, 1000)
    assert settings.connection_rate_max == 2**31 - 1
    assert settings.connections_of_addresses_max == {}


def test_windows_are_set_by_samples_and_seconds() -> None:
    configs = BrokerConfigs({"quota.window.num": "5", "controller.quota.window.size.seconds": "2"})
    assert configs.settings.quota_window == QuotaWindow(5, 1000)
    assert configs.settings.mutation_window == QuotaWindow(11, 2000)


def test_limits_of_addresses_are_parsed() -> None:
    assert overrides_of(("10.0.0.1:200", "::1:0", "[fe80::1]:5")) == {"10.0.0.1": 200, "::1": 0, "fe80::1": 5}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.connections.per.ip.overrides", "localhost:5"),
        ("max.connections.per.ip.overrides", "10.0.0.1"),
        ("max.connections.per.ip.overrides", "10.0.0.1:-1"),
        ("max.connection.creation.rate", "0"),
        ("quota.window.num", "0"),
        ("quota.window.size.seconds", "0"),
        ("controller.quota.window.num", "x"),
    ],
)
def test_wrong_settings_are_refused(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        BrokerConfigs({name: value})
