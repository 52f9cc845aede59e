"""What a server knows about the security of its listeners, from its settings."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from tailrace.runtime.files import Files
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.seams import Seams
from tailrace.runtime.wall_clock import WallClock
from tailrace.security.records.security_tables import SecurityTables
from tailrace.security.settings.security_protocol import SecurityProtocol
from tailrace.security.settings.security_settings import parse_security_settings

from .server_metrics import LoginCounts

if TYPE_CHECKING:
    from tailrace.security.settings.sasl_settings import SaslSettings

    from .auditing.audit_trail import AuditTrail
    from .authentication.logins import Logins
    from .encryption.certificate_watch import CertificateWatch
    from .encryption.server_tls import ServerTls


class ListenerSecurity(Struct, frozen=True):
    """How one listener protects its connections."""

    name: str
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: "ServerTls | None" = None
    """TLS of the listener; None if it is not encrypted."""
    sasl: "SaslSettings | None" = None
    """The settings of SASL; None if clients of the listener do not log in."""


class ServerSecurity(Struct, frozen=True):
    """How a server protects its listeners, and what it demands of clients."""

    listeners: Mapping[str, ListenerSecurity] = {}
    """The listeners that are not plain, by name."""

    def new_logins(
        self,
        tables: SecurityTables,
        seams: Seams,
        counts: LoginCounts,
        logger: FilteringBoundLogger,
        audit: "AuditTrail | None" = None,
    ) -> "Logins | None":
        """Returns what clients of the listeners with SASL log in with; None if there are no such listeners."""
        listeners = {name: each.sasl for name, each in self.listeners.items() if each.sasl is not None}
        if not listeners:
            return None
        from .authentication.logins import Logins  # imported here because most servers need no logins

        return Logins(listeners, tables, seams, counts, logger, audit)

    def watch(self, wall_clock: WallClock, logger: FilteringBoundLogger) -> "CertificateWatch | None":
        """Returns what watches how long certificates are valid; None if no listener is encrypted."""
        encrypted = {name: each.tls for name, each in self.listeners.items() if each.tls is not None}
        if not encrypted:
            return None
        from .encryption.certificate_watch import CertificateWatch  # imported here because it needs a large library

        return CertificateWatch(encrypted, wall_clock, logger)

    def listener(self, name: str) -> ListenerSecurity:
        """Returns the security of a listener."""
        return self.listeners.get(name) or ListenerSecurity(name)


OPEN = ServerSecurity()
"""No security at all, which is the default."""


def load_server_security(
    broker: Mapping[str, str], listeners: Iterable[str], files: Files, logger: FilteringBoundLogger
) -> ServerSecurity:
    """Loads the security of the named listeners from broker settings. Raises SettingsError."""
    settings = parse_security_settings(broker)
    if settings.are_plain:
        return OPEN
    from .encryption.server_tls import ServerTls  # imported here because most servers on developers' machines are open

    loaded: dict[str, ListenerSecurity] = {}
    for name in listeners:
        listener = settings.listener(name)
        if listener.protocol is SecurityProtocol.PLAINTEXT:
            continue
        tls = None if listener.tls is None else ServerTls(listener.tls, name, files, logger)
        loaded[name] = ListenerSecurity(name, listener.protocol, tls, listener.sasl)
    return ServerSecurity(loaded)
