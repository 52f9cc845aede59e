"""Counters and gauges of the links to one other SPU, for the metrics."""

from msgspec import Struct

from tailrace.protocol.ids import SpuId


class PeerTraffic(Struct):
    """Batches sent to one SPU and received from it since this SPU started."""

    sent_messages: int = 0
    sent_bytes: int = 0
    received_messages: int = 0
    received_bytes: int = 0
    dialled_links: int = 0
    """How many links this SPU has dialled to follow that one; each one after the first is a reconnect."""


class PeerGauges(Struct, frozen=True):
    """The gauges of the links to one SPU."""

    spu: SpuId
    traffic: PeerTraffic
    seconds_as_leader: float | None
    """The age of the link on which that SPU leads and this one follows; None if there is none."""
    seconds_as_follower: float | None
    """The age of the link on which that SPU follows and this one leads; None if there is none."""
