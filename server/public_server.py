"""Accepts clients on the public listeners and runs a `ClientConnection` for each, within the limits of the settings."""

from collections import Counter
from collections.abc import Mapping

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.cluster.client_view import ConnectedListener
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.apis import Api
from tailrace.runtime.network import Address, Connection, Listener
from tailrace.runtime.settings import ListenerSettings

from .client_connection import AnsweredRoute, ClientConnection, Dispatcher
from .inbox import Inbox, ReceiveBuffers
from .listening import accept
from .request_memory import RequestMemory
from .server_metrics import ServerMetrics

IDLE_RECHECK_SECONDS = 10
SEE_OFF_SECONDS_MAX = 1
IDLE_RECHECK_SECONDS_MIN = 0.1


class PublicServer:
    def __init__(
        self,
        dispatcher: Dispatcher,
        apis: Mapping[int, Api],
        configs: BrokerConfigs,
        metrics: ServerMetrics,
        logger: FilteringBoundLogger,
        *,
        clients_max: int,
    ) -> None:
        """`clients_max`: how many this process can bear, whatever the configs allow."""
        self._dispatcher = dispatcher
        self._clients_max = clients_max
        self._apis = apis
        self._routes: dict[tuple[int, int], AnsweredRoute] = {}
        self._configs = configs
        self._metrics = metrics
        self._logger = logger
        self._memory = RequestMemory(configs.settings.queued_request_bytes_max)
        self._buffers = ReceiveBuffers()
        self._connections: set[ClientConnection] = set()
        self._per_address: Counter[str] = Counter()
        self._finishing = False
        self._accepting: list[trio.CancelScope] = []
        self._client_left = trio.Event()

    async def serve(self, listener: Listener, settings: ListenerSettings) -> None:
        """Accepts on one listener until clients are seen off; then it closes, so that others are tried at once."""
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as accepting:
                self._accepting.append(accepting)
                await self._accept(listener, settings, nursery)
            listener.close()

    async def _accept(self, listener: Listener, settings: ListenerSettings, nursery: trio.Nursery) -> None:
        while True:
            connection = await accept(listener, settings.name, self._logger)
            if self._finishing:
                connection.close()
                continue
            reason = self._full(connection.remote.host)
            if reason is not None:
                self._metrics.refused_connections += 1
                self._logger.warning("connection_refused", client=str(connection.remote), reason=reason)
                connection.close()
                continue
            # Counted before anyone else is accepted: those who come at once must not slip past the limits together.
            client = self._admit(connection, _seen_by(connection, settings))
            nursery.start_soon(self._run_client, client, connection.remote.host)

    async def see_off_clients(self) -> None:
        """Handles no more requests. Returns when every client has read its answers and gone, or soon."""
        self._finishing = True
        for accepting in self._accepting:
            accepting.cancel()
        for client in self._connections:
            client.finish()
        with trio.move_on_after(SEE_OFF_SECONDS_MAX):
            while self._connections:
                self._client_left = trio.Event()
                await self._client_left.wait()

    def _full(self, host: str) -> str | None:
        """Why one more connection from this host cannot be taken."""
        settings = self._configs.settings
        if len(self._connections) >= settings.connections_max:
            return f"max.connections is {settings.connections_max}"
        if len(self._connections) >= self._clients_max:
            return f"the open files that this process may have are enough for {self._clients_max} clients"
        if self._per_address[host] >= settings.connections_per_address_max:
            return f"max.connections.per.ip is {settings.connections_per_address_max}"
        return None

    def _admit(self, connection: Connection, listener: ConnectedListener) -> ClientConnection:
        client = ClientConnection(
            connection,
            listener,
            self._dispatcher,
            self._apis,
            self._routes,
            Inbox(self._buffers, self._configs.settings.request_bytes_max),
            self._memory,
            self._metrics,
            self._logger,
        )
        self._connections.add(client)
        self._per_address[connection.remote.host] += 1
        self._metrics.accepted_connections += 1
        self._metrics.open_connections += 1
        return client

    async def _run_client(self, client: ClientConnection, host: str) -> None:
        try:
            await client.run()
        finally:
            self._connections.discard(client)
            self._client_left.set()
            self._per_address[host] -= 1
            if not self._per_address[host]:
                del self._per_address[host]
            self._metrics.open_connections -= 1

    async def close_idle(self) -> None:
        """Closes connections on which nothing has moved for too long. Runs until cancelled."""
        while True:
            idle_seconds_max = self._configs.settings.connection_idle_ms_max / 1000
            if idle_seconds_max < 0:  # Kafka's way to say "never"
                await trio.sleep(IDLE_RECHECK_SECONDS)
                continue
            now = trio.current_time()
            oldest = now
            for client in list(self._connections):
                if client.is_closing:
                    continue
                if now - client.last_active >= idle_seconds_max:
                    self._metrics.idle_closed_connections += 1
                    client.close("idle")
                else:
                    oldest = min(oldest, client.last_active)
            # Nobody can be due before the one that has been quiet the longest; a shorter limit is seen in good time.
            due = max(oldest + idle_seconds_max, now + max(idle_seconds_max / 20, IDLE_RECHECK_SECONDS_MIN))
            await trio.sleep_until(min(due, now + IDLE_RECHECK_SECONDS))


def _seen_by(connection: Connection, settings: ListenerSettings) -> ConnectedListener:
    advertised: Address = settings.advertised or connection.local
    return ConnectedListener(settings.name, (advertised.host, advertised.port))
