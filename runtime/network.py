"""The network seam: listeners and connections whose calls never block, and waits that are Trio's.

A connection hands over what has arrived and takes what fits, at once; only `wait_readable` and `wait_writable` wait.
So a server handles everything it received in one synchronous turn and sends all the answers with one call.
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
PARTS_MAX = 512  # of one vectored send; Linux takes 1024
NEXT_ADDRESS_SECONDS = 0.25
"""A small part of what anybody here waits for a connection."""
_HOST = re.compile(r"[^\s/,=\ud800-\udfff]{1,255}")

_Host = tuple[object, ...]
"""A resolved address, as sockets take it."""


class CannotListenError(Exception):
    """The address is taken, or is none of this machine's; the message is for the person who chose it."""


class Address(Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def may_be_host(text: str) -> bool:
    """Whether it can be the name or the address of one, as far as its characters tell."""
    return _HOST.fullmatch(text) is not None


class Connection(Protocol):
    """Ordered bytes both ways. A broken connection raises OSError from any call."""

    @property
    def local(self) -> Address: ...

    @property
    def remote(self) -> Address: ...

    def receive_into(self, buffer: memoryview) -> int | None:
        """How many bytes were put into the buffer; 0 at the end of the stream; None when nothing has arrived."""

    async def wait_readable(self) -> None: ...

    async def call_when_readable(
        self, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None = None
    ) -> None:
        """Calls it each time there may be something to read, until it returns False; then `turn_ended`, which several
        connections may have in common: after all of them that can be read have been called, once, before anybody else.

        What they raise is raised here. They are not called in the task that waits, which sleeps on meanwhile.
        """

    def expect_soon(self) -> None:
        """The other side is about to send: it is worth being awake for, this once."""

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        """How many bytes were taken; 0 when the connection is full. With `more`, what follows may share a packet."""

    def send_file(self, file: File, position: int, count: int) -> int:
        """As `send`, from a file, without a copy through this process where the platform can do that.

        Raises UnreadableError when the file is at fault, and not the connection."""

    async def wait_writable(self) -> None: ...

    def end_sending(self) -> None:
        """Half a close: the peer reads what was sent and then the end of the stream, and may still send."""

    def close(self) -> None:
        """Closes at once; tasks that wait on the connection get an error."""


async def send_all(connection: Connection, data: Buffer) -> None:
    """Returns when the connection has taken everything, for those who have one thing to say and wait for it."""
    rest = memoryview(data)
    while rest:
        sent = connection.send([rest])
        rest = rest[sent:]
        if rest:
            await connection.wait_writable()


async def receive_some(connection: Connection, buffer: memoryview) -> int:
    """As `receive_into`, once there is something: 0 is the end of the stream."""
    while True:
        await connection.wait_readable()
        count = connection.receive_into(buffer)
        if count is not None:
            return count


class Listener(Protocol):
    @property
    def address(self) -> Address:
        """Where it listens, with the real port if port 0 was asked for."""

    async def accept(self) -> Connection: ...

    def close(self) -> None: ...


class Network(Protocol):
    async def listen(self, address: Address) -> Listener: ...

    async def connect(self, address: Address) -> Connection: ...


class TcpConnection:
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
            if error.errno == errno.EIO:  # no connection fails with that
                raise UnreadableError(file.path) from error
            raise
        if sent == 0:
            raise OSError(f"{file.path} ended before position {position}")  # it was cut meanwhile
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
        """Trio takes the descriptor of a closed socket, -1, for one to wait on."""
        if self._socket.fileno() < 0:
            raise trio.ClosedResourceError("the connection was closed here")


class TcpListener:
    def __init__(self, listening: socket.socket, readiness: Readiness, send_buffer_bytes: int) -> None:
        listening.setblocking(False)
        self._socket = listening
        self._readiness = readiness
        self._send_buffer_bytes = send_buffer_bytes

    @property
    def address(self) -> Address:
        return _address(self._socket.getsockname())

    async def accept(self) -> TcpConnection:
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue  # the peer was gone before it was looked at
            try:
                return TcpConnection(accepted, self._readiness, self._send_buffer_bytes)
            except OSError:
                accepted.close()  # the same, a moment later

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class TcpNetwork:
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
            raise CannotListenError(f"cannot listen on {address}: {error.strerror or error}") from error
        return TcpListener(listening, self._readiness, self._send_buffer_bytes)

    async def connect(self, address: Address) -> TcpConnection:
        """To the first of the host's addresses that answers: a name may stand for one of IPv6 and one of IPv4, and one
        of them may drop what is sent to it. So the next is tried soon, while those before it go on."""
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
                connection.close()  # another one was as fast
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


async def _resolve(address: Address) -> list[tuple[int, _Host]]:
    """All that the name stands for, in the order in which they are to be tried; at least one."""
    try:
        found = await trio.socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise socket.gaierror(socket.EAI_NONAME, "no host can have that name") from error
    return [(family, host) for family, _, _, _, host in found]


def _address(name: tuple[str, int]) -> Address:
    return Address(name[0], name[1])
