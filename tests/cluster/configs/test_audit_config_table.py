"""The broker configs of the audit log."""

import pytest

from tailrace.cluster.configs.audit_config_table import BROKER_CONFIGS_OF_AUDIT
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.runtime.settings import SettingsError


def test_they_are_set_at_the_start_only() -> None:
    assert all(each.read_only and "Tailrace's own" in each.documentation for each in BROKER_CONFIGS_OF_AUDIT)


@pytest.mark.parametrize(
    ("name", "text"), [("file.bytes", "1000"), ("failure.policy", "panic"), ("retention.bytes", "-2")]
)
def test_wrong_values_are_refused(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"audit.log.{name}"):
        BrokerConfigs({f"audit.log.{name}": text})
