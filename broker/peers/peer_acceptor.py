"""Accepts connections on the private port (9006): admits SPUs that follow this one, and refuses all others.

A refusal is logged with its reason and the remote address. So a Kafka client that was configured with the wrong port
can be found.
"""

import ssl

import trio

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.protocol.foreign_protocols import ForeignProtocolError
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection, Listener
from tailrace.server.encryption.server_links import accept_server
from tailrace.server.encryption.server_tls import ServerTls
from tailrace.server.listening import accept

from .peer_dialler import Use
from .peer_handshake import INTRODUCTION_SECONDS_MAX, RefusedError, accept_introduction
from .peer_messages import PeerIdentity

INTRODUCTIONS_AT_ONCE = 64
INTRODUCTIONS_MAX = 256
"""Further connections wait up to this number, and are closed beyond it: each one holds an open file that a log may
need."""
REFUSED_KEPT_MAX = 1000


class PeerAcceptor:
    """The listening side of the links."""

    def __init__(
        self,
        identity: PeerIdentity,
        cluster: Cluster,
        use: Use,
        logger: FilteringBoundLogger,
        serve_requests: Use | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        """`use` uses the connections for replicas, and `serve_requests` those for requests, if they are served."""
        self._serve_requests = serve_requests
        self._tls = tls
        self._identity = identity
        self._cluster = cluster
        self._use = use
        self._logger = logger
        self._introductions = trio.CapacityLimiter(INTRODUCTIONS_AT_ONCE)
        self._introduction_count = 0
        self._refused: dict[str, None] = {}
        """The reasons logged since an SPU was last admitted. Each is logged once, because refused clients retry."""

    async def serve(self, listener: Listener) -> None:
        """Accepts connections until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                connection = await accept(listener, "PRIVATE", self._logger)
                if self._introduction_count >= INTRODUCTIONS_MAX:
                    self._log_refused(connection, f"{INTRODUCTIONS_MAX} others already wait for their introduction")
                    connection.close()
                    continue
                self._introduction_count += 1
                nursery.start_soon(self._introduce, connection)

    async def _introduce(self, connection: Connection) -> None:
        introduced = None
        try:
            async with self._introductions:
                with trio.move_on_after(INTRODUCTION_SECONDS_MAX):
                    connection = await self._accept(connection)
                    introduced = await accept_introduction(connection, self._identity, self._cluster)
        except (RefusedError, ForeignProtocolError) as refusal:
            self._log_refused(connection, str(refusal))
        except RemoteProtocolError as reason:
            self._logger.warning("private_request_refused", peer=str(connection.remote), reason=str(reason))
        except OSError as error:
            self._logger.debug("connection_broke", peer=str(connection.remote), reason=str(error))
        finally:
            self._introduction_count -= 1
            if introduced is None:
                connection.close()
        if introduced is None:
            return
        self._refused.clear()
        if not introduced.is_for_requests:
            await self._use(connection, introduced.peer)
        elif self._serve_requests is not None:
            await self._serve_requests(connection, introduced.peer)
        else:
            connection.close()

    async def _accept(self, connection: Connection) -> Connection:
        """Shakes hands if the port is encrypted. A peer that ends silently, such as a probe, is no refusal."""
        try:
            return await accept_server(connection, self._tls)
        except ConnectionError as error:
            if not isinstance(error.__cause__, ssl.SSLEOFError | ConnectionResetError):
                raise RefusedError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, str(error)) from error
            raise

    def _log_refused(self, connection: Connection, reason: str) -> None:
        if reason not in self._refused:
            if len(self._refused) >= REFUSED_KEPT_MAX:
                self._refused.clear()
            self._refused[reason] = None
            self._logger.warning("private_request_refused", peer=str(connection.remote), reason=reason)
