"""TLS over the network seam, against the TLS server of the standard library."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest
import trio
import trustme

from tailrace.runtime.network import Address, TcpNetwork, receive_some, send_all
from tailrace.runtime.tls import connect_tls, load_certificate

AUTHORITY = trustme.CA()
TRUSTING = ssl.create_default_context()
AUTHORITY.configure_trust(TRUSTING)

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


def test_a_certificate_with_its_key_is_loaded_from_memory() -> None:
    certificate = AUTHORITY.issue_cert("client@example.org")
    context = ssl.create_default_context()
    load_certificate(context, certificate.cert_chain_pems[0].bytes() + certificate.private_key_pem.bytes())
    with pytest.raises(ssl.SSLError):
        load_certificate(context, certificate.cert_chain_pems[0].bytes())
