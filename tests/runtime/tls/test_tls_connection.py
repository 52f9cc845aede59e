"""TLS over the network seam, against the TLS server of the standard library."""

import random
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from certificates import authority, client_context, server_context
from simulation.files import SimulatedFiles
from simulation.network import connected_pair

from tailrace.runtime.network import Address, ByteStream, TcpNetwork, receive_some, send_all
from tailrace.runtime.tls import tls_connection
from tailrace.runtime.tls.tls_connection import PIECE_BYTES, TlsConnection, connect_tls

AUTHORITY = authority()
TRUSTING = client_context()

Serve = Callable[[ssl.SSLSocket], None]
Start = Callable[[Serve], Address]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a TLS server for one connection, in a thread of its own."""
    threads: list[threading.Thread] = []

    def start(serve: Serve) -> Address:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        AUTHORITY.issue_cert("localhost").configure_cert(context)
        listener = socket.create_server(("127.0.0.1", 0))

        def run() -> None:
            with listener, listener.accept()[0] as connection:
                connection.settimeout(20)
                try:
                    with context.wrap_socket(connection, server_side=True) as encrypted:
                        serve(encrypted)
                except OSError:
                    pass  # The client has refused the certificate.

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return Address("127.0.0.1", listener.getsockname()[1])

    yield start
    for thread in threads:
        thread.join(20)


def echo(connection: ssl.SSLSocket) -> None:
    while data := connection.recv(65536):
        connection.sendall(data)


async def test_large_data_goes_both_ways(start: Start) -> None:
    stream = await connect_tls(TcpNetwork(), start(echo), TRUSTING, "localhost")
    data = bytes(range(256)) * 8192
    received = bytearray()

    async def receive() -> None:
        buffer = memoryview(bytearray(100_000))
        while len(received) < len(data):
            received.extend(buffer[: await receive_some(stream, buffer)])

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await send_all(stream, data)
    assert received == data
    stream.close()


async def test_the_end_of_the_stream_is_seen(start: Start) -> None:
    def say_and_end(connection: ssl.SSLSocket) -> None:
        connection.sendall(b"bye")
        connection.unwrap()

    stream = await connect_tls(TcpNetwork(), start(say_and_end), TRUSTING, "localhost")
    buffer = memoryview(bytearray(10))
    with trio.fail_after(20):
        assert await receive_some(stream, buffer) == 3
        assert await receive_some(stream, buffer) == 0
    stream.close()


async def test_a_server_with_another_name_or_an_unknown_authority_is_refused(start: Start) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"other\.example"):
        await connect_tls(TcpNetwork(), start(echo), TRUSTING, "other.example")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get local issuer"):
        await connect_tls(TcpNetwork(), start(echo), ssl.create_default_context(), "localhost")


# both sides, in memory


@asynccontextmanager
async def _pair(buffer_bytes: int = 64 * 1024) -> AsyncIterator[tuple[TlsConnection, TlsConnection]]:
    """Returns the client's and the server's side after their handshake."""
    near, far = connected_pair(buffer_bytes=buffer_bytes)
    client = TlsConnection(near, client_context(), server_name="localhost")
    server = TlsConnection(far, server_context(), server_side=True)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.shake_hands)
            nursery.start_soon(server.shake_hands)
        yield client, server
    client.close()
    server.close()


async def _read(stream: ByteStream, count: int, room: int = 100_000) -> bytes:
    received = bytearray()
    buffer = memoryview(bytearray(room))
    while len(received) < count:
        found = await receive_some(stream, buffer)
        assert found, "the stream ended early"
        received += buffer[:found]
    return bytes(received)


@pytest.mark.parametrize("buffer_bytes", [100, 5_000, 300_000])
async def test_everything_arrives_in_order_whatever_the_connection_below_takes(buffer_bytes: int) -> None:
    data = random.Random(buffer_bytes).randbytes(200_000)
    async with _pair(buffer_bytes) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(send_all, client, data)
        assert await _read(server, len(data), 7_001) == data


async def test_what_was_taken_is_sent_without_another_call() -> None:
    async with _pair(1_000) as (client, server):
        data = bytes(range(200)) * 50
        assert client.send((data[:6_000], data[6_000:])) == len(data)
        assert client.send((b"more",)) == 0, "the rest of the first piece waits"
        assert await _read(server, len(data)) == data
        await client.wait_writable()
        assert client.send((b"more",)) == 4
        assert await _read(server, 4) == b"more"


async def test_a_client_that_reads_nothing_costs_one_piece() -> None:
    async with _pair(1_000) as (_, server):
        data = bytes(10 * PIECE_BYTES)
        assert server.send((data,)) == PIECE_BYTES
        assert server.send((data,)) == 0


async def test_a_reader_is_called_for_what_was_received_with_an_earlier_record() -> None:
    async with _pair() as (client, server):
        client.send((b"abcdefghij",))
        got: list[bytes] = []
        ended: list[int] = []
        buffer = memoryview(bytearray(3))

        def on_readable() -> bool:
            count = server.receive_into(buffer)
            got.append(bytes(buffer[: count or 0]))
            return sum(map(len, got)) < 10

        await server.call_when_readable(on_readable, lambda: ended.append(len(got)))
        assert b"".join(got) == b"abcdefghij"
        assert ended[-1] == len(got)


async def test_a_reader_that_pauses_finds_the_rest_later() -> None:
    async with _pair() as (client, server):
        client.send((b"abcdef",))
        buffer = memoryview(bytearray(3))
        got: list[bytes] = []

        def on_readable() -> bool:
            count = server.receive_into(buffer)
            got.append(bytes(buffer[: count or 0]))
            return False

        await server.call_when_readable(on_readable)
        await server.call_when_readable(on_readable)
        assert got == [b"abc", b"def"]


@pytest.mark.parametrize("room", [1, 7, 64, 4096])
@pytest.mark.parametrize("cut", [0, 1, 40])
async def test_small_records_are_received_together_as_far_as_there_is_room(room: int, cut: int) -> None:
    """The last record may have arrived only in part, and is received later."""
    async with _pair() as (client, server):
        sent = [bytes([number]) * (number % 5 + 1) for number in range(50)]
        for data in sent:
            client._tls.write(data)
        encrypted = client._departing.read()
        client._connection.send((encrypted[: len(encrypted) - cut],))
        buffer, got = memoryview(bytearray(room)), b""
        assert server.receive_into(buffer[:0]) is None, "no room"
        while (count := server.receive_into(buffer)) is not None:
            assert count > 0
            got += buffer[:count]
            if room == 4096:
                assert count == len(b"".join(sent[: 50 - bool(cut) - (cut > 30)])), "in one call"
        client._connection.send((encrypted[len(encrypted) - cut :],))
        while len(got) < len(b"".join(sent)):
            await server.wait_readable()
            count = server.receive_into(buffer)
            got += buffer[: count or 0]
        assert got == b"".join(sent)


async def test_a_file_is_encrypted_and_sent() -> None:
    files = SimulatedFiles()
    data = random.Random(1).randbytes(3 * PIECE_BYTES)
    file = files.open("/log", create=True)
    file.append(data)
    async with _pair(500_000) as (client, server):
        assert server.send_file(file, 10, len(data) - 10) == len(data) - 10
        assert await _read(client, len(data) - 10) == data[10:]
        with pytest.raises(OSError, match="/log ended before"):
            server.send_file(file, len(data), 1)


@pytest.mark.parametrize("buffer_bytes", [1_000, 100_000])
async def test_the_peer_reads_everything_and_then_the_end(buffer_bytes: int) -> None:
    async with _pair(buffer_bytes) as (client, server):
        data = bytes(50_000)
        assert server.send((data,)) == len(data)
        server.end_sending()
        assert await _read(client, len(data)) == data
        assert await receive_some(client, memoryview(bytearray(10))) == 0
        client.send((b"still here",))
        assert await _read(server, 10) == b"still here"


async def test_a_connection_that_ends_without_a_goodbye_is_at_its_end() -> None:
    near, far = connected_pair()
    client, server = (
        TlsConnection(near, client_context(), server_name="localhost"),
        TlsConnection(far, server_context(), server_side=True),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.shake_hands)
        nursery.start_soon(server.shake_hands)
    near.end_sending()
    buffer = memoryview(bytearray(10))
    assert await receive_some(server, buffer) == 0
    assert await receive_some(server, buffer) == 0
    server.close()


async def test_a_closed_connection_sends_nothing_more() -> None:
    async with _pair(1_000) as (client, _):
        client.send((bytes(PIECE_BYTES),))
        client.close()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(OSError, match="closed"):
            client.send((b"x",))
        with pytest.raises(OSError, match="closed"):
            await client.wait_writable()


async def test_a_peer_that_demands_answers_and_reads_none_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_connection, "UNSENT_BYTES_MAX", 10)
    async with _pair(1_000) as (_, server):
        server.send((bytes(PIECE_BYTES),))
        with pytest.raises(ConnectionAbortedError):
            server._answer_peer()


async def test_tls_may_speak_while_its_caller_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer asks for new keys, and reads nothing. Two tasks that wait for one socket would end the process."""
    async with _pair(1_000) as (client, server):
        near, far = client._connection, server._connection
        wait_writable = far.wait_writable
        waiting: list[object] = []

        async def wait_alone() -> None:
            if waiting:
                raise trio.BusyResourceError
            waiting.append(None)
            try:
                await wait_writable()
            finally:
                waiting.clear()

        monkeypatch.setattr(far, "wait_writable", wait_alone)
        while far.send([bytes(100)]):
            pass
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.wait_writable)
            await trio.testing.wait_all_tasks_blocked()
            server._tls.write(b"new keys")
            server._answer_peer()
            await trio.testing.wait_all_tasks_blocked()
            assert server.send((b"x",)) == 0, "the answer of TLS has to leave first"
            await _read(near, 1_000)
        assert server.send((b"x",)) == 1
