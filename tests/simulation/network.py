"""The network seam in memory, without sockets and threads, so that MockClock can drive it and a run can be repeated.

It behaves like TCP as far as servers can tell: buffers are bounded and a full one accepts nothing, the end of the
stream follows the bytes before it, and a side that closes with unread bytes resets the other side.
"""

import errno
import itertools
from collections.abc import Callable, Sequence

import trio

from tailrace.runtime.files import Buffer, File
from tailrace.runtime.network import Address, CannotListenError, Connection

FIRST_FREE_PORT = 40_000
CLIENT = Address("192.0.2.1", 50_000)
SERVER = Address("192.0.2.2", 9092)


async def call_in_a_loop(
    connection: Connection, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None
) -> None:
    """Implements `call_when_readable` for connections that can only wait each time."""
    goes_on = True
    while goes_on:
        await connection.wait_readable()
        try:
            goes_on = on_readable()
        finally:
            if turn_ended is not None:
                turn_ended()


class _Pipe:
    """One direction of a connection."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.held = bytearray()
        self.ended = False
        """Whether the writer has ended; bytes in the pipe can still be read."""
        self.changed = trio.Event()

    @property
    def room(self) -> int:
        return self.capacity_bytes - len(self.held)

    def notify(self) -> None:
        self.changed.set()
        self.changed = trio.Event()


class MemoryConnection:
    """One side of a connection; `peer` is the other side."""

    peer: "MemoryConnection"

    def __init__(self, local: Address, remote: Address, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._local = local
        self._remote = remote
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = False
        self._reset = False
        self.send_calls = 0
        """How many sends accepted at least one byte, which shows how well a server gathers its writes."""
        self.times_expected = 0
        """How often the server announced that it expects more soon."""

    @property
    def local(self) -> Address:
        return self._local

    @property
    def remote(self) -> Address:
        return self._remote

    @property
    def closed(self) -> bool:
        return self._closed

    def receive_into(self, buffer: memoryview) -> int | None:
        self._check()
        held = self._incoming.held
        if not held:
            return 0 if self._incoming.ended else None
        count = min(len(held), len(buffer))
        buffer[:count] = held[:count]
        del held[:count]
        self._incoming.notify()
        return count

    async def wait_readable(self) -> None:
        await trio.lowlevel.checkpoint()
        while not (self._incoming.held or self._incoming.ended or self._reset):
            self._check_open_for_waiting()
            await self._incoming.changed.wait()
        self._check_open_for_waiting()

    async def call_when_readable(
        self, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None = None
    ) -> None:
        await call_in_a_loop(self, on_readable, turn_ended)

    def expect_soon(self) -> None:
        self.times_expected += 1

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        assert parts, "sending nothing is a mistake of the caller"
        self._check()
        if self.peer._closed:
            raise BrokenPipeError(errno.EPIPE, "the peer has closed")
        taken = 0
        for part in parts:
            count = min(self._outgoing.room, len(part))
            self._outgoing.held += memoryview(part)[:count]
            taken += count
            if count < len(part):
                break
        if taken:
            self.send_calls += 1
            self._outgoing.notify()
        return taken

    def send_file(self, file: File, position: int, count: int) -> int:
        wanted = min(count, self._outgoing.room)
        if wanted == 0:
            self._check()
            return 0
        data = file.read_at(position, wanted)
        if not data:
            raise OSError(f"{file.path} ended before position {position}")
        return self.send([data])

    async def wait_writable(self) -> None:
        await trio.lowlevel.checkpoint()
        while not (self._outgoing.room or self.peer._closed or self._reset):
            self._check_open_for_waiting()
            await self._outgoing.changed.wait()
        self._check_open_for_waiting()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._incoming.held:
            self.peer._reset = True
        self._outgoing.ended = True
        self._notify()

    def end_sending(self) -> None:
        """Ends one direction: the peer reads what was sent and then the end of the stream, and may still send."""
        self._outgoing.ended = True
        self._notify()

    def reset(self) -> None:
        """Breaks the connection at once, as the crash of a machine does; bytes in flight are lost."""
        self._closed = True
        self.peer._reset = True
        self._notify()

    def _notify(self) -> None:
        self._incoming.notify()
        self._outgoing.notify()

    def _check(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "this side has closed")
        if self._reset:
            raise ConnectionResetError(errno.ECONNRESET, "the peer reset the connection")

    def _check_open_for_waiting(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("this side has closed")


def connected_pair(
    client: Address = CLIENT,
    server: Address = SERVER,
    *,
    buffer_bytes: int = 64 * 1024,
) -> tuple[MemoryConnection, MemoryConnection]:
    """Returns the client's and the server's side of one connection."""
    to_server = _Pipe(buffer_bytes)
    to_client = _Pipe(buffer_bytes)
    client_side = MemoryConnection(client, server, to_client, to_server)
    server_side = MemoryConnection(server, client, to_server, to_client)
    client_side.peer = server_side
    server_side.peer = client_side
    return client_side, server_side


class MemoryListener:
    def __init__(self, network: "MemoryNetwork", address: Address) -> None:
        self._network = network
        self._address = address
        self._waiting: list[MemoryConnection] = []
        self._changed = trio.Event()
        self._closed = False
        self.accept_errors: list[OSError] = []
        """Errors that the next calls of `accept` raise, one each, for example too many open files."""

    @property
    def address(self) -> Address:
        return self._address

    async def accept(self) -> MemoryConnection:
        await trio.lowlevel.checkpoint()
        if self.accept_errors:
            raise self.accept_errors.pop(0)
        while not self._waiting:
            if self._closed:
                raise trio.ClosedResourceError("the listener has closed")
            await self._changed.wait()
        return self._waiting.pop(0)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            del self._network.listeners[self._address]
            for connection in self._waiting:
                connection.reset()
            self._wake()

    def arrive(self, connection: MemoryConnection) -> None:
        self._waiting.append(connection)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class MemoryNetwork:
    """The network of all hosts; an address is whatever a listener chose."""

    def __init__(self, *, buffer_bytes: int = 64 * 1024) -> None:
        self.listeners: dict[Address, MemoryListener] = {}
        self._buffer_bytes = buffer_bytes
        self._ports = itertools.count(FIRST_FREE_PORT)

    async def listen(self, address: Address) -> MemoryListener:
        await trio.lowlevel.checkpoint()
        if address.port == 0:
            address = Address(address.host, next(self._ports))
        if address in self.listeners:
            raise CannotListenError(f"cannot listen on {address}: Address already in use")
        listener = MemoryListener(self, address)
        self.listeners[address] = listener
        return listener

    async def connect(self, address: Address) -> MemoryConnection:
        await trio.lowlevel.checkpoint()
        listener = self.listeners.get(address)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"cannot connect to {address}")
        here = Address(CLIENT.host, next(self._ports))
        ours, theirs = connected_pair(here, address, buffer_bytes=self._buffer_bytes)
        listener.arrive(theirs)
        return ours
