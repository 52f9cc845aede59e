"""The settings of the managed SPUs of `tailrace up`, such as ports, and the command lines of child processes.

The ports of an SPU follow from its id, so that they are the same at each start and SPU groups with the same template do
not collide. Consecutive SPUs are ten ports apart because each has a few ports. If the user has chosen ports for
clients, consecutive SPUs have consecutive ones.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.configs.broker_configs import definition_of
from tailrace.controller.objects.objects import Spu, SpuGroup, SpuSpec
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings, SpuSettings
from tailrace.runtime.settings_sources import broker_variable_of
from tailrace.security.settings.security_settings import PROTOCOL_MAP

from .endpoint_protocols import SECURED_PROTOCOLS, refusal_of_encryption, with_encryption
from .serving import LogSettings

if TYPE_CHECKING:
    from .secured_cluster import SecuredCluster

GROUP = "main"
"""The SPU group of `up` itself; other groups may be created while it runs."""
FIRST_ID = SpuId(1)
PORTS_APART = 10
CHOSEN_PORTS_APART = 1
CHOSEN_PORTS_MAX = 64
"""The number of ports after a chosen one that are reserved for the other SPUs."""
PORT_MAX = 65535
_LOCAL_HOSTS = ("localhost", "127.0.0.1")


class ManagedSpus(Struct, frozen=True):
    """The settings that all managed SPUs have in common."""

    data_directory: str
    """The directory that has a data directory for each SPU."""
    listeners: tuple[ListenerSettings, ...]
    """The public listeners of the first SPU in the group `main`.

    Every SPU has the same number of listeners, because clients of one listener learn only of SPUs that have it too.
    """
    private: ListenerSettings
    """The private listener of the first SPU."""
    metrics: ListenerSettings | None
    """The metrics listener of the first SPU; None without metrics."""
    broker: Mapping[str, str]
    """The broker configs of all SPUs."""
    are_listeners_chosen: bool
    """Whether the user has chosen `listeners`; then no SPU may move to another port."""
    published: Address | None = None
    """The address at which the container's port of the first SPU is published.

    The ports of the other SPUs in the group `main` are published as consecutively as these SPUs listen.
    """
    secured: "SecuredCluster | None" = None
    """The certificates of the cluster; None if it is open to everybody."""

    def settings_of(self, spu: Spu, controller: Address) -> SpuSettings:
        """Returns the settings of an SPU; `controller` is the private address of the SC."""
        spec = spu.spec
        listeners: tuple[ListenerSettings, ...] = (
            ListenerSettings("PUBLIC", Address(self._host, spec.public.port), may_move=True),
            *(ListenerSettings(each.name, Address(self._host, 0), may_move=True) for each in self.listeners[1:]),
        )
        private = ListenerSettings("PRIVATE", Address(self._host, spec.private.port), may_move=True)
        apart = PORTS_APART
        published = None
        if spec.group == GROUP:
            published = self._published_of(spec.id)
            listeners, private = self._listeners_of(spec.id), self.private
            apart = CHOSEN_PORTS_APART if self.are_listeners_chosen else PORTS_APART
        return SpuSettings(
            spec.id,
            f"{spec.log_directory or self.data_directory}/spu-{spec.id}",
            tuple(_moved(each, spec.id, apart) for each in listeners),
            None if self.metrics is None else self._moved_away(self.metrics, spec.id),
            spec.rack,
            self._broker_of(spec),
            controllers=(controller,),
            private=self._moved_away(private, spec.id),
            published=published,
        )

    def refusal(self, wanted: SpuGroup, before: SpuGroup | None) -> str | None:
        """Returns why the template of an SPU group would have no effect, or None if it would have one.

        `before` is the group as it is, or None for a new group.
        """
        template = wanted.spec.template
        public, private = template.public, template.private
        is_moved = before is None or (public, private) != (before.spec.template.public, before.spec.template.private)
        if is_moved and wanted.name == GROUP and before is not None:
            return (
                f"template: the endpoints of the group {GROUP} follow from --public and --private of `tailrace up`, "
                "and from listener.security.protocol.map; start it again with other ones"
            )
        if before is None or template != before.spec.template:
            fault = refusal_of_encryption(
                self._protocols() | {**self.broker, **template.configs},
                template,
                has_certificates=self.secured is not None,
            )
            if fault is not None:
                return fault
        if not is_moved:
            return None
        local = (*_LOCAL_HOSTS, self._host)
        if any(host not in local for host in public.ingress):
            return (
                f"template.publicEndpoint.ingress: {public.ingress[0]!r} would have no effect, because `tailrace up` "
                f"tells clients the address at which it listens, {self._host}; leave it out"
            )
        if private.host not in local:
            return (
                f"template.privateEndpoint.host: {private.host!r} would have no effect, because the SPUs of `tailrace "
                f"up` reach each other at {self._host}; leave it out"
            )
        return None

    def _broker_of(self, spec: SpuSpec) -> dict[str, str]:
        broker = {**self.broker, **spec.configs}
        protected = with_encryption(self._protocols() | broker, spec.public.encryption)
        if protected.get(PROTOCOL_MAP) != self._protocols().get(PROTOCOL_MAP):
            broker[PROTOCOL_MAP] = protected[PROTOCOL_MAP]
        return broker

    def _protocols(self) -> dict[str, str]:
        """Returns the setting of the listeners' protocols that a secured cluster adds when an SPU starts."""
        return {} if self.secured is None else {PROTOCOL_MAP: SECURED_PROTOCOLS}

    def _moved_away(self, listener: ListenerSettings, spu: SpuId) -> ListenerSettings:
        """Returns the listener of this SPU that corresponds to a listener of the first SPU.

        If the listener may move, it avoids the ports of other SPUs. Only the port of the first SPU was chosen, so those
        of all other SPUs may move.
        """
        moved = _moved(listener, spu)
        host, port = moved.address.host, moved.address.port
        chosen = [each.address.port for each in self.listeners if self.are_listeners_chosen]
        if moved.may_move and any(0 < first <= port < first + CHOSEN_PORTS_MAX for first in chosen):
            return replace(moved, address=Address(host, 0))
        if spu == FIRST_ID:
            return moved
        return replace(moved, address=Address(host, 0 if self._is_met(listener, port) else port), may_move=True)

    def _is_met(self, listener: ListenerSettings, port: int) -> bool:
        """Whether the other kind of listener (private or metrics) of any SPU has this port."""
        if listener is self.metrics:
            return port == self.private.address.port
        first = 0 if self.metrics is None else self.metrics.address.port
        return 0 < first <= port and (port - first) % PORTS_APART == 0

    def _published_of(self, spu: SpuId) -> Address | None:
        """Returns the published address of an SPU in the group `main`."""
        if self.published is None:
            return None
        address = _moved_address(self.published, spu, CHOSEN_PORTS_APART)
        return address if address.port else None

    @property
    def _host(self) -> str:
        return self.listeners[0].address.host

    def _listeners_of(self, spu: SpuId) -> tuple[ListenerSettings, ...]:
        if spu == FIRST_ID or self.are_listeners_chosen:
            return self.listeners
        return tuple(replace(each, may_move=True) for each in self.listeners)


def child_command(settings: SpuSettings, log: LogSettings) -> list[str]:
    """Returns the command line of an SPU as a child process, which stops when this process ends."""
    command = [sys.executable, "-P", "-m", "tailrace", "serve", "spu", "--until-input-ends"]
    command += ["--id", str(settings.id), "--data", settings.data_directory]
    command += ["--sc", ",".join(map(str, settings.controllers))]
    for listener in settings.listeners:
        command += ["--public", _text(listener)]
    command += ["--private", _text(settings.private)]
    command += ["--metrics", "off" if settings.metrics is None else _text(settings.metrics)]
    if settings.published is not None:
        command += ["--published", str(settings.published)]
    if settings.rack is not None:
        command += ["--rack", settings.rack]
    for name, value in settings.broker.items():
        if not _is_secret(name):
            command += ["--set", f"{name}={value}"]
    command += ["--log-level", log.level]
    if log.format is not None:
        command += ["--log-format", log.format]
    return command


def child_variables(settings: SpuSettings) -> dict[str, str]:
    """Returns the environment variables of an SPU as a child process: its secrets, which no command line may show."""
    return {broker_variable_of(name): value for name, value in settings.broker.items() if _is_secret(name)}


def _is_secret(name: str) -> bool:
    definition = definition_of(name)
    return definition is not None and definition.sensitive


def _moved(listener: ListenerSettings, spu: SpuId, apart: int = PORTS_APART) -> ListenerSettings:
    """Returns the listener of an SPU that corresponds to a listener of the first SPU."""
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
