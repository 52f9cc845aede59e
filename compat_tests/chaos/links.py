"""The connections of SPUs with each other and with SCs, carried by a proxy that cuts, silences and slows them.

Every SPU is known to the others, and every SC to the SPUs, by an address of the proxy. Who has dialled is found out
from the kernel: the SPU that owns the other end of the connection. So the proxy understands nothing of what it carries.
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


class Carriage(Struct, frozen=True):
    """How a link carries bytes."""

    is_open: bool = True
    """False: connections break, and new ones too."""
    silent: tuple[bool, bool] = (False, False)
    """Nothing arrives, and nobody is told: of what the smaller id sends, and of what the larger one sends."""
    delay_seconds: float = 0.0
    """Of each piece."""


WELL = Carriage()
SC = 0
"""The first Streaming Controller, where SPUs go by their ids; a second one is -1."""


class Links:
    def __init__(self, spus: Iterable[int], pid_of: Callable[[int], int], scs: int = 1) -> None:
        self._spus = tuple(spus)
        self._pid_of = pid_of
        self.scs = tuple(range(SC, SC - scs, -1))
        self.private = {node: f"127.0.0.1:{free_port()}" for node in (*self._spus, *self.scs)}
        """Where each of them listens for SPUs."""
        self.advertised: dict[int, str] = {}
        """Where the others believe that it listens."""
        self._among_spus = tuple(_pair(*each) for each in combinations(self._spus, 2))
        self._carriage = dict.fromkeys((*self._among_spus, *product(self.scs, self._spus)), WELL)
        self._cuts = dict.fromkeys(self._carriage, 0)
        """How often a link was severed: a connection does not outlive one, however short it was."""
        self._is_closed = False
        self._listeners = []
        for node in self.private:
            listener = socket.create_server(("127.0.0.1", 0))
            self._listeners.append(listener)
            self.advertised[node] = "{}:{}".format(*listener.getsockname())
            threading.Thread(target=self._accept, args=(node, listener), daemon=True).start()

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Those of SPUs with each other."""
        return self._among_spus

    def set(self, one: int, other: int, carriage: Carriage) -> None:
        """From now on, also for what is under way."""
        self._cuts[_pair(one, other)] += not carriage.is_open
        self._carriage[_pair(one, other)] = carriage

    def isolate(self, spu: int, carriage: Carriage) -> None:
        """All the links of one SPU with others."""
        for other in self._spus:
            if other != spu:
                self.set(spu, other, carriage)

    def cut_off(self, spu: int, carriage: Carriage) -> None:
        """From the SCs as well: nobody but clients reaches it."""
        self.isolate(spu, carriage)
        for sc in self.scs:
            self.set(sc, spu, carriage)

    def carry_all(self) -> None:
        for pair in self._carriage:
            self.set(*pair, WELL)

    def close(self) -> None:
        self._is_closed = True
        for listener in self._listeners:
            # A thread that waits in accept() keeps the port; only this ends its wait.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _accept(self, node: int, listener: socket.socket) -> None:
        while not self._is_closed:
            try:
                accepted, address = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(node, accepted, address[1]), daemon=True).start()

    def _carry(self, node: int, accepted: socket.socket, port: int) -> None:
        with accepted:
            dialler = self._owner_of(port)
            cuts = dict(self._cuts)
            if dialler is None or not self._carriage[_pair(node, dialler)].is_open:
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
                carriage = self._carriage[pair]
                if self._cuts[pair] != cuts[pair]:
                    _reset_when_closed(source)
                    _reset_when_closed(sink)
                    return
                if carriage.silent[direction]:
                    ended.wait(LOOK_SECONDS)  # what has been sent waits, as it does where packets are lost
                    continue
                if not has_piece:
                    continue
                piece = source.recv(PIECE_BYTES_MAX)
                if not piece:
                    return
                if carriage.delay_seconds:
                    ended.wait(carriage.delay_seconds)
                self._send(sink, piece, ended)
        except OSError:
            pass
        finally:
            ended.set()

    def _send(self, sink: socket.socket, piece: bytes, ended: threading.Event) -> None:
        """Not sendall: a receiver that reads nothing must not keep this thread beyond the connection's end."""
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
    """Also what is on its way is lost then."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
