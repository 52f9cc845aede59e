"""Shakes hands with clients of encrypted listeners, within bounds of time and number.

If too many handshakes are in progress, the oldest one ends. A client in good faith needs milliseconds, so the oldest
are those of clients that do not go on.
"""

from collections import OrderedDict

import trio

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection
from tailrace.runtime.tls.tls_connection import TlsConnection
from tailrace.security.identity.principal import ANONYMOUS, Principal
from tailrace.security.identity.principal_mapping import UnmappedNameError
from tailrace.server.foreign_clients import ForeignClients

from .refusal_reasons import refusal_of
from .server_tls import ServerTls

HANDSHAKE_SECONDS_MAX = 10.0
HANDSHAKES_MAX = 1000
"""The number of handshakes in progress at which the oldest one ends."""


class Handshakes:
    """The handshakes in progress on all listeners of a server."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._in_progress: OrderedDict[Connection, trio.CancelScope] = OrderedDict()
        """The connections, the oldest first."""
        self._refused = ForeignClients()

    @property
    def count(self) -> int:
        """The number of handshakes in progress."""
        return len(self._in_progress)

    async def shake(
        self, connection: Connection, tls: ServerTls, listener: str, *, logs_in: bool = False
    ) -> tuple[TlsConnection, Principal] | None:
        """Returns the encrypted connection, and the user whom the client's certificate names.

        If the client `logs_in` with SASL, its certificate names no user. Returns None, after it has logged the reason,
        if client and server do not come to terms. The caller closes the connection then.
        """
        if len(self._in_progress) >= HANDSHAKES_MAX:
            _, oldest = self._in_progress.popitem(last=False)
            oldest.cancel()
        reason = f"the client has not finished the handshake within {HANDSHAKE_SECONDS_MAX:g} s"
        with trio.move_on_after(HANDSHAKE_SECONDS_MAX) as scope:
            self._in_progress[connection] = scope
            try:
                encrypted = tls.accept(connection)
                await encrypted.shake_hands()
                return encrypted, ANONYMOUS if logs_in else tls.principal_of(encrypted)
            except (OSError, UnmappedNameError) as error:
                reason = refusal_of(error)
            finally:
                self._in_progress.pop(connection, None)
        if scope.cancelled_caught and scope.deadline > trio.current_time():
            reason = f"{HANDSHAKES_MAX} handshakes were in progress, and this was the oldest"
        self._log(connection, listener, reason)
        return None

    def _log(self, connection: Connection, listener: str, reason: str) -> None:
        """Logs one line a minute for each address, because clients try again many times a second."""
        remote = connection.remote
        connections = self._refused.count_to_log(remote.host, trio.current_time())
        if connections is not None:
            self._logger.warning(
                "handshake_refused", client=str(remote), listener=listener, reason=reason, connections=connections
            )
