"""TLS on a connection of the network seam, from the side of a client."""

import ssl
import tempfile
from collections.abc import Sequence

from .files import Buffer
from .network import Address, ByteStream, Network

RECORD_BYTES = 16 * 1024
"""The largest content of one TLS record."""


class TlsClientStream:
    """An encrypted byte stream over another one."""

    def __init__(self, connection: ByteStream, context: ssl.SSLContext, server_name: str) -> None:
        self._connection = connection
        self._arrived = ssl.MemoryBIO()
        self._departing = ssl.MemoryBIO()
        self._unsent = b""
        """Encrypted bytes that the connection has not taken yet: at most one record."""
        self._tls = context.wrap_bio(self._arrived, self._departing, server_hostname=server_name)
        self._buffer = memoryview(bytearray(4 * RECORD_BYTES))

    async def shake_hands(self) -> None:
        """Returns when both sides trust each other. Raises OSError (`ssl.SSLError`) otherwise."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._send_departing()
                while not self._take_arrived():
                    await self._connection.wait_readable()
            else:
                await self._send_departing()
                return

    def receive_into(self, buffer: memoryview) -> int | None:
        """Returns how many bytes were received, 0 at the end of the stream, or None if nothing has arrived."""
        while True:
            try:
                # With a buffer, `read` returns a number; its type says otherwise.
                count: int = self._tls.read(len(buffer), buffer)  # type: ignore[assignment]
                return count
            except ssl.SSLWantReadError:
                if not self._take_arrived():
                    return None
            except ssl.SSLZeroReturnError:
                return 0

    async def wait_readable(self) -> None:
        """Waits for more of the stream. Sends what `send` has taken first, as the other side may wait for it."""
        await self._send_departing()
        if not self._tls.pending() and not self._arrived.pending:
            await self._connection.wait_readable()

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        """Returns how many bytes were taken; 0 if the connection is full."""
        if not self._flush():
            return 0
        taken = 0
        for part in parts:
            view = memoryview(part)
            while view:
                count = self._tls.write(view[:RECORD_BYTES])
                view = view[count:]
                taken += count
                if not self._flush():
                    return taken
        return taken

    async def wait_writable(self) -> None:
        while not self._flush():
            await self._connection.wait_writable()

    def close(self) -> None:
        self._connection.close()

    def _take_arrived(self) -> bool:
        """Takes over encrypted bytes. Returns whether there were any, or the stream has ended."""
        count = self._connection.receive_into(self._buffer)
        if count is None:
            return False
        if count == 0:
            self._arrived.write_eof()
        else:
            self._arrived.write(self._buffer[:count])
        return True

    async def _send_departing(self) -> None:
        while not self._flush():
            await self._connection.wait_writable()

    def _flush(self) -> bool:
        """Sends what is encrypted. Returns whether the connection has taken everything."""
        self._unsent += self._departing.read()
        while self._unsent:
            count = self._connection.send([self._unsent])
            if count == 0:
                return False
            self._unsent = self._unsent[count:]
        return True


async def connect_tls(network: Network, address: Address, context: ssl.SSLContext, server_name: str) -> TlsClientStream:
    """Connects, and returns when the server has proven its name. Raises OSError."""
    connection = await network.connect(address)
    encrypted = TlsClientStream(connection, context, server_name)
    try:
        await encrypted.shake_hands()
    except BaseException:
        connection.close()
        raise
    return encrypted


def load_certificate(context: ssl.SSLContext, certificate: bytes) -> None:
    """Loads a certificate with its key, in PEM. The library takes only files, so both pass through one without a name.

    That is not a file in memory, because Pythons that are built for old systems lack `os.memfd_create`.
    """
    with tempfile.TemporaryFile() as file:
        file.write(certificate)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
