"""Serves `/metrics`, `/healthz` and `/readyz` on a port of their own, so that they never queue behind clients."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection, Listener, receive_some, send_all

from .foreign_clients import ForeignClients
from .health import Readiness
from .http_responses import TEXT, http_response
from .listening import accept

if TYPE_CHECKING:
    from .encryption.server_tls import ServerTls

REQUEST_BYTES_MAX = 16 * 1024
SCRAPE_SECONDS_MAX = 10
SCRAPES_AT_ONCE = 8
_OK = b"200 OK"
_UNAVAILABLE = b"503 Service Unavailable"
_METRICS = b"text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    """A small HTTP server that answers one request per connection."""

    def __init__(
        self,
        render: Callable[[], Awaitable[bytes]],
        readiness: Callable[[], Awaitable[Readiness]],
        logger: FilteringBoundLogger,
        tls: "ServerTls | None" = None,
    ) -> None:
        """Prepares the server. `render` returns the metrics, and `readiness` what `/readyz` answers."""
        self._tls = tls
        self._refused = ForeignClients()
        self._render = render
        self._readiness = readiness
        self._logger = logger
        self._limiter = trio.CapacityLimiter(SCRAPES_AT_ONCE)

    async def serve(self, listener: Listener) -> None:
        """Answers one request per connection. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                connection = await accept(listener, "metrics", self._logger)
                await self._limiter.acquire_on_behalf_of(connection)
                nursery.start_soon(self._answer, connection)

    async def _answer(self, accepted: Connection) -> None:
        connection = accepted
        try:
            with trio.move_on_after(SCRAPE_SECONDS_MAX):
                if self._tls is not None:
                    connection = await self._shaken(connection, self._tls)
                request = await _read_head(connection)
                await send_all(connection, await self._response(request))
                if self._tls is not None:
                    await connection.wait_writable()  # until the last encrypted bytes have left this process
        except OSError:
            pass  # the scraper closed the connection
        except AssertionError:
            raise  # a broken invariant ends the process
        except Exception as error:
            # A bug of ours, but a failed scrape is no reason to stop the server.
            self._logger.error("scrape_failed", exc_info=error)
        finally:
            connection.close()
            self._limiter.release_on_behalf_of(accepted)

    async def _shaken(self, connection: Connection, tls: "ServerTls") -> Connection:
        """Shakes hands with a scraper. Raises OSError."""
        from .encryption.refusal_reasons import refusal_of

        encrypted = tls.accept(connection)
        try:
            await encrypted.shake_hands()
        except OSError as error:
            connections = self._refused.count_to_log(connection.remote.host, trio.current_time())
            if connections is not None:
                self._logger.warning(
                    "handshake_refused",
                    client=str(connection.remote),
                    listener="METRICS",
                    reason=refusal_of(error),
                    connections=connections,
                )
            raise
        return encrypted

    async def _response(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or words[0] not in (b"GET", b"HEAD"):
            return http_response(b"405 Method Not Allowed", b"use GET\n")
        status, body, kind = await self._page(words[1].split(b"?", 1)[0])
        response = http_response(status, body, kind)
        return response if words[0] == b"GET" else response[: -len(body)]

    async def _page(self, path: bytes) -> tuple[bytes, bytes, bytes]:
        """Returns the status, the body and the type of the body."""
        if path == b"/metrics":
            return _OK, await self._render(), _METRICS
        if path == b"/healthz":
            return _OK, b"alive\n", TEXT  # Only a loop that turns can answer.
        if path == b"/readyz":
            readiness = await self._readiness()
            return _OK if readiness.is_ready else _UNAVAILABLE, f"{readiness.text}\n".encode(), TEXT
        return b"404 Not Found", b"metrics are at /metrics, health checks at /healthz and /readyz\n", TEXT


async def _read_head(connection: Connection) -> bytes:
    """Reads a request up to its blank line, or as much as there is if it is too long or ends early."""
    head = b""
    buffer = memoryview(bytearray(REQUEST_BYTES_MAX))
    while b"\r\n\r\n" not in head and len(head) < REQUEST_BYTES_MAX:
        count = await receive_some(connection, buffer)
        if count == 0:
            break
        head += buffer[:count]
    return head
