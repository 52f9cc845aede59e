"""Serves `/metrics` to Prometheus, on a port of its own so that a scrape never queues behind clients."""

from collections.abc import Awaitable, Callable

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.runtime.network import Connection, Listener, receive_some, send_all

from .listening import accept

REQUEST_BYTES_MAX = 16 * 1024
SCRAPE_SECONDS_MAX = 10
SCRAPES_AT_ONCE = 8


class MetricsServer:
    """A small HTTP server that answers one request per connection."""

    def __init__(self, render: Callable[[], Awaitable[bytes]], logger: FilteringBoundLogger) -> None:
        self._render = render
        self._logger = logger
        self._limiter = trio.CapacityLimiter(SCRAPES_AT_ONCE)

    async def serve(self, listener: Listener) -> None:
        """Answers one request per connection. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                connection = await accept(listener, "metrics", self._logger)
                await self._limiter.acquire_on_behalf_of(connection)
                nursery.start_soon(self._answer, connection)

    async def _answer(self, connection: Connection) -> None:
        try:
            with trio.move_on_after(SCRAPE_SECONDS_MAX):
                request = await _read_head(connection)
                await send_all(connection, await self._response(request))
        except OSError:
            pass  # the scraper closed the connection
        except AssertionError:
            raise  # a broken invariant ends the process
        except Exception as error:
            # A bug of ours, but a failed scrape is no reason to stop the server.
            self._logger.error("scrape_failed", exc_info=error)
        finally:
            connection.close()
            self._limiter.release_on_behalf_of(connection)

    async def _response(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or words[0] not in (b"GET", b"HEAD"):
            return _http(b"405 Method Not Allowed", b"use GET\n", b"text/plain")
        path = words[1].split(b"?", 1)[0]
        if path != b"/metrics":
            return _http(b"404 Not Found", b"metrics are at /metrics\n", b"text/plain")
        body = await self._render()
        response = _http(b"200 OK", body, b"text/plain; version=0.0.4; charset=utf-8")
        return response if words[0] == b"GET" else response[: -len(body)]


def _http(status: bytes, body: bytes, kind: bytes) -> bytes:
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, kind, len(body)) + body


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
