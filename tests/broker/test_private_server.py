from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from simulation.client import WireClient
from simulation.network import MemoryNetwork
from structlog.testing import capture_logs

from tailrace.broker.private_server import FIRST_BYTES_SECONDS_MAX, PrivateServer
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.network import Address

PRIVATE = Address("spu-1", 9006)


@asynccontextmanager
async def _serving() -> AsyncIterator[MemoryNetwork]:
    network = MemoryNetwork()
    listener = await network.listen(PRIVATE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(PrivateServer(structlog.get_logger()).serve, listener)
        yield network
        nursery.cancel_scope.cancel()


async def test_a_kafka_request_is_refused_and_named_in_the_log(autojump_clock: object) -> None:
    async with _serving() as network:
        client = WireClient(await network.connect(PRIVATE))
        with capture_logs() as logged:
            await client.send(client.encode(ApiKey.METADATA, 9, MetadataRequest(topics=None)))
            assert await client.at_end()
    (event,) = logged
    assert event["event"] == "private_request_refused"
    assert event["peer"] == str(client.connection.local)
    assert "METADATA version 9 belongs on a public one" in event["reason"]


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x00"])
async def test_anything_else_is_refused_too(autojump_clock: object, sent: bytes) -> None:
    async with _serving() as network:
        client = WireClient(await network.connect(PRIVATE))
        with capture_logs() as logged:
            await client.send(sent)
            assert await client.at_end()
    assert [event["event"] for event in logged] == ["private_request_refused"]


async def test_who_says_nothing_is_not_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving() as network:
        client = WireClient(await network.connect(PRIVATE))
        started = trio.current_time()
        with capture_logs() as logged:
            assert await client.at_end()
        assert trio.current_time() - started == pytest.approx(FIRST_BYTES_SECONDS_MAX)
    assert logged == []


async def test_too_many_open_files_do_not_end_it(autojump_clock: object) -> None:
    async with _serving() as network:
        network.listeners[PRIVATE].accept_errors.append(OSError("too many open files"))
        first = WireClient(await network.connect(PRIVATE))
        second = WireClient(await network.connect(PRIVATE))
        for client in (first, second):
            await client.send(b"x")
            assert await client.at_end()
