import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
import trio.testing
from certificates import client_context
from simulation.network import MemoryListener, MemoryNetwork
from structlog.testing import capture_logs
from tls_listeners import certificate_files, server_tls

from tailrace.runtime.network import Address, Connection
from tailrace.runtime.tls.tls_connection import connect_tls
from tailrace.server.encryption.server_tls import ServerTls
from tailrace.server.health import Readiness
from tailrace.server.metrics_server import REQUEST_BYTES_MAX, SCRAPE_SECONDS_MAX, SCRAPES_AT_ONCE, MetricsServer

ADDRESS = Address("spu-1", 9008)
BODY = b"tailrace_connections 1\n" * 10_000
"""A text that is larger than the buffer of the network."""


async def _body() -> bytes:
    return BODY


async def _is_ready() -> Readiness:
    return Readiness(True, "it serves clients")


async def _is_not_ready() -> Readiness:
    return Readiness(False, "it stands by")


@asynccontextmanager
async def _serving(
    render: Callable[[], Awaitable[bytes]] = _body,
    readiness: Callable[[], Awaitable[Readiness]] = _is_ready,
    tls: ServerTls | None = None,
) -> AsyncIterator[tuple[MemoryNetwork, MemoryListener]]:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(MetricsServer(render, readiness, structlog.get_logger(), tls).serve, listener)
        yield network, listener
        nursery.cancel_scope.cancel()


async def _read_to_end(connection: Connection) -> bytes:
    received = bytearray()
    buffer = memoryview(bytearray(10_000))
    while True:
        await connection.wait_readable()
        count = connection.receive_into(buffer)
        if count == 0:
            return bytes(received)
        received += buffer[: count or 0]


async def _ask(network: MemoryNetwork, request: bytes) -> tuple[bytes, dict[bytes, bytes], bytes]:
    connection = await network.connect(ADDRESS)
    connection.send([request])
    head, _, body = (await _read_to_end(connection)).partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    return status, dict(line.split(b": ", 1) for line in lines), body


@pytest.mark.parametrize("path", [b"/metrics", b"/metrics?name=x"])
async def test_a_scrape_gets_the_text(path: bytes) -> None:
    async with _serving() as (network, _):
        status, headers, body = await _ask(network, b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        assert status == b"HTTP/1.1 200 OK"
        assert headers[b"Content-Type"].startswith(b"text/plain; version=0.0.4")
        assert int(headers[b"Content-Length"]) == len(body)
        assert body == BODY


async def test_a_scrape_that_cannot_be_rendered_ends_only_its_connection() -> None:
    bodies = iter((None, BODY))

    async def render() -> bytes:
        body = next(bodies)
        if body is None:
            raise ValueError("what is measured cannot be told")
        return body

    async with _serving(render) as (network, _):
        connection = await network.connect(ADDRESS)
        connection.send([b"GET /metrics HTTP/1.1\r\n\r\n"])
        assert await _read_to_end(connection) == b""
        assert (await _ask(network, b"GET /metrics HTTP/1.1\r\n\r\n"))[2] == BODY


async def test_a_server_that_is_not_ready_is_alive() -> None:
    async with _serving() as (network, _):
        assert (await _ask(network, b"GET /readyz HTTP/1.1\r\n\r\n"))[::2] == (
            b"HTTP/1.1 200 OK",
            b"ready: it serves clients\n",
        )
    async with _serving(readiness=_is_not_ready) as (network, _):
        assert (await _ask(network, b"GET /healthz HTTP/1.1\r\n\r\n"))[::2] == (b"HTTP/1.1 200 OK", b"alive\n")
        assert (await _ask(network, b"GET /readyz HTTP/1.1\r\n\r\n"))[::2] == (
            b"HTTP/1.1 503 Service Unavailable",
            b"not ready: it stands by\n",
        )


async def test_head_has_the_length_and_no_body() -> None:
    async with _serving() as (network, _):
        status, headers, body = await _ask(network, b"HEAD /metrics HTTP/1.0\r\n\r\n")
        assert (status, body) == (b"HTTP/1.1 200 OK", b"")
        assert int(headers[b"Content-Length"]) == len(BODY)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metricsx HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"\xff\xfe\r\n\r\n", b"405"),
        (b"\r\n\r\n", b"405"),
        (b"x" * REQUEST_BYTES_MAX, b"405"),
    ],
)
async def test_other_requests_than_scrapes_are_refused(request_: bytes, status: bytes) -> None:
    async with _serving() as (network, _):
        answered, _, body = await _ask(network, request_)
        assert answered.split(b" ")[1] == status
        assert body.endswith(b"\n")


async def test_a_silent_scraper_times_out(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving() as (network, _):
        started = trio.current_time()
        silent = [await network.connect(ADDRESS) for _ in range(SCRAPES_AT_ONCE)]
        status, _, _ = await _ask(network, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert status == b"HTTP/1.1 200 OK", "one that came after them was served when they were given up"
        assert trio.current_time() - started == pytest.approx(SCRAPE_SECONDS_MAX)
        assert await _read_to_end(silent[0]) == b""


async def test_a_scraper_may_leave_at_any_time() -> None:
    async with _serving() as (network, _):
        for _ in range(2 * SCRAPES_AT_ONCE):
            gone = await network.connect(ADDRESS)
            gone.send([b"GET /metrics HTTP/1.1\r\n\r\n"])
            await trio.testing.wait_all_tasks_blocked()
            gone.reset()
        status, _, _ = await _ask(network, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert status == b"HTTP/1.1 200 OK"


async def test_running_out_of_file_descriptors_ends_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving() as (network, listener):
        listener.accept_errors += [OSError(errno.EMFILE, "too many open files")] * 2
        await _ask(network, b"GET / HTTP/1.1\r\n\r\n")
        status, _, _ = await _ask(network, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert status == b"HTTP/1.1 200 OK"


async def test_an_encrypted_port_serves_the_whole_text_over_tls() -> None:
    async with _serving(tls=server_tls(await certificate_files())) as (network, _):
        connection = await connect_tls(network, ADDRESS, client_context(), "localhost")
        connection.send([b"GET /metrics HTTP/1.1\r\n\r\n"])
        assert (await _read_to_end(connection)).endswith(BODY)
        with capture_logs() as logs:
            stranger = await network.connect(ADDRESS)
            stranger.send([b"GET /metrics HTTP/1.1\r\n\r\n"])
            await _read_to_end(stranger)
        assert [each["event"] for each in logs] == ["handshake_refused"]
