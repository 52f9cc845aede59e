"""Environment variables of settings for single listeners.

`TAILRACE_BROKER_LISTENER_NAME_PUBLIC_1_SSL_CLIENT_AUTH` is `listener.name.public_1.ssl.client.auth`.
"""

import re
from collections.abc import Iterable

from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.security_config_table import is_per_listener
from tailrace.runtime.settings_sources import BROKER_PREFIX, broker_variable_of
from tailrace.security.settings.listener_overrides import override_of

_OVERRIDE = re.compile(f"{BROKER_PREFIX}LISTENER_NAME_(PUBLIC(?:_[0-9]+)?|PRIVATE|METRICS)_(.+)")


def listener_overrides(variables: Iterable[str]) -> list[str]:
    """Returns the settings of single listeners that are among the names of environment variables."""
    found = []
    for variable in variables:
        match = _OVERRIDE.fullmatch(variable)
        name = None if match is None else _settings().get(f"{BROKER_PREFIX}{match[2]}")
        if match is not None and name is not None:
            found.append(override_of(name, match[1]))
    return found


def _settings() -> dict[str, str]:
    """Returns the settings that listeners may have of their own, by their environment variables."""
    return {broker_variable_of(name): name for name in BROKER_CONFIGS if is_per_listener(name)}
