"""A proxy for the connections of SPUs with each other and with SCs, which can break, silence and slow them.

SPUs know each other and the SCs by addresses of the proxy. The kernel tells the proxy which SPU owns the other end of a
connection, so the proxy need not understand the data that it carries.
"""

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations, product

import psutil
from free_ports import free_port
from msgspec import Struct

PIECE_BYTES_MAX = 65536
LOOK_SECONDS = 0.02
"""How soon a connection notices that its link has changed."""


class LinkState(Struct, frozen=True):
    """How a link carries bytes."""

    is_open: bool = True
    """Whether connections work. If not, existing connections break, and new ones fail."""
    silent: tuple[bool, bool] = (False, False)
    """The directions in which data disappears without an error: from the smaller id, and from the larger id."""
    delay_seconds: float = 0.0
    """The delay of each piece of data."""


HEALTHY_LINK = LinkState()
SC = 0
"""The id of the first Streaming Controller; a second one has the id -1."""


class Links:
    def __init__(self, spus: Iterable[int], pid_of: Callable[[int], int], scs: int = 1) -> None:
        self._spus = tuple(spus)
        self._pid_of = pid_of
        self.scs = tuple(range(SC, SC - scs, -1))
        self.private = {node: f"127.0.0.1:{free_port()}" for node in (*self._spus, *self.scs)}
        """The address on which each server listens for SPUs."""
        self.advertised: dict[int, str] = {}
        """The proxy's address that the other servers use for each server."""
        self._among_spus = tuple(_pair(*each) for each in combinations(self._spus, 2))
        self._states = dict.fromkeys((*self._among_spus, *product(self.scs, self._spus)), HEALTHY_LINK)
        self._cuts = dict.fromkeys(self._states, 0)
        """How often each link was severed; a connection does not survive that, however short it was."""
        self._is_closed = False
        self._listeners = []
        for node in self.private:
            listener = socket.create_server(("127.0.0.1", 0))
            self._listeners.append(listener)
            self.advertised[node] = "{}:{}".format(*listener.getsockname())
            threading.Thread(target=self._accept, args=(node, listener), daemon=True).start()

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Returns the pairs of SPUs."""
        return self._among_spus

    def set(self, one: int, other: int, state: LinkState) -> None:
        """Changes a link from now on, also for data that is on its way."""
        self._cuts[_pair(one, other)] += not state.is_open
        self._states[_pair(one, other)] = state

    def isolate(self, spu: int, state: LinkState) -> None:
        """Changes all links of one SPU to other SPUs."""
        for other in self._spus:
            if other != spu:
                self.set(spu, other, state)

    def isolate_from_all(self, spu: int, state: LinkState) -> None:
        """Changes all links of one SPU, also those to the SCs, so that only clients reach it."""
        self.isolate(spu, state)
        for sc in self.scs:
            self.set(sc, spu, state)

    def restore_all(self) -> None:
        for pair in self._states:
            self.set(*pair, HEALTHY_LINK)

    def close(self) -> None:
        self._is_closed = True
        for listener in self._listeners:
            # A thread that waits in accept() keeps the port in use; only this call ends its wait.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _accept(self, node: int, listener: socket.socket) -> None:
        while not self._is_closed:
            try:
                accepted, address = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._set_links, args=(node, accepted, address[1]), daemon=True).start()

    def _set_links(self, node: int, accepted: socket.socket, port: int) -> None:
        with accepted:
            dialler = self._owner_of(port)
            cuts = dict(self._cuts)
            if dialler is None or not self._states[_pair(node, dialler)].is_open:
                _reset_when_closed(accepted)
                return
            host, _, number = self.private[node].rpartition(":")
            try:
                onward = socket.create_connection((host, int(number)), timeout=5)
            except OSError:
                return
            with onward:
                for each in (accepted, onward):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    each.settimeout(None)
                ended = threading.Event()
                back = threading.Thread(
                    target=self._pump, args=(onward, accepted, node, dialler, cuts, ended), daemon=True
                )
                back.start()
                self._pump(accepted, onward, dialler, node, cuts, ended)
                back.join()

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        sender: int,
        receiver: int,
        cuts: Mapping[tuple[int, int], int],
        ended: threading.Event,
    ) -> None:
        pair = _pair(sender, receiver)
        direction = pair.index(sender)
        try:
            while not (ended.is_set() or self._is_closed):
                has_piece = select.select([source], [], [], LOOK_SECONDS)[0]
                state = self._states[pair]
                if self._cuts[pair] != cuts[pair]:
                    _reset_when_closed(source)
                    _reset_when_closed(sink)
                    return
                if state.silent[direction]:
                    # data that has been sent waits, as it does on a network that loses packets
                    ended.wait(LOOK_SECONDS)
                    continue
                if not has_piece:
                    continue
                piece = source.recv(PIECE_BYTES_MAX)
                if not piece:
                    return
                if state.delay_seconds:
                    ended.wait(state.delay_seconds)
                self._send(sink, piece, ended)
        except OSError:
            pass
        finally:
            ended.set()

    def _send(self, sink: socket.socket, piece: bytes, ended: threading.Event) -> None:
        """Sends a piece of data without sendall: a receiver that reads nothing must not keep this thread running after
        the connection has ended."""
        left = memoryview(piece)
        while left and not (ended.is_set() or self._is_closed):
            if select.select([], [sink], [], LOOK_SECONDS)[1]:
                left = left[sink.send(left, socket.MSG_DONTWAIT) :]

    def _owner_of(self, port: int) -> int | None:
        for spu in self._spus:
            with contextlib.suppress(psutil.Error, AssertionError):
                for each in psutil.Process(self._pid_of(spu)).net_connections("tcp"):
                    if each.laddr and each.laddr.port == port:
                        return spu
        return None


def _reset_when_closed(connection: socket.socket) -> None:
    """Makes the connection reset when it closes, so that data on its way is lost too."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
