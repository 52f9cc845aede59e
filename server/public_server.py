"""Accepts clients on the public listeners and runs a `ClientConnection` for each, within the limits of the settings."""

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.apis import Api
from tailrace.runtime.files import Files
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection, Listener
from tailrace.runtime.settings import ListenerSettings
from tailrace.security.identity.principal import ANONYMOUS, USER, Principal
from tailrace.security.quotas.quota_rules import canonical_address

from .client_connection import ClientConnection
from .client_origins import ClientOrigins
from .fairness.crowd import Crowd
from .fairness.large_requests import LargeRequests
from .fairness.request_memory import RequestMemory
from .fairness.response_memory import ResponseMemory
from .foreign_clients import ForeignClients
from .inbox import Inbox, ReceiveBuffers
from .listening import accept
from .request_context import ClientIdentity
from .request_routes import Dispatcher, Guarding, ResolvedRoute
from .security import OPEN, ListenerSecurity, ServerSecurity
from .server_metrics import ServerMetrics
from .throttling.connection_rates import ConnectionRates
from .throttling.server_quotas import ServerQuotas

HELD_CONNECTIONS_MAX = 1000
"""How many throttled connections are kept open for a while before they are closed; further ones are closed at once."""
if TYPE_CHECKING:
    from .auditing.audit_trail import AuditTrail
    from .authentication.logins import Logins
    from .encryption.handshakes import Handshakes
    from .encryption.server_tls import ServerTls

NEWCOMER_SECONDS = 5
"""How long a client has to send its first request, or to log in, before it may have to make room for others."""
ROOM_SECONDS_MAX = 1
"""How long a client waits for the room of one that is being closed."""
IDLE_RECHECK_SECONDS = 10
DRAIN_SECONDS_MAX = 1
"""How long clients have to read their last responses and close when the server stops."""
IDLE_RECHECK_SECONDS_MIN = 0.1
_SERVERS = "servers"
"""What the connections of other servers are counted under, in place of an address."""


class PublicServer:
    """All client connections of one server."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        apis: Mapping[int, Api],
        configs: BrokerConfigs,
        metrics: ServerMetrics,
        logger: FilteringBoundLogger,
        *,
        clients_max: int,
        files: Files,
        quotas: ServerQuotas,
        security: ServerSecurity = OPEN,
        guarding: Guarding | None = None,
        large_requests: LargeRequests | None = None,
        logins: "Logins | None" = None,
        audit: "AuditTrail | None" = None,
    ) -> None:
        """Prepares the server. `clients_max` is the number of clients for which the process has open files.

        `guarding` is None if every client may do everything. `large_requests` are shared with handlers that work in
        steps. `logins` is None if no listener uses SASL.
        """
        self._guarding = guarding
        self._audit = audit
        self._origins = ClientOrigins(files)
        self._quotas = quotas
        self._rates = ConnectionRates(quotas)
        self._held = 0
        """The number of throttled connections that will be closed."""
        self._dispatcher = dispatcher
        self._clients_max = clients_max
        self._apis = apis
        self._routes: dict[tuple[int, int], ResolvedRoute] = {}
        self._configs = configs
        self._metrics = metrics
        self._logger = logger
        self._memory = RequestMemory(configs.settings.queued_request_bytes_max)
        self._responses = ResponseMemory(configs.settings.queued_request_bytes_max)
        self._memory_for_servers = RequestMemory(configs.settings.queued_request_bytes_max)
        self._responses_for_servers = ResponseMemory(configs.settings.queued_request_bytes_max)
        self._large_requests = large_requests or LargeRequests(Crowd())
        self._buffers = ReceiveBuffers()
        self._foreign_clients = ForeignClients()
        self._security = security
        self._logins = logins
        self._handshakes: Handshakes | None = None
        """The handshakes in progress; None until the first client of an encrypted listener comes."""
        self._connections: set[ClientConnection] = set()
        self._newcomers: dict[ClientConnection, float] = {}
        """When clients were accepted of whom no request is known yet, the oldest first. Others may be among them."""
        self._numbers = itertools.count(1)
        self._per_address: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._count_all = 0
        self._finishing = False
        self._accepting: list[trio.CancelScope] = []
        self._client_left = trio.Event()

    async def serve(self, listener: Listener, settings: ListenerSettings) -> None:
        """Accepts clients on one listener until `drain_clients`; then closes it, so that clients try other servers."""
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as accepting:
                self._accepting.append(accepting)
                await self._accept(listener, settings, nursery)
            listener.close()

    async def _accept(self, listener: Listener, settings: ListenerSettings, nursery: trio.Nursery) -> None:
        security, rates = self._security.listener(settings.name), ConnectionRates(self._quotas)
        rate_max = self._configs.limit_of_listener("max.connection.creation.rate", settings.name)
        while True:
            connection = await accept(listener, settings.name, self._logger)
            if self._finishing:
                connection.close()
                continue
            await self._delay(connection, self._rates.delay_ms(self._configs.settings.connection_rate_max))
            refusal_ms = self._rates.refusal_ms(connection.remote.host)
            if refusal_ms:
                self._quotas.metrics.throttled_connections += 1
                self._hold(connection, refusal_ms, nursery)
                continue
            if rate_max is not None:
                await self._delay(connection, rates.delay_ms(rate_max))
            try:
                reason = self._full_for_listener(settings.name) or await self._refusal(connection.remote.host)
            except BaseException:
                connection.close()
                raise
            if reason is not None:
                self._metrics.refused_connections += 1
                self._logger.warning("connection_refused", client=str(connection.remote), reason=reason)
                connection.close()
                continue
            # Count the client before the next one is accepted, so that a burst of clients cannot exceed the limits.
            self._count(connection.remote.host, settings.name, 1)
            reached = self._connected_listener(connection, settings)
            if security.tls is None:
                client = self._admit(connection, reached, security, ANONYMOUS)
                nursery.start_soon(self._run_client, client, connection.remote.host, settings.name)
            else:
                nursery.start_soon(self._run_encrypted, connection, reached, security, security.tls)

    async def _run_encrypted(
        self, connection: Connection, listener: ConnectedListener, security: ListenerSecurity, tls: "ServerTls"
    ) -> None:
        """Shakes hands with a client and serves it."""
        from .encryption.handshakes import Handshakes

        if self._handshakes is None:
            self._handshakes = Handshakes(self._logger)
        host = connection.remote.host
        shaken = await self._handshakes.shake(connection, tls, security.name, logs_in=security.sasl is not None)
        if shaken is None:
            self._metrics.refused_handshakes += 1
            if self._audit is not None:
                self._audit.not_encrypted(str(connection.remote), host)
        if shaken is None or self._finishing:
            self._count(host, listener.name, -1)
            connection.close()
            return
        encrypted, principal = shaken
        await self._run_client(self._admit(encrypted, listener, security, principal), host, listener.name)

    async def _delay(self, connection: Connection, milliseconds: int) -> None:
        """Lets a client wait for its turn, and those behind it as well."""
        if not milliseconds:
            return
        self._quotas.metrics.delayed_connections += 1
        try:
            await trio.sleep(milliseconds / 1000)
        except BaseException:
            connection.close()
            raise

    def _hold(self, connection: Connection, milliseconds: int, nursery: trio.Nursery) -> None:
        """Closes a connection of an address with too many new connections, after a while if there is room for it."""

        async def close_later() -> None:
            try:
                await trio.sleep(milliseconds / 1000)
            finally:
                self._held -= 1
                connection.close()

        if self._held < HELD_CONNECTIONS_MAX and self._count_all + self._held < self._clients_max:
            self._held += 1
            nursery.start_soon(close_later)
        else:
            connection.close()

    def _connected_listener(self, connection: Connection, settings: ListenerSettings) -> ConnectedListener:
        """Returns the listener with the address to advertise to this client: the chosen one, or the reached one."""
        if settings.advertised is not None:
            return ConnectedListener(
                settings.name, (settings.advertised.host, settings.advertised.port), is_chosen=True
            )
        reached = (connection.local.host, connection.local.port)
        is_from_outside = self._origins.is_from_outside(connection.remote.host)
        return ConnectedListener(settings.name, reached, is_from_outside=is_from_outside)

    async def serve_server(self, connection: Connection, listener: str, principal: Principal) -> None:
        """Serves the requests of another server of the cluster, which has introduced itself on a private port.

        No limits for clients apply to it, and it does not share their memory.
        """
        reached = ConnectedListener(listener, (connection.local.host, connection.local.port))
        self._count(_SERVERS, listener, 1)
        security, memory = self._security.listener(listener), (self._memory_for_servers, self._responses_for_servers)
        client = self._admit(connection, reached, security, principal, *memory)
        await self._run_client(client, _SERVERS, listener)

    async def drain_clients(self) -> None:
        """Stops handling requests, and waits a moment for the clients to read their responses and leave."""
        self._finishing = True
        for accepting in self._accepting:
            accepting.cancel()
        for client in self._connections:
            client.finish()
        with trio.move_on_after(DRAIN_SECONDS_MAX):
            while self._connections:
                await self._client_left.wait()

    async def _refusal(self, host: str) -> str | None:
        """Returns why no further connection from this host is accepted; None if there is room.

        If the server is full, the oldest client that has not sent a request or not logged in makes room. Otherwise,
        connections that cost nothing to keep open would lock out everybody else.
        """
        reason = self._full_for_address(host) or self._full()
        if reason is not None and self._full_for_address(host) is None and self._close_newcomer():
            with trio.move_on_after(ROOM_SECONDS_MAX):
                while self._full() is not None:
                    await self._client_left.wait()
            reason = self._full_for_address(host) or self._full()
        return reason

    def _close_newcomer(self) -> bool:
        """Closes the oldest client without a request or a login, if it has had time for that. Returns whether there
        was one."""
        while self._newcomers:
            client, accepted_at = next(iter(self._newcomers.items()))
            is_newcomer = client.is_newcomer and not client.is_closing
            if is_newcomer and trio.current_time() - accepted_at < NEWCOMER_SECONDS:
                return False
            del self._newcomers[client]
            if is_newcomer:
                self._metrics.idle_closed_connections += 1
                client.close("it has sent no request or has not logged in, and another client needs its place")
                return True
        return False

    def _full(self) -> str | None:
        """Why no further connection is accepted from anywhere; None if there is room."""
        settings = self._configs.settings
        if self._count_all >= settings.connections_max:
            return f"max.connections is {settings.connections_max}"
        if self._count_all >= self._clients_max:
            return f"the limit of open files of this process allows {self._clients_max} clients"
        return None

    def _full_for_address(self, host: str) -> str | None:
        """Why no further connection from this host is accepted; None if there is room."""
        settings = self._configs.settings
        own = settings.connections_of_addresses_max
        if own and (most := own.get(canonical_address(host) or host)) is not None:
            if self._per_address[host] >= most:
                return f"max.connections.per.ip.overrides allows {most} from this address"
        elif self._per_address[host] >= settings.connections_per_address_max:
            return f"max.connections.per.ip is {settings.connections_per_address_max}"
        return None

    def _full_for_listener(self, listener: str) -> str | None:
        """Why no further connection to this listener is accepted; None if there is room."""
        most = self._configs.limit_of_listener("max.connections", listener)
        if most is None or self._per_listener[listener] < most:
            return None
        return f"max.connections of the listener {listener} is {most}"

    def _count(self, host: str, listener: str, change: int) -> None:
        """Counts the connections from an address to a listener, which include those that are shaking hands."""
        self._count_all += change
        self._per_listener[listener] += change
        self._per_address[host] += change
        if not self._per_address[host]:
            del self._per_address[host]
        if change < 0:
            self._client_left.set()
            self._client_left = trio.Event()

    def _admit(
        self,
        connection: Connection,
        listener: ConnectedListener,
        security: ListenerSecurity,
        principal: Principal,
        memory: RequestMemory | None = None,
        responses: ResponseMemory | None = None,
    ) -> ClientConnection:
        """Creates the client's connection, which shares the memory of all clients unless it gets another."""
        remote = connection.remote
        identity = ClientIdentity(
            str(remote),
            connection=next(self._numbers),
            principal=principal,
            host=remote.host,
            protocol=security.protocol,
            login=None if self._logins is None else self._logins.begin(security.name),
        )
        if self._audit is not None and principal.kind == USER and principal != ANONYMOUS:
            self._audit.authenticated(identity)
        client = ClientConnection(
            connection,
            listener,
            self._dispatcher,
            self._apis,
            self._routes,
            Inbox(self._buffers, self._configs.settings.request_bytes_max),
            memory or self._memory,
            self._metrics,
            self._foreign_clients,
            self._logger,
            identity,
            quotas=self._quotas,
            guarding=self._guarding,
            large_requests=self._large_requests,
            responses=responses or self._responses,
        )
        client.begin_in_line()
        self._connections.add(client)
        self._metrics.accepted_connections += 1
        self._metrics.open_connections += 1
        return client

    async def _run_client(self, client: ClientConnection, host: str, listener: str) -> None:
        if host != _SERVERS:
            self._newcomers[client] = trio.current_time()
        try:
            await client.run()
        finally:
            self._newcomers.pop(client, None)
            self._connections.discard(client)
            self._count(host, listener, -1)
            self._metrics.open_connections -= 1

    async def close_idle(self) -> None:
        """Closes connections that have been idle for too long. Runs until cancelled."""
        while True:
            idle_seconds_max = self._configs.settings.connection_idle_ms_max / 1000
            if idle_seconds_max < 0:  # in Kafka, a negative value means "never"
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
            # The connection that has been idle longest is due first. Wake up earlier to notice a shortened limit.
            due = max(oldest + idle_seconds_max, now + max(idle_seconds_max / 20, IDLE_RECHECK_SECONDS_MIN))
            await trio.sleep_until(min(due, now + IDLE_RECHECK_SECONDS))
