"""The settings with which each server is started, as typed values. `settings_sources` says where they come from."""

import math
import re
from collections.abc import Mapping

from msgspec import Struct, field

from .network import Address, may_be_host

RECONCILIATION_SECONDS = 60.0


class SettingsError(Exception):
    """A setting is wrong. The message is one sentence that says what is wrong, where, and what is allowed."""


class ListenerSettings(Struct, frozen=True):
    """An address to listen on, and the address that clients are told."""

    name: str
    address: Address
    advertised: Address | None = None
    """The address that clients are told. None stands for the address to which the client connected, which is right
    for clients on the host and in containers."""
    may_move: bool = False
    """Whether a free port may be used if the port is taken, because the user did not choose it."""
    flag: str = ""
    """The option with which a person chooses the address."""


class ScSettings(Struct, frozen=True):
    """The settings of one Streaming Controller."""

    data_directory: str
    listeners: tuple[ListenerSettings, ...]
    private: ListenerSettings
    """The listener for SPUs."""
    store: str = "sqlite"
    """The KV store: `sqlite`, `memory`, `etcd://HOST:PORT[,HOST:PORT]`, `kubernetes` or `kubernetes:KUBECONFIG`.

    `etcds://` in place of `etcd://` stands for TLS.
    """
    metrics: ListenerSettings | None = None
    reconciliation_seconds: float = RECONCILIATION_SECONDS
    """How often all objects are checked, and every SPU gets its specs again."""
    broker: Mapping[str, str] = field(default_factory=dict)
    """Kafka's broker settings by their Kafka names: the cluster's defaults for what the SC decides."""
    replace_after_seconds: float = math.inf
    """How long an SPU may be offline before its replicas are placed on other SPUs."""
    store_config: str | None = None
    """The file with the certificates, the user and the password for etcd; None if etcd demands nothing."""


class SpuSettings(Struct, frozen=True):
    """The settings of one SPU."""

    id: int
    data_directory: str
    listeners: tuple[ListenerSettings, ...]
    metrics: ListenerSettings | None = None
    rack: str | None = None
    broker: Mapping[str, str] = field(default_factory=dict)
    """Kafka's broker settings by their Kafka names."""
    controllers: tuple[Address, ...] = ()
    """The private addresses of the Streaming Controller and its standbys."""
    private: ListenerSettings = ListenerSettings("PRIVATE", Address("127.0.0.1", 0))
    """The listener for other SPUs."""
    published: Address | None = None
    """The address at which the port of this SPU's container is published, for clients from outside its networks."""


def parse_address(text: str, where: str, *, port_min: int = 0) -> Address:
    """Parses `HOST:PORT` or `[V6HOST]:PORT`.

    Port 0 stands for any free port when listening. Callers that connect pass `port_min=1`.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    number = int(port) if re.fullmatch(r"[0-9]{1,5}", port) else -1
    if not colon or not may_be_host(host) or not port_min <= number <= 65535:
        raise SettingsError(f"{where}: {text!r:.300} is not HOST:PORT with a port from {port_min} to 65535")
    return Address(host, number)
