"""What servers rely on holds for real sockets on the loopback and for the simulated network alike."""

import errno
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from simulation.network import MemoryNetwork

from tailrace.runtime import network as network_module
from tailrace.runtime.files import RealFiles, UnreadableError
from tailrace.runtime.network import (
    ACCEPTED_IN_A_ROW_MAX,
    Address,
    CannotListenError,
    Connection,
    Listener,
    Network,
    TcpNetwork,
    outgoing_host,
    receive_some,
    send_all,
)

pytestmark = pytest.mark.trio

LOOPBACK = Address("127.0.0.1", 0)


@pytest.fixture(params=[TcpNetwork, MemoryNetwork])
def network(request: pytest.FixtureRequest) -> Network:
    make: Callable[[], Network] = request.param
    return make()


@asynccontextmanager
async def _connected(network: Network) -> AsyncIterator[tuple[Connection, Connection, Listener]]:
    listener = await network.listen(LOOPBACK)
    client = await network.connect(listener.address)
    server = await listener.accept()
    try:
        yield client, server, listener
    finally:
        client.close()
        server.close()
        listener.close()


async def _receive(connection: Connection, count: int) -> bytes:
    """Receives `count` bytes, or fewer at the end of the stream."""
    received = bytearray()
    buffer = memoryview(bytearray(64 * 1024))
    while len(received) < count:
        await connection.wait_readable()
        got = connection.receive_into(buffer)
        if got == 0:
            break
        received += buffer[: got or 0]
    return bytes(received)


async def test_it_is_called_for_each_arrival_until_it_returns_false(network: Network) -> None:
    received = bytearray()
    buffer = memoryview(bytearray(100))
    async with _connected(network) as (client, server, _):

        def on_readable() -> bool:
            count = server.receive_into(buffer)
            received.extend(buffer[: count or 0])
            return count != 0

        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.call_when_readable, on_readable)
            for data in (b"a", b"bc"):
                await trio.testing.wait_all_tasks_blocked()
                client.send([data])
            await trio.testing.wait_all_tasks_blocked()
            assert received == b"abc"
            client.end_sending()


async def test_closing_a_connection_ends_its_calls_with_an_error(network: Network) -> None:
    async with _connected(network) as (_, server, _), trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await server.call_when_readable(lambda: True)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        server.close()


async def test_port_zero_becomes_a_real_port(network: Network) -> None:
    listener = await network.listen(LOOPBACK)
    assert listener.address.host == LOOPBACK.host
    assert listener.address.port > 0
    listener.close()


async def test_a_taken_address_is_one_sentence(network: Network) -> None:
    listener = await network.listen(LOOPBACK)
    with pytest.raises(CannotListenError, match=f"cannot listen on {listener.address}: Address already in use"):
        await network.listen(listener.address)
    listener.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b", "x" * 70])
async def test_a_foreign_or_impossible_host_is_one_sentence(host: str) -> None:
    with pytest.raises(CannotListenError, match="cannot listen on "):
        await TcpNetwork().listen(Address(host, 0))


async def test_connecting_where_nobody_listens_fails(network: Network) -> None:
    listener = await network.listen(LOOPBACK)
    address = listener.address
    listener.close()
    with pytest.raises(OSError):
        await network.connect(address)


async def test_both_sides_know_each_other(network: Network) -> None:
    async with _connected(network) as (client, server, listener):
        assert client.remote == server.local == listener.address
        assert client.local == server.remote


async def test_bytes_arrive_in_order_both_ways(network: Network) -> None:
    async with _connected(network) as (client, server, _):
        assert client.send([b"ab", bytearray(b"cd"), memoryview(b"ef")]) == 6
        assert client.send([b"g"], more=True) == 1
        assert client.send([b"h"]) == 1
        assert await _receive(server, 8) == b"abcdefgh"
        assert server.send([b"back"]) == 4
        assert await _receive(client, 4) == b"back"


async def test_nothing_arrived_is_not_the_end(network: Network) -> None:
    async with _connected(network) as (client, server, _):
        buffer = memoryview(bytearray(10))
        assert server.receive_into(buffer) is None
        client.close()
        await server.wait_readable()
        assert server.receive_into(buffer) == 0


async def test_a_full_connection_takes_nothing_until_the_peer_reads(network: Network) -> None:
    async with _connected(network) as (client, server, _):
        sent = 0
        while taken := client.send([b"x" * 65536]):
            sent += taken
        assert sent > 0
        with trio.move_on_after(0) as blocked:
            await client.wait_writable()
        assert blocked.cancelled_caught
        assert len(await _receive(server, sent)) == sent
        await client.wait_writable()
        assert client.send([b"more"]) == 4
        assert await _receive(server, 4) == b"more"


async def test_a_send_of_very_many_parts_takes_a_prefix(network: Network) -> None:
    async with _connected(network) as (client, server, _):
        parts = [bytes([number % 256]) for number in range(3000)]
        expected = b"".join(parts)
        while parts:
            sent = client.send(parts)
            assert sent > 0
            parts = parts[sent:]
        assert await _receive(server, len(expected)) == expected


async def test_a_range_of_a_file_is_sent(network: Network, tmp_path: Path) -> None:
    content = os.urandom(300_000)
    (tmp_path / "log").write_bytes(content)
    file = RealFiles().open(str(tmp_path / "log"))
    received = b""
    async with _connected(network) as (client, server, _):
        position, end = 1000, 299_000
        while position < end:
            sent = client.send_file(file, position, end - position)
            position += sent
            if sent == 0:
                received += await _receive(server, 1)
        received += await _receive(server, end - 1000 - len(received))
    file.close()
    assert received == content[1000:end]


async def test_a_file_that_ended_early_is_an_error_and_not_a_hang(network: Network, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"short")
    file = RealFiles().open(str(tmp_path / "log"))
    async with _connected(network) as (client, _, _):
        with pytest.raises(OSError, match="ended before position 5"):
            client.send_file(file, 5, 10)
    file.close()


@pytest.mark.parametrize(("code", "is_of_the_file"), [(errno.EIO, True), (errno.ECONNRESET, False)])
async def test_an_error_tells_whether_the_file_or_the_connection_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, is_of_the_file: bool
) -> None:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    path = tmp_path / "log"
    path.write_bytes(b"short")
    monkeypatch.setattr(network_module, "send_file", fail)
    async with _connected(TcpNetwork()) as (client, _, _):
        with pytest.raises(OSError) as failed:
            client.send_file(RealFiles().open(str(path)), 0, 5)
    assert isinstance(failed.value, UnreadableError) == is_of_the_file
    assert (failed.value.filename == str(path)) == is_of_the_file


async def test_closing_with_bytes_unread_resets_the_peer(network: Network) -> None:
    async with _connected(network) as (client, server, _):
        client.send([b"unread"])
        await server.wait_readable()
        server.close()
        await client.wait_readable()
        with pytest.raises(ConnectionResetError):
            client.receive_into(memoryview(bytearray(10)))


async def test_sending_to_a_peer_that_has_gone_fails_in_the_end(network: Network) -> None:
    async with _connected(network) as (client, server, _):
        server.close()
        await client.wait_readable()
        with pytest.raises(OSError):
            for _ in range(3):  # TCP reports the failure only after it has tried to send
                client.send([b"hello"])
                await client.wait_readable()
                client.receive_into(memoryview(bytearray(10)))


async def test_closing_wakes_the_tasks_that_wait_on_it(network: Network) -> None:
    async with _connected(network) as (client, _, _):

        async def wait() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await client.wait_readable()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            client.close()
        client.close()  # closing twice does no harm


async def test_waiting_on_a_closed_connection_is_an_error(network: Network) -> None:
    async with _connected(network) as (client, _, _):
        client.close()
        for _ in range(2):
            for wait in (client.wait_readable, client.wait_writable, lambda: client.call_when_readable(lambda: False)):
                with pytest.raises(trio.ClosedResourceError):
                    await wait()


async def test_closing_a_listener_frees_its_address(network: Network) -> None:
    first = await network.listen(LOOPBACK)
    first.close()
    first.close()
    second = await network.listen(first_address := Address(LOOPBACK.host, 0))
    assert second.address != first_address
    second.close()


async def test_the_send_buffer_is_as_large_as_asked() -> None:
    """The kernel doubles the requested size and keeps it. The fixed size is what makes bulk reads cheap."""
    import socket

    async with _connected(TcpNetwork(send_buffer_bytes=128 * 1024)) as (_, server, _):
        assert server._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 128 * 1024  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("address", "text"), [(Address("localhost", 9092), "localhost:9092"), (Address("::1", 9005), "[::1]:9005")]
)
async def test_an_address_is_written_as_people_write_it(address: Address, text: str) -> None:
    assert str(address) == text


async def test_everything_is_sent_though_it_does_not_fit_at_once_and_received_to_the_end(network: Network) -> None:
    data = bytes(range(256)) * 40_000
    async with _connected(network) as (client, server, _), trio.open_nursery() as nursery:

        @nursery.start_soon
        async def send() -> None:
            await send_all(client, data)
            client.end_sending()

        received = bytearray()
        buffer = memoryview(bytearray(64 * 1024))
        while count := await receive_some(server, buffer):
            received += buffer[:count]
        assert received == data


def _stand_for(monkeypatch: pytest.MonkeyPatch, *addresses: Address) -> None:
    """Makes every host name resolve to these addresses."""

    async def found(*_: object, **options: object) -> list[object]:
        return [(socket.AF_INET, 0, 0, "", (each.host, each.port)) for each in addresses]

    monkeypatch.setattr(trio.socket, "getaddrinfo", found)


@contextmanager
def _black_hole() -> Iterator[Address]:
    """Returns an address to which connecting never ends: no one accepts, and Linux drops connections beyond the
    backlog."""
    with ExitStack() as open_sockets:
        listening = open_sockets.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(8):
            waiting = open_sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield Address(*listening.getsockname())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Returns the sockets that are made during the test."""
    sockets: list[socket.socket] = []

    class Made(socket.socket):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            sockets.append(self)

    monkeypatch.setattr(socket, "socket", Made)
    return sockets


async def test_each_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens if a server listens only on IPv4 and its name resolves to IPv6 first."""
    network = TcpNetwork()
    listener = await network.listen(Address("127.0.0.1", 0))
    nobody = await network.listen(Address("127.0.0.1", 0))
    refusing = nobody.address
    nobody.close()
    _stand_for(monkeypatch, refusing, listener.address)
    connection = await network.connect(Address("both.example", listener.address.port))
    assert connection.remote == listener.address
    connection.close()
    listener.close()


async def test_an_address_that_drops_everything_does_not_block_the_next(
    monkeypatch: pytest.MonkeyPatch, made: list[socket.socket], autojump_clock: object
) -> None:
    network = TcpNetwork()
    listener = await network.listen(LOOPBACK)
    with _black_hole() as hole:
        _stand_for(monkeypatch, hole, listener.address)
        made.clear()
        with trio.fail_after(2):
            connection = await network.connect(Address("both.example", 1))
        assert connection.remote == listener.address
        assert [each.fileno() < 0 for each in made] == [True, False]
    connection.close()
    listener.close()


async def test_a_cancelled_connect_leaves_no_socket_open(
    monkeypatch: pytest.MonkeyPatch, made: list[socket.socket], autojump_clock: object
) -> None:
    with _black_hole() as hole:
        _stand_for(monkeypatch, hole, hole, hole)
        made.clear()
        with trio.move_on_after(2) as waiting:
            await TcpNetwork().connect(Address("hole.example", 1))
        assert waiting.cancelled_caught
        assert [each.fileno() < 0 for each in made] == [True, True, True]


async def test_only_one_of_several_fast_addresses_is_connected(
    monkeypatch: pytest.MonkeyPatch, made: list[socket.socket]
) -> None:
    monkeypatch.setattr(network_module, "NEXT_ADDRESS_SECONDS", 0)
    network = TcpNetwork()
    listener = await network.listen(LOOPBACK)
    _stand_for(monkeypatch, *[listener.address] * 3)
    made.clear()
    connection = await network.connect(Address("many.example", 1))
    assert [each.fileno() for each in made].count(-1) == len(made) - 1
    connection.close()
    listener.close()


async def test_the_address_that_other_hosts_see_is_not_the_loopback() -> None:
    host = outgoing_host()
    assert host is None or not host.startswith("127.")


async def test_a_burst_of_clients_lets_other_tasks_run() -> None:
    """A few are accepted in a row, and all of them in the end."""
    network, count = TcpNetwork(), 5 * ACCEPTED_IN_A_ROW_MAX
    listener = await network.listen(LOOPBACK)
    clients = [await network.connect(listener.address) for _ in range(count)]
    accepted, seen = list[Connection](), list[int]()

    async def accept() -> None:
        while len(accepted) < count:
            accepted.append(await listener.accept())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        while len(accepted) < count:
            seen.append(len(accepted))
            await trio.lowlevel.checkpoint()
    # The order of the two tasks may differ from one pass of Trio's loop to the next.
    assert max(after - before for before, after in pairwise([*seen, count])) <= 2 * ACCEPTED_IN_A_ROW_MAX
    with trio.move_on_after(0):
        await listener.accept()
        raise AssertionError("there is no other client")
    last = await network.connect(listener.address)
    accepted.append(await listener.accept())
    for each in (*clients, *accepted, last):
        each.close()
    listener.close()
