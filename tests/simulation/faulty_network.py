"""The network of a simulated cluster: hosts, with links between them that are slow, blocked, or lose connections.

It behaves like TCP as far as programs can tell. Bytes arrive in order and late. A blocked link delivers its bytes when
it works again. A process that dies ends its connections, and a machine that dies says nothing. A host that sends to a
lost connection learns that a round trip later. All delays come from a seed.
"""

import errno
import math
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal

import trio
from msgspec import Struct, field

from tailrace.runtime.files import Buffer, File
from tailrace.runtime.network import Address, CannotListenError

from .network import call_in_a_loop
from .virtual_clock import Sleeper

FIRST_FREE_PORT = 40_000
BUFFER_BYTES = 64 * 1024
SILENT_CONNECT_SECONDS_MAX = 30.0
"""How long a machine tries to connect to one that does not respond."""

Mark = Literal["end", "reset"]


class Link(Struct):
    """One direction between two hosts."""

    delay_seconds: float
    jitter_seconds: float
    blocked_by: int = 0
    """How many faults block the link now."""
    slowed_by: float = 0.0
    """The additional delay of each delivery while the link is clogged."""
    streams: "dict[_Stream, None]" = field(default_factory=dict)
    """The streams over the link, in the order in which they began."""
    opened: trio.Event = field(default_factory=trio.Event)

    def arrival(self, chance: Random) -> float:
        """Returns when bytes arrive that are sent now."""
        if self.blocked_by:
            return math.inf
        return trio.current_time() + self.delay_seconds + self.slowed_by + self.jitter_seconds * chance.random()


class _Stream:
    """One direction of a connection: bytes in flight, and bytes that have arrived and are unread."""

    def __init__(self, link: Link, chance: Random, capacity_bytes: int) -> None:
        self._link = link
        self._chance = chance
        self._capacity_bytes = capacity_bytes
        self._under_way: deque[tuple[float, bytes | Mark]] = deque()
        self._held_bytes = 0
        self._last_arrival = 0.0
        self._is_stalled = False
        self._changed: trio.Event | None = None
        """An event for tasks that wait for a change, or None if none wait."""
        self._reader = Sleeper()
        """The reader, which sleeps until the next bytes arrive."""

    @property
    def room_bytes(self) -> int:
        return self._capacity_bytes - self._held_bytes

    def put(self, what: bytes | Mark) -> None:
        arrival = math.inf if self._is_stalled else max(self._last_arrival, self._link.arrival(self._chance))
        self._last_arrival = arrival
        self._under_way.append((arrival, what))
        if isinstance(what, bytes):
            self._held_bytes += len(what)
        self._link.streams[self] = None
        self._expect_arrival()

    def stall(self) -> None:
        """Delivers nothing for a while, although the link works for other streams."""
        self._is_stalled = True
        self.on_link_blocked()

    def resume(self) -> None:
        self._is_stalled = False
        self.on_link_opened()

    def on_link_opened(self) -> None:
        """Schedules the waiting bytes."""
        waiting = [what for arrival, what in self._under_way if arrival == math.inf]
        arrived = [(arrival, what) for arrival, what in self._under_way if arrival != math.inf]
        self._under_way = deque(arrived)
        self._last_arrival = arrived[-1][0] if arrived else 0.0
        for what in waiting:
            if isinstance(what, bytes):
                self._held_bytes -= len(what)
            self.put(what)

    def on_link_blocked(self) -> None:
        """Stops the delivery of bytes in flight, which TCP repeats when the link works again."""
        now = trio.current_time()
        self._under_way = deque((arrival if arrival <= now else math.inf, what) for arrival, what in self._under_way)
        self._last_arrival = self._under_way[-1][0] if self._under_way else 0.0
        self._expect_arrival()

    @property
    def next_arrival(self) -> float:
        return self._under_way[0][0] if self._under_way else math.inf

    @property
    def first(self) -> bytes | Mark | None:
        """Returns the first unread item that has arrived."""
        under_way = self._under_way
        if not under_way:
            return None
        now = trio.current_time()
        if len(under_way) > 1 and under_way[0][1] == "end" and under_way[1][0] <= now:
            under_way.popleft()  # a reader that was told of the end may still learn that both directions have ended
        arrival, what = under_way[0]
        return what if arrival <= now else None

    def take(self, buffer: memoryview) -> int:
        count = 0
        while count < len(buffer) and isinstance(found := self.first, bytes):
            taken = found[: len(buffer) - count]
            buffer[count : count + len(taken)] = taken
            count += len(taken)
            arrival, _ = self._under_way.popleft()
            if len(taken) < len(found):
                self._under_way.appendleft((arrival, found[len(taken) :]))
        self._held_bytes -= count
        self.notify()
        return count

    def forget(self) -> None:
        """Drops everything, because there is no reader any more."""
        self._under_way.clear()
        self._held_bytes = 0
        self._link.streams.pop(self, None)
        self.notify()

    def notify(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        self._reader.wake()

    def _expect_arrival(self) -> None:
        """Tells the sleeping reader when the next bytes arrive, so that nothing has to wake it then."""
        self._reader.move(self.next_arrival)

    async def wait_for_arrival(self) -> None:
        """Waits until bytes arrive, or something else happens."""
        await self._reader.sleep(self.next_arrival)

    async def wait_for_change(self, until: float) -> None:
        if self._changed is None:
            self._changed = trio.Event()
        with trio.move_on_at(until):
            await self._changed.wait()


class SimulatedConnection:
    """One side of a connection; `peer` is the other side."""

    peer: "SimulatedConnection"

    def __init__(
        self, network: "ProcessNetwork", local: Address, remote: Address, incoming: _Stream, outgoing: _Stream
    ) -> None:
        self._network = network
        self._local = local
        self._remote = remote
        self._incoming = incoming
        self._outgoing = outgoing
        self.is_closed = False
        self.is_gone = False
        """Whether the machine has lost power, so that it does not respond."""
        self._sent_to_nobody = False
        self.first_sent = b""
        """What this side sent first."""

    @property
    def local(self) -> Address:
        return self._local

    @property
    def remote(self) -> Address:
        return self._remote

    def receive_into(self, buffer: memoryview) -> int | None:
        self._check()
        first = self._incoming.first
        if first is None:
            return None
        if first == "end":
            return 0
        return self._incoming.take(buffer)

    async def wait_readable(self) -> None:
        await trio.lowlevel.checkpoint()
        self._check_open_for_waiting()
        while self._incoming.first is None:
            await self._incoming.wait_for_arrival()
            self._check_open_for_waiting()

    async def call_when_readable(
        self, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None = None
    ) -> None:
        await call_in_a_loop(self, on_readable, turn_ended)

    def expect_soon(self) -> None:
        pass  # nothing sleeps here

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        assert parts, "sending nothing is a mistake of the caller"
        self._check()
        room = self._outgoing.room_bytes
        data = bytearray()
        for part in parts:
            data += memoryview(part)[: room - len(data)]
            if len(data) == room:
                break
        if data:
            self._deliver(bytes(data))
        return len(data)

    def _deliver(self, data: bytes) -> None:
        if self.peer.is_gone:
            self._sent_to_nobody = True
        elif self.peer.is_closed:
            self._hear_reset()
        else:
            self._network.internet.note(self, data)
            self.first_sent = self.first_sent or data
            self._outgoing.put(data)

    def send_file(self, file: File, position: int, count: int) -> int:
        wanted = min(count, self._outgoing.room_bytes)
        if wanted == 0:
            self._check()
            return 0
        data = file.read_at(position, wanted)
        if not data:
            raise OSError(f"{file.path} ended before position {position}")
        return self.send([data])

    async def wait_writable(self) -> None:
        await trio.lowlevel.checkpoint()
        self._check_open_for_waiting()
        while not (self._outgoing.room_bytes or self._is_reset()):
            await self._outgoing.wait_for_change(self._incoming.next_arrival)  # a reset arrives on the incoming stream
            self._check_open_for_waiting()

    def end_sending(self) -> None:
        self._outgoing.put("end")

    def close(self) -> None:
        if not self.is_closed:
            unread = self._incoming.first
            self.is_closed = True
            self._incoming.forget()
            if not (self.is_gone or self.peer.is_gone):
                self._outgoing.put("reset" if isinstance(unread, bytes) else "end")
            self._outgoing.notify()

    # faults

    def reset(self) -> None:
        """Breaks the connection for both sides at once; bytes in flight are lost."""
        for side in (self, self.peer):
            side._incoming.forget()
            if not side.is_closed and not side.is_gone:
                side._hear_reset()

    def stall(self) -> None:
        """Lets nothing that this side sends arrive, while other connections go on."""
        self._outgoing.stall()

    def resume(self) -> None:
        """Lets everything arrive that this side has sent, also if it was closed since."""
        self._outgoing.resume()

    def vanish(self) -> None:
        """Stops this side, because its machine stops."""
        self.is_gone = self.is_closed = True
        self._incoming.forget()

    def on_machine_back(self) -> None:
        """Tells a peer that still sends that this connection is unknown."""
        self.is_gone = False
        if self.peer._sent_to_nobody and not self.peer.is_closed:
            self.peer._hear_reset()

    def _hear_reset(self) -> None:
        self._incoming.put("reset")
        self._outgoing.notify()  # wake the task that waits to send

    def _is_reset(self) -> bool:
        return self._incoming.first == "reset"

    def _check(self) -> None:
        if self.is_closed:
            raise OSError(errno.EBADF, "this side has closed")
        if self._is_reset():
            raise ConnectionResetError(errno.ECONNRESET, "the peer reset the connection")

    def _check_open_for_waiting(self) -> None:
        if self.is_closed:
            raise trio.ClosedResourceError("this side has closed")


class SimulatedListener:
    def __init__(self, network: "ProcessNetwork", address: Address) -> None:
        self._network = network
        self._address = address
        self._waiting: deque[SimulatedConnection] = deque()
        self._changed = trio.Event()
        self._closed = False

    @property
    def address(self) -> Address:
        return self._address

    async def accept(self) -> SimulatedConnection:
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            if self._closed:
                raise trio.ClosedResourceError("the listener has closed")
            await self._changed.wait()
        return self._waiting.popleft()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._network.internet.listeners.pop(self._address, None)
            for connection in self._waiting:
                connection.close()
            self._wake()

    def arrive(self, connection: SimulatedConnection) -> None:
        self._waiting.append(connection)
        self._network.connections.append(connection)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class Internet:
    """All hosts, by name, and the links between them."""

    def __init__(self, chance: Random, *, buffer_bytes: int = BUFFER_BYTES, link_seconds: float = 0.0005) -> None:
        """Prepares the network; `link_seconds` is the longest delay of a message."""
        self._link_seconds = link_seconds
        self.chance = chance
        self.buffer_bytes = buffer_bytes
        self.listeners: dict[Address, SimulatedListener] = {}
        self.machines_off: set[str] = set()
        self.links: dict[tuple[str, str], Link] = {}
        self._gone: dict[str, list[SimulatedConnection]] = {}
        self._next_port = FIRST_FREE_PORT
        self.digest = 0
        """A digest of everything that was sent: two runs with the same digest had the same history."""

        self.on_sent: Callable[[SimulatedConnection, bytes], None] = lambda connection, data: None

    def note(self, connection: SimulatedConnection, data: bytes) -> None:
        self.digest = zlib.crc32(data, self.digest)
        self.on_sent(connection, data)

    def process_on(self, host: str) -> "ProcessNetwork":
        return ProcessNetwork(self, host)

    def link(self, sender: str, receiver: str) -> Link:
        key = sender, receiver
        if key not in self.links:
            self.links[key] = Link(self._link_seconds / 2, self._link_seconds / 2)
        return self.links[key]

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    # faults

    def block(self, sender: str, receiver: str) -> None:
        link = self.link(sender, receiver)
        link.blocked_by += 1
        for stream in list(link.streams):
            stream.on_link_blocked()

    def unblock(self, sender: str, receiver: str) -> None:
        link = self.link(sender, receiver)
        link.blocked_by -= 1
        if not link.blocked_by:
            link.opened.set()
            link.opened = trio.Event()
            for stream in list(link.streams):
                stream.on_link_opened()

    def switch_off(self, host: str, network: "ProcessNetwork") -> None:
        """Cuts the power of a machine: its peers hear nothing."""
        self.machines_off.add(host)
        for connection in network.connections:
            if not connection.is_closed:
                connection.vanish()
                self._gone.setdefault(host, []).append(connection)
        network.die()

    def switch_on(self, host: str) -> None:
        self.machines_off.discard(host)
        for connection in self._gone.pop(host, ()):
            connection.on_machine_back()


class ProcessNetwork:
    """The network seam of one process; if that is killed, the kernel ends its connections."""

    def __init__(self, internet: Internet, host: str) -> None:
        self.internet = internet
        self.host = host
        self.connections: list[SimulatedConnection] = []
        self._listeners: list[SimulatedListener] = []
        self._is_dead = False

    async def listen(self, address: Address) -> SimulatedListener:
        await trio.lowlevel.checkpoint()
        self._check_alive()
        if address.port == 0:
            address = Address(address.host, self.internet.free_port())
        if address in self.internet.listeners:
            raise CannotListenError(f"cannot listen on {address}: Address already in use")
        listener = SimulatedListener(self, address)
        self.internet.listeners[address] = listener
        self._listeners.append(listener)
        return listener

    async def connect(self, address: Address) -> SimulatedConnection:
        self._check_alive()
        internet = self.internet
        there, back = internet.link(self.host, address.host), internet.link(address.host, self.host)
        with trio.move_on_after(SILENT_CONNECT_SECONDS_MAX) as waiting:
            await _until_open(there)
            await trio.sleep_until(there.arrival(internet.chance))
            if address.host in internet.machines_off:
                await trio.sleep_forever()
            listener = internet.listeners.get(address)
            await _until_open(back)
            await trio.sleep_until(back.arrival(internet.chance))
        self._check_alive()
        if waiting.cancelled_caught:
            raise OSError(errno.ETIMEDOUT, f"cannot connect to {address}: it does not respond")
        if listener is None or internet.listeners.get(address) is not listener:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"cannot connect to {address}")
        here = Address(self.host, internet.free_port())
        to_server = _Stream(there, internet.chance, internet.buffer_bytes)
        to_client = _Stream(back, internet.chance, internet.buffer_bytes)
        ours = SimulatedConnection(self, here, address, to_client, to_server)
        theirs = SimulatedConnection(self, address, here, to_server, to_client)
        ours.peer, theirs.peer = theirs, ours
        self.connections = [each for each in self.connections if not each.is_closed]
        self.connections.append(ours)
        listener.arrive(theirs)
        return ours

    def die(self) -> None:
        self._is_dead = True
        for listener in self._listeners:
            listener.close()
        for connection in self.connections:
            connection.close()

    def _check_alive(self) -> None:
        if self._is_dead:
            raise OSError(errno.ENETDOWN, "this process is dead")


async def _until_open(link: Link) -> None:
    while link.blocked_by:
        await link.opened.wait()
