"""Accepts connections of SPUs on the SC's private port, 9004, for the Connection Manager."""

import trio

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection, Listener
from tailrace.server.encryption.server_links import accept_server
from tailrace.server.encryption.server_tls import ServerTls
from tailrace.server.foreign_clients import ForeignClients
from tailrace.server.listening import accept

from .connection_manager import ConnectionManager

CONNECTIONS_MAX = 1000
HANDSHAKE_SECONDS_MAX = 5.0


class PrivateServer:
    """The server on the private port."""

    def __init__(
        self, connections: ConnectionManager, logger: FilteringBoundLogger, tls: ServerTls | None = None
    ) -> None:
        self._connections = connections
        self._logger = logger
        self._tls = tls
        self._refused = ForeignClients()
        self._open = 0

    async def serve(self, listener: Listener) -> None:
        """Accepts connections until it is cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                connection = await accept(listener, "PRIVATE", self._logger)
                if self._open >= CONNECTIONS_MAX:
                    reason_full = f"{CONNECTIONS_MAX} connections are open"
                    self._logger.warning("connection_refused", client=str(connection.remote), reason=reason_full)
                    connection.close()
                    continue
                self._open += 1
                nursery.start_soon(self._serve_one, connection)

    async def _serve_one(self, connection: Connection) -> None:
        try:
            accepted = await self._accept(connection)
            if accepted is None:
                connection.close()
            else:
                await self._connections.serve(accepted)
        finally:
            self._open -= 1

    async def _accept(self, connection: Connection) -> Connection | None:
        """Shakes hands if the port is encrypted. Returns None, after it has logged the reason, if that fails."""
        reason = f"it has not finished the handshake within {HANDSHAKE_SECONDS_MAX:g} s"
        with trio.move_on_after(HANDSHAKE_SECONDS_MAX):
            try:
                return await accept_server(connection, self._tls)
            except OSError as error:
                reason = str(error)
        connections = self._refused.count_to_log(connection.remote.host, trio.current_time())
        if connections is not None:
            self._logger.warning(
                "private_request_refused", peer=str(connection.remote), reason=reason, connections=connections
            )
        return None
