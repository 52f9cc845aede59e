"""The network seam: listeners and connections whose calls never block; Trio does the waiting.

A connection hands over what has arrived, and takes what fits, at once. Only `wait_readable` and `wait_writable` wait.
So a server handles everything that it has received in one synchronous turn, and sends all responses with one call.
"""

import errno
import os
import re
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

import trio
from msgspec import Struct

from .files import Buffer, File, UnreadableError
from .readiness import Readiness
from .system_calls import send_file

BACKLOG = 1024
ACCEPTED_IN_A_ROW_MAX = 4
"""How many connections are accepted before other tasks run, so that a client does not wait long behind a thousand."""
PARTS_MAX = 512  # of one vectored send; Linux takes 1024
NEXT_ADDRESS_SECONDS = 0.25
"""How long to wait for one address of a host before trying the next one at the same time."""
_ELSEWHERE = ("192.0.2.1", 9)
"""An address that belongs to no machine (RFC 5737)."""
WILDCARD_HOSTS = frozenset({"0.0.0.0", "::"})
"""The hosts that stand for all addresses of a machine, for listeners."""
_LOOPBACK_HOSTS = frozenset({"localhost", "::1"})
_HOST = re.compile(r"[^\s/,=\ud800-\udfff]{1,255}")

_Host = tuple[object, ...]
"""A resolved address, as sockets take it."""


class CannotListenError(Exception):
    """The address is in use or does not belong to this machine. The message is for the person who chose it."""

    def __init__(self, message: str, port_in_use: int | None = None, flag: str = "") -> None:
        super().__init__(message)
        self.port_in_use = port_in_use
        """The port, if another socket has it."""
        self.flag = flag
        """The option with which a person chooses another address; empty if there is none."""


class Address(Struct, frozen=True):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def may_be_host(text: str) -> bool:
    """Returns whether the text has only characters that the name or address of a host can have."""
    return _HOST.fullmatch(text) is not None


def is_loopback(host: str) -> bool:
    """Returns whether the host leads each machine to itself."""
    return host in _LOOPBACK_HOSTS or host.startswith("127.")


class ByteStream(Protocol):
    """An ordered stream of bytes in both directions. Any call raises OSError if the connection is broken."""

    def receive_into(self, buffer: memoryview) -> int | None:
        """Returns how many bytes were put into the buffer; 0 at the end of the stream; None if nothing has arrived."""

    async def wait_readable(self) -> None: ...

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        """Returns how many bytes were taken; 0 if the connection is full.

        With `more`, what follows may share a packet.
        """

    async def wait_writable(self) -> None: ...

    def close(self) -> None:
        """Closes at once. Tasks that wait on the connection get an error."""


class Connection(ByteStream, Protocol):
    """A byte stream between two addresses."""

    @property
    def local(self) -> Address: ...

    @property
    def remote(self) -> Address: ...

    async def call_when_readable(
        self, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None = None
    ) -> None:
        """Calls `on_readable` each time there may be something to read, until it returns False.

        `turn_ended` is called after all readable connections of a turn have been called, once for all connections that
        pass the same function, and before any other task runs. Exceptions of both are raised here. They are not called
        in the waiting task, which keeps sleeping.
        """

    def expect_soon(self) -> None:
        """Announces that the other side is about to send, so that the next wait may busy-wait for longer."""

    def send_file(self, file: File, position: int, count: int) -> int:
        """Sends from a file, without a copy through this process if the platform can. Returns what `send` returns.

        Raises UnreadableError if the file is at fault, and not the connection.
        """

    def end_sending(self) -> None:
        """Closes one direction: the peer reads what was sent and then the end of the stream, and may still send."""


async def send_all(connection: ByteStream, data: Buffer) -> None:
    """Returns when the connection has taken all data, for callers that send one thing and wait for it."""
    rest = memoryview(data)
    while rest:
        sent = connection.send([rest])
        rest = rest[sent:]
        if rest:
            await connection.wait_writable()


async def receive_some(connection: ByteStream, buffer: memoryview) -> int:
    """Waits until something has arrived, and returns what `receive_into` returns; 0 is the end of the stream."""
    while True:
        await connection.wait_readable()
        count = connection.receive_into(buffer)
        if count is not None:
            return count


class Listener(Protocol):
    """A port that accepts connections."""

    @property
    def address(self) -> Address:
        """The address it listens on, with the real port if port 0 was requested."""

    async def accept(self) -> Connection: ...

    def close(self) -> None: ...


class Network(Protocol):
    """Makes listeners and connections."""

    async def listen(self, address: Address) -> Listener: ...

    async def connect(self, address: Address) -> Connection: ...


class TcpConnection:
    """A TCP connection."""

    __slots__ = ("_local", "_readiness", "_remote", "_socket")

    def __init__(self, connected: socket.socket, readiness: Readiness, send_buffer_bytes: int) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if send_buffer_bytes > 0:
            # A fixed buffer stays in the processor's cache; one that grows by itself doubles the cost of bulk reads.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self._socket = connected
        self._readiness = readiness
        self._local = _address(connected.getsockname())
        self._remote = _address(connected.getpeername())

    @property
    def local(self) -> Address:
        return self._local

    @property
    def remote(self) -> Address:
        return self._remote

    def receive_into(self, buffer: memoryview) -> int | None:
        try:
            return self._socket.recv_into(buffer)
        except BlockingIOError:
            return None

    async def wait_readable(self) -> None:
        self._check_open()
        await trio.lowlevel.wait_readable(self._socket)

    async def call_when_readable(
        self, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None = None
    ) -> None:
        self._check_open()
        await self._readiness.call_when_readable(self._socket.fileno(), on_readable, turn_ended)

    def expect_soon(self) -> None:
        self._readiness.expect_soon()

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        try:
            if len(parts) == 1 and not more:
                return self._socket.send(parts[0])
            return self._socket.sendmsg(parts[:PARTS_MAX], (), socket.MSG_MORE if more else 0)
        except BlockingIOError:
            return 0

    def send_file(self, file: File, position: int, count: int) -> int:
        descriptor = file.descriptor
        assert descriptor is not None, "real connections send real files"
        try:
            sent = send_file(self._socket.fileno(), descriptor, position, count)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno == errno.EIO:  # no connection fails with this error
                raise UnreadableError(file.path) from error
            raise
        if sent == 0:
            raise OSError(f"{file.path} ended before position {position}")  # it was truncated meanwhile
        return sent

    async def wait_writable(self) -> None:
        self._check_open()
        await trio.lowlevel.wait_writable(self._socket)

    def end_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._readiness.on_closing(self._socket.fileno())
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _check_open(self) -> None:
        """Raises ClosedResourceError if the socket is closed. Trio would wait on its descriptor, -1."""
        if self._socket.fileno() < 0:
            raise trio.ClosedResourceError("the connection was closed here")


class TcpListener:
    """A listening TCP socket."""

    def __init__(self, listening: socket.socket, readiness: Readiness, send_buffer_bytes: int) -> None:
        listening.setblocking(False)
        self._socket = listening
        self._readiness = readiness
        self._send_buffer_bytes = send_buffer_bytes
        self._accepted_in_a_row = 0

    @property
    def address(self) -> Address:
        return _address(self._socket.getsockname())

    async def accept(self) -> TcpConnection:
        while True:
            if not 0 < self._accepted_in_a_row < ACCEPTED_IN_A_ROW_MAX:
                self._accepted_in_a_row = 0
                await trio.lowlevel.wait_readable(self._socket)
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                self._accepted_in_a_row = 0
                continue  # there is no other one, or the peer closed the connection before it was accepted
            self._accepted_in_a_row += 1
            try:
                return TcpConnection(accepted, self._readiness, self._send_buffer_bytes)
            except OSError:
                accepted.close()  # the peer closed the connection just after it was accepted

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class TcpNetwork:
    """The network of the operating system."""

    def __init__(self, send_buffer_bytes: int = 0, *, waits_awake: bool = True) -> None:
        self._send_buffer_bytes = send_buffer_bytes
        self._readiness = Readiness(waits_awake=waits_awake)

    async def listen(self, address: Address) -> TcpListener:
        try:
            family, host = (await _resolve(address))[0]
            listening = socket.socket(family, socket.SOCK_STREAM)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(host)
                listening.listen(BACKLOG)
            except BaseException:
                listening.close()
                raise
        except OSError as error:
            port_in_use = address.port if error.errno == errno.EADDRINUSE else None
            raise CannotListenError(f"cannot listen on {address}: {error.strerror or error}", port_in_use) from error
        return TcpListener(listening, self._readiness, self._send_buffer_bytes)

    async def connect(self, address: Address) -> TcpConnection:
        """Connects to the first address of the host that accepts.

        A name may stand for IPv6 and IPv4 addresses, and one of them may drop what is sent to it. So the next address
        is tried soon, while the attempts before it go on.
        """
        connected: TcpConnection | None = None
        errors: list[OSError] = []

        async def attempt(family: int, host: _Host, failed: trio.Event) -> None:
            nonlocal connected
            try:
                connection = await self._connect(family, host, address)
            except OSError as error:
                errors.append(error)
                failed.set()
                return
            if connected is not None:
                connection.close()  # another attempt was faster
            else:
                connected = connection
                nursery.cancel_scope.cancel()

        found = await _resolve(address)
        try:
            async with trio.open_nursery() as nursery:
                for family, host in found:
                    failed = trio.Event()
                    nursery.start_soon(attempt, family, host, failed)
                    with trio.move_on_after(NEXT_ADDRESS_SECONDS):
                        await failed.wait()
        except BaseException:
            if connected is not None:
                connected.close()
            raise
        if connected is None:
            raise errors[0]
        return connected

    async def _connect(self, family: int, host: _Host, address: Address) -> TcpConnection:
        connecting = socket.socket(family, socket.SOCK_STREAM)
        try:
            connecting.setblocking(False)
            outcome = connecting.connect_ex(host)
            if outcome == errno.EINPROGRESS:
                await trio.lowlevel.wait_writable(connecting)
                outcome = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if outcome:
                raise OSError(outcome, f"cannot connect to {address}: {os.strerror(outcome)}")
            return TcpConnection(connecting, self._readiness, self._send_buffer_bytes)
        except BaseException:
            connecting.close()
            raise


def outgoing_host() -> str | None:
    """Returns the address of this machine that other hosts see; None if it has no route to other hosts."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)  # chooses a route, and sends nothing
            host: str = probe.getsockname()[0]
        except OSError:
            return None
    return host


async def _resolve(address: Address) -> list[tuple[int, _Host]]:
    """Returns all addresses of the host in the order in which to try them; at least one."""
    try:
        found = await trio.socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise socket.gaierror(socket.EAI_NONAME, "no host can have that name") from error
    return [(family, host) for family, _, _, _, host in found]


def _address(name: tuple[str, int]) -> Address:
    """Returns the address of a socket; an IPv4 address of a socket for both versions of IP is shown as IPv4."""
    host = name[0]
    return Address(host.removeprefix("::ffff:") if "." in host else host, name[1])
