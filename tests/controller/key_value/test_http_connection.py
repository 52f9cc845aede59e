"""Requests and responses over one connection, in whatever parts they arrive."""

import h11
import pytest
import trio
from scripted_http import STREAM_HEAD, Exchange, Script, answer, chunk, serve
from simulation.network import SERVER, MemoryNetwork

from tailrace.controller.key_value.http_connection import HttpConnection, HttpError, connect


@pytest.fixture
def network() -> MemoryNetwork:
    return MemoryNetwork(buffer_bytes=100)


async def connected(network: MemoryNetwork, nursery: trio.Nursery, script: Script) -> HttpConnection:
    await nursery.start(serve, network, SERVER, script)
    return await connect(network, SERVER)


async def body(connection: HttpConnection) -> bytes:
    parts = []
    while part := await connection.read():
        parts.append(part)
    return b"".join(parts)


async def test_a_connection_carries_several_requests(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    async def echo(exchange: Exchange) -> None:
        await exchange.send(answer(exchange.path.encode() + exchange.body, 201))

    connection = await connected(network, nursery, echo)
    for content in (b"", b"one", b"x" * 10_000):
        assert await connection.post("/a", content) == 201
        assert await body(connection) == b"/a" + content
        assert connection.is_reusable()
    nursery.cancel_scope.cancel()


async def test_a_body_comes_as_it_arrives(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    go_on = trio.Event()

    async def stream(exchange: Exchange) -> None:
        whole = STREAM_HEAD + chunk(b"one")
        for position in range(len(whole)):
            await exchange.send(whole[position : position + 1])
        await go_on.wait()
        await exchange.send(chunk(b"two") + b"0\r\n\r\n")

    connection = await connected(network, nursery, stream)
    assert await connection.post("/", b"") == 200
    received = b""
    while received != b"one":
        received += await connection.read()
    assert not connection.is_reusable()
    go_on.set()
    assert await body(connection) == b"two"
    assert connection.is_reusable()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "reply",
    [b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"\x16\x03\x01\0\0", answer(b"", 200)[:-8], answer(b"12345")[:-1]],
    ids=["nothing", "ssh", "tls", "half a head", "half a body"],
)
async def test_an_invalid_response_is_an_error(network: MemoryNetwork, nursery: trio.Nursery, reply: bytes) -> None:
    async def reply_and_close(exchange: Exchange) -> None:
        await exchange.send(reply)
        exchange.connection.close()

    connection = await connected(network, nursery, reply_and_close)
    with pytest.raises(HttpError):
        await connection.post("/", b"")
        await body(connection)
    assert not connection.is_reusable()
    nursery.cancel_scope.cancel()


async def test_a_connection_that_the_server_closes_is_not_used_again(
    network: MemoryNetwork, nursery: trio.Nursery
) -> None:
    async def answer_and_close(exchange: Exchange) -> None:
        await exchange.send(answer(b"done"))
        exchange.connection.close()

    connection = await connected(network, nursery, answer_and_close)
    await connection.post("/", b"")
    assert await body(connection) == b"done"
    await trio.testing.wait_all_tasks_blocked()
    assert not connection.is_reusable()
    nursery.cancel_scope.cancel()


async def test_a_server_that_says_so_is_left_after_its_answer(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    async def farewell(exchange: Exchange) -> None:
        await exchange.send(answer(b"done", headers="connection: close\r\n"))

    connection = await connected(network, nursery, farewell)
    await connection.post("/", b"")
    assert await body(connection) == b"done"
    assert not connection.is_reusable()
    with pytest.raises(h11.LocalProtocolError):
        await connection.post("/", b"")
    nursery.cancel_scope.cancel()
