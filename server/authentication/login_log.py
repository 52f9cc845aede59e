"""Counts logins and logs those that fail, with one line a minute for each address."""

import trio

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.security.sasl.sasl_steps import Refused
from tailrace.server.foreign_clients import ForeignClients
from tailrace.server.server_metrics import LoginCounts

_SHOWN_CHARACTERS = 100


class LoginLog:
    """What a server counts and logs about the logins on all of its listeners."""

    def __init__(self, counts: LoginCounts, logger: FilteringBoundLogger) -> None:
        self.counts = counts
        self._logger = logger
        self._refused = ForeignClients()

    def on_refused(self, client: str, host: str, listener: str, mechanism: str, refusal: Refused) -> None:
        """Counts a login that failed. Clients try again many times a second, so most of them are not logged."""
        self.counts.failed_logins += 1
        attempts = self._refused.count_to_log(host, trio.current_time())
        if attempts is not None:
            self._logger.warning(
                "authentication_failed",
                client=client,
                listener=listener,
                mechanism=mechanism[:_SHOWN_CHARACTERS],
                user=refusal.name[:_SHOWN_CHARACTERS],
                reason=refusal.reason,
                attempts=attempts,
            )

    def on_key_set_failed(self, url: str, reason: str) -> None:
        """Logs that the keys of bearer tokens could not be read."""
        self._logger.error("key_set_unreadable", url=url, reason=reason)
