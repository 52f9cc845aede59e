"""Checks the settings of security of a server before it starts, and warns if it is open to everybody."""

from collections.abc import Iterable, Mapping

from tailrace.runtime.network import is_loopback
from tailrace.runtime.settings import ListenerSettings
from tailrace.security.settings.security_protocol import SecurityProtocol
from tailrace.security.settings.security_settings import parse_security_settings


def check_security(broker: Mapping[str, str], listeners: Iterable[ListenerSettings | None]) -> None:
    """Raises SettingsError if a setting is wrong, or if it has no effect because there is no such listener."""
    names = dict.fromkeys(each.name for each in listeners if each is not None)
    parse_security_settings(broker).check(tuple(names))


def warning_of_open_listeners(broker: Mapping[str, str], listeners: Iterable[ListenerSettings]) -> str | None:
    """Returns a warning if listeners without TLS and without SASL can be reached from other machines."""
    settings = parse_security_settings(broker)
    exposed = [
        f"{each.name} {each.address}"
        for each in listeners
        if not is_loopback(each.address.host) and settings.protocol_of(each.name) is SecurityProtocol.PLAINTEXT
    ]
    if not exposed:
        return None
    return (
        f"WARNING: anyone who reaches {' or '.join(exposed)} may read, write and delete everything, because there is "
        "neither TLS nor SASL. Set listener.security.protocol.map (see docs/security.md), or say --insecure if only "
        "trusted machines reach this server."
    )
