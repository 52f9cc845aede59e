"""The logins on all listeners of a server that use SASL."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.seams import Seams
from tailrace.runtime.workers.hard_work import ThreadWorker
from tailrace.security.records.security_tables import SecurityTables
from tailrace.security.settings.sasl_settings import SaslSettings
from tailrace.server.server_metrics import LoginCounts

from .authenticators import Authenticators
from .bearer_key_source import KEY_SET_BYTES_MAX, BearerKeySource
from .login import Login
from .login_log import LoginLog

if TYPE_CHECKING:
    from tailrace.server.auditing.audit_trail import AuditTrail


class Logins:
    """Begins the logins of clients."""

    def __init__(
        self,
        listeners: Mapping[str, SaslSettings],
        tables: SecurityTables,
        seams: Seams,
        counts: LoginCounts,
        logger: FilteringBoundLogger,
        audit: "AuditTrail | None" = None,
    ) -> None:
        """Prepares the mechanisms of each listener."""
        self._tables = tables
        self._seams = seams
        self._log = LoginLog(counts, logger, audit)
        self._worker = ThreadWorker()
        self._downloader = ThreadWorker(may_be_abandoned=True)
        """Downloads keys: a slow server of keys must hold up neither logins with passwords nor the end of a server."""
        self._listeners = {name: self._authenticators(settings) for name, settings in listeners.items()}

    def begin(self, listener: str) -> Login | None:
        """Returns the login of a new client; None if the listener does not use SASL."""
        authenticators = self._listeners.get(listener)
        return None if authenticators is None else Login(authenticators)

    def _authenticators(self, settings: SaslSettings) -> Authenticators:
        keys = None
        if settings.keys_url is not None:
            keys = BearerKeySource(
                settings.keys_url, settings.keys_seconds, self._seams.files, self._download, self._log
            )
        return Authenticators(
            settings, self._tables, self._seams.chance, self._seams.wall_clock, self._worker, self._log, keys
        )

    async def _download(self, url: str) -> bytes:
        from tailrace.runtime.workers.https_download import download  # few servers have keys at a URL

        return await download(url, KEY_SET_BYTES_MAX, self._downloader)
