"""Counts logins and logs those that fail, with one line a minute for each address. The audit log gets all of them."""

from typing import TYPE_CHECKING

import trio

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.security.sasl.sasl_steps import Refused
from tailrace.server.foreign_clients import ForeignClients
from tailrace.server.request_context import ClientIdentity
from tailrace.server.server_metrics import LoginCounts

if TYPE_CHECKING:
    from tailrace.server.auditing.audit_trail import AuditTrail

_SHOWN_CHARACTERS = 100


class LoginLog:
    """What a server counts and logs about the logins on all of its listeners."""

    def __init__(self, counts: LoginCounts, logger: FilteringBoundLogger, audit: "AuditTrail | None" = None) -> None:
        self.counts = counts
        self._audit = audit
        self._logger = logger
        self._refused = ForeignClients()

    def on_succeeded(self, client: ClientIdentity, *, is_again: bool) -> None:
        """Counts a login."""
        self.counts.repeated_logins += is_again
        self.counts.succeeded_logins += 1
        if self._audit is not None:
            self._audit.authenticated(client)

    def on_refused(self, client: ClientIdentity, listener: str, mechanism: str, refusal: Refused) -> None:
        """Counts a login that failed. Clients try again many times a second, so most of them are not logged."""
        self.counts.failed_logins += 1
        if self._audit is not None:
            self._audit.not_authenticated(client, mechanism, refusal.name, refusal.reason)
        attempts = self._refused.count_to_log(client.host, trio.current_time())
        if attempts is not None:
            self._logger.warning(
                "authentication_failed",
                client=client.address,
                listener=listener,
                mechanism=mechanism[:_SHOWN_CHARACTERS],
                user=refusal.name[:_SHOWN_CHARACTERS],
                reason=refusal.reason,
                attempts=attempts,
            )

    def on_key_set_failed(self, url: str, reason: str) -> None:
        """Logs that the keys of bearer tokens could not be read."""
        self._logger.error("key_set_unreadable", url=url, reason=reason)
