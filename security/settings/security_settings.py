"""The settings of security of one server, and of each of its listeners."""

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from tailrace.runtime.settings import SettingsError

from .authorizer_settings import AuthorizerSettings, parse_authorizer_settings
from .security_protocol import SecurityProtocol
from .setting_texts import SettingTexts
from .tls_settings import TlsSettings, parse_tls_settings

if TYPE_CHECKING:
    from .sasl_settings import SaslSettings

PROTOCOL_MAP = "listener.security.protocol.map"
PUBLIC, PRIVATE, METRICS = "PUBLIC", "PRIVATE", "METRICS"
_NUMBERED_PUBLIC = re.compile(r"PUBLIC_[0-9]+")


class ListenerSecuritySettings(Struct, frozen=True):
    """The settings of one listener."""

    name: str
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None
    """The settings of TLS; None if the listener does not use it."""
    sasl: "SaslSettings | None" = None
    """The settings of SASL; None if the listener does not use it."""


class SecuritySettings(Struct, frozen=True):
    """The settings of security of one server."""

    texts: SettingTexts
    protocols: dict[str, SecurityProtocol]
    """The protocols of the listeners that `listener.security.protocol.map` names."""
    authorizer: AuthorizerSettings | None = None
    """The settings of the authorizer; None if there is none."""

    @property
    def are_plain(self) -> bool:
        """Whether no listener uses TLS or SASL."""
        return all(each is SecurityProtocol.PLAINTEXT for each in self.protocols.values())

    def protocol_of(self, listener: str) -> SecurityProtocol:
        """Returns the protocol of a listener. PUBLIC_1, PUBLIC_2 and so on follow PUBLIC unless they are named."""
        found = self.protocols.get(listener)
        if found is None and _NUMBERED_PUBLIC.fullmatch(listener):
            found = self.protocols.get(PUBLIC)
        return found or SecurityProtocol.PLAINTEXT

    def listener(self, name: str) -> ListenerSecuritySettings:
        """Returns the settings of a listener. Raises SettingsError."""
        protocol = self.protocol_of(name)
        tls = parse_tls_settings(self.texts, name, is_mutual=name == PRIVATE) if protocol.uses_tls else None
        return ListenerSecuritySettings(name, protocol, tls, self._sasl(name) if protocol.uses_sasl else None)

    def _sasl(self, listener: str) -> "SaslSettings":
        from .sasl_settings import parse_sasl_settings  # most servers use no SASL

        return parse_sasl_settings(self.texts, listener)

    def check(self, listeners: Collection[str]) -> None:
        """Checks the settings of all listeners of a server. Raises SettingsError.

        Settings of listeners that do not exist are refused, because they have no effect.
        """
        for name in self.protocols:
            if name not in listeners:
                raise SettingsError(
                    f"{PROTOCOL_MAP}: there is no listener {name[:50]!r}; this server has {', '.join(listeners)}"
                )
        known = {each.lower(): each for each in listeners}
        for listener, setting in self.texts.overrides():
            if listener not in known:
                raise SettingsError(
                    f"listener.name.{listener[:50]}.{setting[:100]}: there is no listener {listener[:50].upper()!r}; "
                    f"this server has {', '.join(listeners)}"
                )
            self._check_effect(known[listener], setting)
        for name in listeners:
            self.listener(name)

    def _check_effect(self, listener: str, setting: str) -> None:
        if not setting.startswith(("ssl.", "sasl.")) and setting != "connections.max.reauth.ms":
            if listener in (PRIVATE, METRICS):
                raise SettingsError(
                    f"listener.name.{listener.lower()}.{setting[:100]} has no effect, because limits of connections "
                    "are only for the listeners of clients"
                )
            return
        if setting.startswith("ssl.") and not self.protocol_of(listener).uses_tls:
            raise SettingsError(
                f"listener.name.{listener.lower()}.{setting[:100]} has no effect, because the listener {listener} "
                f"does not use TLS: see {PROTOCOL_MAP}"
            )
        if not setting.startswith("ssl.") and not self.protocol_of(listener).uses_sasl:
            raise SettingsError(
                f"listener.name.{listener.lower()}.{setting[:100]} has no effect, because the listener {listener} "
                f"does not use SASL: see {PROTOCOL_MAP}"
            )


def parse_security_settings(given: Mapping[str, str]) -> SecuritySettings:
    """Parses the settings of security among broker settings. Raises SettingsError."""
    texts = SettingTexts(given)
    protocols: dict[str, SecurityProtocol] = {}
    for entry in texts.listed(PROTOCOL_MAP):
        name, colon, protocol = (part.strip() for part in entry.partition(":"))
        if not colon or not name or protocol not in tuple(SecurityProtocol):
            raise SettingsError(
                f"{PROTOCOL_MAP}: {entry[:100]!r} is not NAME:PROTOCOL with one of {', '.join(SecurityProtocol)}"
            )
        if name in protocols:
            raise SettingsError(f"{PROTOCOL_MAP}: the listener {name[:50]!r} is named twice")
        protocols[name] = SecurityProtocol(protocol)
    for name in (PRIVATE, METRICS):
        if protocols.get(name, SecurityProtocol.PLAINTEXT).uses_sasl:
            raise SettingsError(f"{PROTOCOL_MAP}: {name} takes PLAINTEXT or SSL; only listeners for clients use SASL")
    return SecuritySettings(texts, protocols, parse_authorizer_settings(texts))
