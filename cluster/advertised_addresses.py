"""Decides at which address a client is told to reach an SPU. It depends on the listener that the client uses.

An SPU may lack the listener that the client uses, for example in a cluster of `tailrace up` with two public addresses
and a custom SPU with one. If the user wrote an address for clients after the `=` of that listener, the listener serves
a place of its own, where addresses of other listeners may be wrong: the client cannot reach the SPU, as in Kafka.
Otherwise the listeners are several ports for the same clients, and the client is told the SPU's first address.
"""

from msgspec import Struct

from .specs import Endpoint, SpuSpec


class ConnectedListener(Struct, frozen=True):
    """The listener to which a client has connected."""

    name: str
    advertised: tuple[str, int]
    """The host and port of this server that the client is told."""
    is_chosen: bool = False
    """Whether the user chose the address for clients of this listener, after a `=`."""


def address_of(spu: SpuSpec, listener: ConnectedListener, *, is_this: bool) -> Endpoint | None:
    """Returns the address at which a client of this listener is told to reach the SPU; None if it cannot.

    `is_this` says that the client is connected to this SPU. Its mirror has only addresses that an administrator set
    (see `MirrorUpdater`); without one, the client is told the address that it has reached.
    """
    endpoint = spu.endpoint(listener.name)
    if endpoint is not None:
        return endpoint
    if is_this:
        return Endpoint(listener.name, *listener.advertised)
    return spu.endpoints[0] if spu.endpoints and not listener.is_chosen else None
