"""What `tailrace up` starts a managed SPU with: its settings, and the command line of one that is a child process.

Ports keep a distance of ten from SPU to SPU, as each has a few; those that somebody has chosen for clients follow one
another. That goes by the SPU's id, which is one of its kind in the cluster: so groups with the same template do not
meet, and the ports are the same at each start.
"""

import sys
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from tailrace.controller.objects.objects import Spu
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings, SpuSettings

from .serving import LogSettings

GROUP = "main"
"""The SPU group of `up` itself; others may be added while it runs."""
FIRST_ID = SpuId(1)
PORTS_APART = 10
CHOSEN_PORTS_APART = 1
CHOSEN_PORTS_MAX = 64
"""Left to the SPUs behind a chosen port, as far as our own choices go."""
PORT_MAX = 65535


class ManagedSpus(Struct, frozen=True):
    data_directory: str
    """Each SPU has a directory of its own below it."""
    listeners: tuple[ListenerSettings, ...]
    """Of the first SPU of our group. All others have as many: clients that come in on one are told only of SPUs that
    have it too."""
    private: ListenerSettings
    metrics: ListenerSettings | None
    broker: Mapping[str, str]
    are_listeners_chosen: bool
    """By a person: then no SPU takes another port than it should."""

    def settings_of(self, spu: Spu, controller: Address) -> SpuSettings:
        """`controller` is the private address of the SC."""
        spec = spu.spec
        listeners: tuple[ListenerSettings, ...] = (
            ListenerSettings("PUBLIC", Address(self._host, spec.public.port), may_move=True),
            *(ListenerSettings(each.name, Address(self._host, 0), may_move=True) for each in self.listeners[1:]),
        )
        private = ListenerSettings("PRIVATE", Address(self._host, spec.private.port), may_move=True)
        apart = PORTS_APART
        if spec.group == GROUP:
            listeners, private = self._listeners_of(spec.id), self.private
            apart = CHOSEN_PORTS_APART if self.are_listeners_chosen else PORTS_APART
        return SpuSettings(
            spec.id,
            f"{spec.log_directory or self.data_directory}/spu-{spec.id}",
            tuple(_moved(each, spec.id, apart) for each in listeners),
            None if self.metrics is None else self._moved_away(self.metrics, spec.id),
            spec.rack,
            {**self.broker, **spec.configs},
            controllers=(controller,),
            private=self._moved_away(private, spec.id),
        )

    def _moved_away(self, listener: ListenerSettings, spu: SpuId) -> ListenerSettings:
        """That of this SPU. Where it may move, it takes no port that another SPU of ours will want; and nobody has
        chosen more than that of the first one."""
        moved = _moved(listener, spu)
        host, port = moved.address.host, moved.address.port
        chosen = [each.address.port for each in self.listeners if self.are_listeners_chosen]
        if moved.may_move and any(0 < first <= port < first + CHOSEN_PORTS_MAX for first in chosen):
            return replace(moved, address=Address(host, 0))
        if spu == FIRST_ID:
            return moved
        return replace(moved, address=Address(host, 0 if self._is_met(listener, port) else port), may_move=True)

    def _is_met(self, listener: ListenerSettings, port: int) -> bool:
        """Whether one of the other kind, of any SPU, has this port: two that are chosen may be some tens apart."""
        if listener is self.metrics:
            return port == self.private.address.port
        first = 0 if self.metrics is None else self.metrics.address.port
        return 0 < first <= port and (port - first) % PORTS_APART == 0

    @property
    def _host(self) -> str:
        return self.listeners[0].address.host

    def _listeners_of(self, spu: SpuId) -> tuple[ListenerSettings, ...]:
        if spu == FIRST_ID or self.are_listeners_chosen:
            return self.listeners
        return tuple(replace(each, may_move=True) for each in self.listeners)


def child_command(settings: SpuSettings, log: LogSettings) -> list[str]:
    """The SPU as a program of its own, which stops when we do."""
    command = [sys.executable, "-P", "-m", "tailrace", "serve", "spu", "--until-input-ends"]
    command += ["--id", str(settings.id), "--data", settings.data_directory]
    command += ["--sc", ",".join(map(str, settings.controllers))]
    for listener in settings.listeners:
        command += ["--public", _text(listener)]
    command += ["--private", _text(settings.private)]
    command += ["--metrics", "off" if settings.metrics is None else _text(settings.metrics)]
    if settings.rack is not None:
        command += ["--rack", settings.rack]
    for name, value in settings.broker.items():
        command += ["--set", f"{name}={value}"]
    command += ["--log-level", log.level]
    if log.format is not None:
        command += ["--log-format", log.format]
    return command


def _moved(listener: ListenerSettings, spu: SpuId, apart: int = PORTS_APART) -> ListenerSettings:
    """Where the listener of the first SPU is on this one."""
    advertised = listener.advertised
    return replace(
        listener,
        address=_moved_address(listener.address, spu, apart),
        advertised=None if advertised is None else _moved_address(advertised, spu, apart),
    )


def _moved_address(address: Address, spu: SpuId, apart: int) -> Address:
    port = address.port + apart * (spu - FIRST_ID)
    if address.port == 0 or not 0 < port <= PORT_MAX:
        return Address(address.host, 0)
    return Address(address.host, port)


def _text(listener: ListenerSettings) -> str:
    return f"{listener.address}={listener.advertised}" if listener.advertised else str(listener.address)
