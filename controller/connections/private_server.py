"""Accepts connections of SPUs on the SC's private port, 9004, for the Connection Manager."""

import trio

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection, Listener
from tailrace.server.listening import accept

from .connection_manager import ConnectionManager

CONNECTIONS_MAX = 1000


class PrivateServer:
    """The server on the private port."""

    def __init__(self, connections: ConnectionManager, logger: FilteringBoundLogger) -> None:
        self._connections = connections
        self._logger = logger
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
            await self._connections.serve(connection)
        finally:
            self._open -= 1
