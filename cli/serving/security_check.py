"""Checks the settings of security of a server before it starts, against the listeners that it has."""

from collections.abc import Iterable, Mapping

from tailrace.runtime.settings import ListenerSettings
from tailrace.security.settings.security_settings import parse_security_settings


def check_security(broker: Mapping[str, str], listeners: Iterable[ListenerSettings | None]) -> None:
    """Raises SettingsError if a setting is wrong, or if it has no effect because there is no such listener."""
    names = dict.fromkeys(each.name for each in listeners if each is not None)
    parse_security_settings(broker).check(tuple(names))
