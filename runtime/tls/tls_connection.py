"""An encrypted connection over another one. It has the whole interface of a connection, from either side of TLS.

Calls never block, as on every connection. What is encrypted and does not fit into the connection below waits here: at
most one piece. A task sends it while the connection below has room, because the caller counts those bytes as sent. The
next `send` takes nothing until the piece has left.
"""

import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress

import trio

from tailrace.runtime.files import Buffer, File
from tailrace.runtime.network import Address, Connection, Network

PIECE_BYTES = 64 * 1024
"""How much is encrypted at a time. It bounds the memory of a client that reads slowly."""
FILE_BYTES_MAX = 1024 * 1024
"""How much of a file is sent in one call, so that other clients get their turns."""
RECEIVE_BYTES = 64 * 1024
UNSENT_BYTES_MAX = 1024 * 1024
"""How many encrypted bytes may wait. Beyond it, the peer demands answers of TLS itself and does not read them."""
ROUNDS_MAX = 16
"""How many times in a row a reader is called for what was received already, before other tasks run."""


class TlsConnection:
    """One side of an encrypted connection. `shake_hands` comes first."""

    __slots__ = (
        "_arrived",
        "_at_end",
        "_connection",
        "_departing",
        "_end_sending",
        "_error",
        "_flushed",
        "_scratch",
        "_tls",
        "_unsent",
        "_woken",
    )

    def __init__(
        self,
        connection: Connection,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        server_side: bool = False,
        scratch: memoryview | None = None,
    ) -> None:
        """Wraps a connection. A client gives the name that it expects in the server's certificate.

        Connections may share `scratch`, the buffer into which they receive.
        """
        self._connection = connection
        self._arrived = ssl.MemoryBIO()
        self._departing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._arrived, self._departing, server_side=server_side, server_hostname=server_name
        )
        self._scratch = memoryview(bytearray(RECEIVE_BYTES)) if scratch is None else scratch
        self._unsent = memoryview(b"")
        """Encrypted bytes that the connection below has not taken."""
        self._flushed: trio.Event | None = None
        """Set when nothing is unsent any more; None unless a task is sending."""
        self._at_end = False
        """Whether the peer sends nothing more."""
        self._woken: trio.Event | None = None
        """Set when the caller does not wait for the connection below any more; None unless it does.

        TLS may have something to say meanwhile, such as the response to new keys, which does not fit either.
        """
        self._error: OSError | None = None
        """Why the task could not send."""
        self._end_sending = False
        """Whether the direction to the peer closes when everything is sent."""

    @property
    def local(self) -> Address:
        return self._connection.local

    @property
    def remote(self) -> Address:
        return self._connection.remote

    @property
    def version(self) -> str:
        """The version of TLS, such as `TLSv1.3`."""
        return self._tls.version() or ""

    def peer_certificate(self) -> dict[str, object] | None:
        """Returns the fields of the peer's certificate, which was checked; None if the peer has shown none.

        Raises ConnectionError if a name in it is no text, although an authority has signed it.
        """
        try:
            return self._tls.getpeercert() or None  # type: ignore[return-value]
        except ValueError as error:
            raise ConnectionError("the certificate of the peer has a name that is no text") from error

    async def shake_hands(self) -> None:
        """Returns when both sides trust each other. Raises OSError (`ssl.SSLError`) otherwise.

        The caller bounds the time.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._send_departing()
                while not self._take_arrived():
                    await self._connection.wait_readable()
            except ssl.SSLError:
                self._send_encrypted()  # tells the peer why
                raise
            else:
                self._send_encrypted()  # without waiting: the peer may read it only when it expects something
                return

    # receiving

    def receive_into(self, buffer: memoryview) -> int | None:
        received = 0
        while buffer and not received and not self._at_end and (self._has_leftovers or self._take_arrived()):
            received = self._decrypt_into(buffer)
        if self._departing.pending:
            self._answer_peer()
        return received or (0 if self._at_end else None)

    def _decrypt_into(self, buffer: memoryview) -> int:
        """Decrypts the records of TLS that have arrived, as far as there is room. Returns the number of bytes.

        They may be many small ones: librdkafka encrypts the header and the value of each Kafka record by themselves.
        """
        read, arrived, room, received = self._tls.read, self._arrived, len(buffer), 0
        try:
            while True:
                # With a buffer, `read` returns a number; its type says otherwise.
                count: int = read(room - received, buffer[received:])  # type: ignore[assignment]
                received += count
                if received == room or not count or not (arrived.pending or self._tls.pending()):
                    break
        except ssl.SSLWantReadError:
            return received  # only a part of the next record has arrived
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            count = 0
        self._at_end = count == 0  # The peer has said goodbye, or is gone.
        return received

    async def wait_readable(self) -> None:
        if self._has_leftovers:
            await trio.lowlevel.checkpoint()
        else:
            await self._connection.wait_readable()

    async def call_when_readable(
        self, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None = None
    ) -> None:
        """Calls also while something is left of what was received earlier, which the socket does not announce."""
        goes_on = True

        def call() -> bool:
            nonlocal goes_on
            goes_on = on_readable()
            rounds = 0
            while goes_on and self._has_leftovers:
                rounds += 1
                if rounds > ROUNDS_MAX:
                    return False
                if turn_ended is not None:
                    turn_ended()
                goes_on = on_readable()
            return goes_on

        while goes_on:
            if self._has_leftovers:
                await trio.lowlevel.checkpoint()
                try:
                    call()
                finally:
                    if turn_ended is not None:
                        turn_ended()
            else:
                await self._connection.call_when_readable(call, turn_ended)

    def expect_soon(self) -> None:
        self._connection.expect_soon()

    @property
    def _has_leftovers(self) -> bool:
        """Whether a call of `receive_into` finds something without the connection below."""
        return self._at_end or self._arrived.pending > 0 or self._tls.pending() > 0

    def _take_arrived(self) -> bool:
        """Takes over encrypted bytes. Returns whether there were any, or the stream has ended."""
        if self._arrived.eof:
            return True
        count = self._connection.receive_into(self._scratch)
        if count is None:
            return False
        if count == 0:
            self._arrived.write_eof()
        else:
            self._arrived.write(self._scratch[:count])
        return True

    def _answer_peer(self) -> None:
        """Sends what TLS itself has to say, such as the response to new keys."""
        self._send_encrypted()
        if len(self._unsent) > UNSENT_BYTES_MAX:
            raise ConnectionAbortedError("the peer does not read what it demands")

    # sending

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        if self._error is not None:
            raise self._error
        if self._unsent:
            return 0
        rest = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
        taken = 0
        while taken < len(rest):
            taken += self._tls.write(rest[taken : taken + PIECE_BYTES])
            if not self._send_encrypted(more=more):
                break
        return taken

    def send_file(self, file: File, position: int, count: int) -> int:
        taken = 0
        count = min(count, FILE_BYTES_MAX)
        while taken < count:
            data = file.read_at(position + taken, min(PIECE_BYTES, count - taken))
            if not data:
                raise OSError(f"{file.path} ended before position {position + taken}")
            sent = self.send((data,))
            taken += sent
            if sent < len(data) or self._unsent:
                break
        return taken

    async def wait_writable(self) -> None:
        while True:
            while self._flushed is not None:
                await self._flushed.wait()
            if self._error is not None:
                raise self._error
            self._woken = woken = trio.Event()
            try:
                await self._connection.wait_writable()
            finally:
                self._woken = None
                woken.set()
            if self._flushed is None:
                return

    def end_sending(self) -> None:
        self._say_goodbye()
        if self._unsent:
            self._end_sending = True
        else:
            self._connection.end_sending()

    def close(self) -> None:
        with suppress(OSError):  # The connection below may be broken already.
            if not self._unsent:
                self._say_goodbye()
        self._connection.close()

    def _say_goodbye(self) -> None:
        """Tells the peer that nothing more comes, so that it can tell a cut connection from the end."""
        if self._error is not None:
            return
        with suppress(ssl.SSLError):  # Either the peer has not said goodbye yet, or the hands were never shaken.
            self._tls.unwrap()
        self._send_encrypted()

    def _send_encrypted(self, *, more: bool = False) -> bool:
        """Sends what is encrypted. Returns whether the connection below has taken everything."""
        data = memoryview(self._departing.read())
        if self._unsent:
            self._unsent = memoryview(bytes(self._unsent) + data)
            return False
        sent = self._connection.send((data,), more=more) if data else 0
        if sent == len(data):
            return True
        self._unsent = data[sent:]
        if self._flushed is None:
            self._flushed = trio.Event()
            trio.lowlevel.spawn_system_task(self._flush)
        return False

    async def _flush(self) -> None:
        """Sends the rest as the connection below makes room for it. Ends when the connection is closed."""
        assert self._flushed is not None
        try:
            while self._unsent:
                while self._woken is not None:  # Only one task may wait for a socket.
                    await self._woken.wait()
                await self._connection.wait_writable()
                self._unsent = self._unsent[self._connection.send((self._unsent,)) :]
            if self._end_sending:
                self._connection.end_sending()
        except OSError as error:
            self._error = error
        except trio.ClosedResourceError as error:
            self._error = OSError(str(error))
        finally:
            self._unsent = memoryview(b"")
            self._flushed.set()
            self._flushed = None

    async def _send_departing(self) -> None:
        self._send_encrypted()
        while self._flushed is not None:
            await self._flushed.wait()
        if self._error is not None:
            raise self._error


async def connect_tls(network: Network, address: Address, context: ssl.SSLContext, server_name: str) -> TlsConnection:
    """Connects, and returns when the server has proven its name. Raises OSError."""
    return await shaken_by_client(await network.connect(address), context, server_name)


async def shaken_by_client(connection: Connection, context: ssl.SSLContext, server_name: str | None) -> TlsConnection:
    """Shakes hands as the client, and closes the connection if that fails. Raises OSError."""
    encrypted = TlsConnection(connection, context, server_name=server_name)
    try:
        await encrypted.shake_hands()
    except BaseException:
        connection.close()
        raise
    return encrypted
