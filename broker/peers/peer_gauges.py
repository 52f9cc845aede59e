"""What is counted of the links to one other SPU, and read off them at a scrape."""

from msgspec import Struct

from tailrace.protocol.ids import SpuId


class PeerTraffic(Struct):
    """Batches that went to one SPU, or came from it, since this one started."""

    sent_messages: int = 0
    sent_bytes: int = 0
    received_messages: int = 0
    received_bytes: int = 0
    dialled_links: int = 0
    """Links that this SPU made to that one, to follow it; while it follows, each after the first is a reconnect."""


class PeerGauges(Struct, frozen=True):
    spu: SpuId
    traffic: PeerTraffic
    seconds_as_leader: float | None
    """For how long there has been a link on which that SPU leads and this one follows; None: there is none."""
    seconds_as_follower: float | None
