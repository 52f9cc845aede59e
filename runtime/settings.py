"""What each server is started with, as values; where they come from is the business of `settings_sources`."""

import math
import re
from collections.abc import Mapping

from msgspec import Struct, field

from .network import Address, may_be_host

RECONCILIATION_SECONDS = 60.0


class SettingsError(Exception):
    """One sentence for the person who started the program: what is wrong, where, and what is allowed."""


class ListenerSettings(Struct, frozen=True):
    """Where somebody connects, and what they are told to connect to."""

    name: str
    address: Address
    advertised: Address | None = None
    """None: the address that the client itself connected to, which is right from a host and from a container alike."""
    may_move: bool = False
    """Where the port is taken, a free one will do: nobody chose it."""


class ScSettings(Struct, frozen=True):
    """What one Streaming Controller is started with."""

    data_directory: str
    listeners: tuple[ListenerSettings, ...]
    private: ListenerSettings
    """Where SPUs connect."""
    store: str = "sqlite"
    """`sqlite`, `memory` or `etcd://HOST:PORT[,HOST:PORT]`."""
    metrics: ListenerSettings | None = None
    reconciliation_seconds: float = RECONCILIATION_SECONDS
    """How often everything is looked at again, and every SPU is told again what it should have."""
    broker: Mapping[str, str] = field(default_factory=dict)
    """Kafka's broker settings by their Kafka names: the cluster's defaults for what the SC decides."""
    replace_after_seconds: float = math.inf
    """How long an SPU may be away before others get what it holds."""


class SpuSettings(Struct, frozen=True):
    """What one SPU is started with."""

    id: int
    data_directory: str
    listeners: tuple[ListenerSettings, ...]
    metrics: ListenerSettings | None = None
    rack: str | None = None
    broker: Mapping[str, str] = field(default_factory=dict)
    """Kafka's broker settings by their Kafka names."""
    controllers: tuple[Address, ...] = ()
    """The private address of the Streaming Controller, and those of its standbys."""
    private: ListenerSettings = ListenerSettings("PRIVATE", Address("127.0.0.1", 0))
    """Where other SPUs connect."""


def parse_address(text: str, where: str, *, port_min: int = 0) -> Address:
    """`HOST:PORT`, `[V6HOST]:PORT`. Port 0 is any free one to whoever listens, and none to whoever connects."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    number = int(port) if re.fullmatch(r"[0-9]{1,5}", port) else -1
    if not colon or not may_be_host(host) or not port_min <= number <= 65535:
        raise SettingsError(f"{where}: {text!r:.300} is not HOST:PORT with a port from {port_min} to 65535")
    return Address(host, number)
