"""The broker configs of delegation tokens."""

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.token_config_table import BROKER_CONFIGS_OF_TOKENS
from tailrace.controller.administration.token_requests import token_settings
from tailrace.security.settings.secret import Secret
from tailrace.security.tokens.token_rules import TokenSettings

DAY_MS = 24 * 60 * 60 * 1000


def test_defaults_are_those_of_kafka() -> None:
    assert token_settings(BrokerConfigs({})) == TokenSettings(None, 7 * DAY_MS, DAY_MS)


def test_the_secret_key_is_never_shown() -> None:
    assert [each.name for each in BROKER_CONFIGS_OF_TOKENS if each.sensitive] == ["delegation.token.secret.key"]
    settings = token_settings(BrokerConfigs({"delegation.token.secret.key": "hidden word"}))
    assert settings.secret == Secret("hidden word")
    assert "hidden word" not in repr(settings)
