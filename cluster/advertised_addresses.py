"""Decides at which address a client is told to reach an SPU. It depends on how the client has connected.

An address that the user wrote after the `=` of a listener is told as it is. A listener without one is *plain*, and its
clients are told what is right where they are:

- This SPU is at the address that the client has reached.
- Another SPU on the same machine that listens on all its addresses is at the same address, with its own port.
- A client from outside the networks of a container is told the published address of each SPU that has one.

An SPU may lack the listener that the client uses, for example in a cluster of `tailrace up` with two public addresses
and a custom SPU with one. Plain listeners are several ports for the same clients, so the client is told the first
address of that SPU. A listener with a `=` serves a place of its own, where addresses of other listeners may be wrong:
its clients cannot reach the SPU, as in Kafka.
"""

from collections.abc import Set
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from .specs import Endpoint, SpuSpec

PUBLISHED: Final = "PUBLISHED"
"""The name under which an SPU reports the address at which the port of its container is published."""


class ConnectedListener(Struct, frozen=True):
    """The listener to which a client has connected, and how it came there."""

    name: str
    advertised: tuple[str, int]
    """The host and port of this server: those after the `=` of the listener, or those that the client has reached."""
    is_chosen: bool = False
    """Whether the listener has an address after a `=`."""
    is_from_outside: bool = False
    """Whether the client comes from outside the networks of this container."""


def address_of(
    spu: SpuSpec, listener: ConnectedListener, *, is_this: bool, machine_hosts: Set[str] = frozenset()
) -> Endpoint | None:
    """Returns the address at which a client of this listener is told to reach the SPU; None if it cannot.

    `is_this` says that the client is connected to this SPU. Its mirror has only addresses that somebody has set (see
    `MirrorUpdater`). `machine_hosts` are the addresses that servers on this machine report.
    """
    if listener.is_from_outside and not listener.is_chosen and (published := spu.endpoint(PUBLISHED)) is not None:
        return published
    found = spu.endpoint(listener.name)
    if found is None and is_this:
        return Endpoint(listener.name, *listener.advertised)
    if listener.is_chosen:
        return found
    if found is None:
        found = next((each for each in spu.endpoints if each.listener != PUBLISHED), None)
    if found is not None and found.on_all_addresses and found.host in machine_hosts:
        return replace(found, host=listener.advertised[0])
    return found
