"""Visits servers at the addresses that clients are told, and notes what they say about themselves."""

from collections.abc import Iterable, Mapping, Sequence

import trio
from msgspec import Struct

from tailrace.client.server_connection import (
    ClosedError,
    Role,
    ServerConnection,
    UnreachableError,
    connect,
)
from tailrace.protocol.apis import API_TABLE
from tailrace.protocol.internal.describe_server import DescribeServerRequest, DescribeServerResponse
from tailrace.protocol.internal.describe_spu import DescribeSpuRequest, DescribeSpuResponse
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.network import Address, Network
from tailrace.runtime.wall_clock import WallClock

SC_ID = -1
VISIT_SECONDS_MAX = 5.0
VISITS_AT_ONCE = 20
METADATA_VERSION = 12
"""A version of Metadata that every server of Tailrace supports."""

_APIS = {**API_TABLE, **SPU_OBJECT_APIS}


class Target(Struct, frozen=True):
    """A server, and an address that should lead to it."""

    server: int
    """The id of the SPU; SC_ID for the SC."""
    address: Address

    @property
    def name(self) -> str:
        return name_of(self.server)


class Visit(Struct, frozen=True):
    """What happened at one address."""

    target: Target
    description: DescribeServerResponse | None = None
    """What the server says about itself; None if it does not respond, or does not know the request."""
    fault: str = ""
    """Why no server has responded; empty if one has."""
    sent_ms: int = 0
    received_ms: int = 0
    told: Mapping[int, Address] = {}
    """The addresses of SPUs that a client of this connection is told."""
    unlinked: tuple[int, ...] = ()
    """The SPUs that this SPU follows without a connection to them."""

    @property
    def name(self) -> str:
        return self.target.name


def name_of(server: int) -> str:
    """Returns the name of a server for people."""
    return "the SC" if server == SC_ID else f"SPU {server}"


async def visit_all(network: Network, targets: Iterable[Target], wall_clock: WallClock) -> list[Visit]:
    """Visits servers, some at the same time; returns the visits in the order of the targets."""
    wanted = list(dict.fromkeys(targets))
    visits: dict[Target, Visit] = {}
    limit = trio.CapacityLimiter(VISITS_AT_ONCE)

    async def visit(target: Target) -> None:
        async with limit:
            visits[target] = await _visit(network, target, wall_clock)

    async with trio.open_nursery() as nursery:
        for target in wanted:
            nursery.start_soon(visit, target)
    return [visits[target] for target in wanted]


async def _visit(network: Network, target: Target, wall_clock: WallClock) -> Visit:
    with trio.move_on_after(VISIT_SECONDS_MAX):
        try:
            return await _asked(network, target, wall_clock)
        except UnreachableError as error:
            return Visit(target, fault=str(error))
    return Visit(target, fault=f"nothing responds within {VISIT_SECONDS_MAX:g} seconds")


async def _asked(network: Network, target: Target, wall_clock: WallClock) -> Visit:
    role = Role(target.name.removeprefix("the "), "")
    connection = await connect(network, target.address, role, _APIS)
    try:
        told = await _told(connection)
        sent_ms = wall_clock.now_ms()
        try:
            description: DescribeServerResponse = await connection.ask(DescribeServerRequest(), 0)
        except ClosedError:
            return Visit(target, told=told)  # a server of an older version, or a broker of Apache Kafka
        received_ms = wall_clock.now_ms()
        if description.error_code:
            return Visit(target, told=told)  # the server is there, but does not tell this client more
        unlinked = () if description.spu_id == SC_ID else await _unlinked(connection)
        return Visit(target, description, "", sent_ms, received_ms, told, unlinked)
    finally:
        connection.close()


async def _told(connection: ServerConnection) -> dict[int, Address]:
    metadata = await connection.ask(MetadataRequest([], allow_auto_topic_creation=False), METADATA_VERSION)
    return {each.node_id: Address(each.host, each.port) for each in metadata.brokers}


async def _unlinked(connection: ServerConnection) -> tuple[int, ...]:
    described: DescribeSpuResponse = await connection.ask(DescribeSpuRequest(), 0)
    return tuple(each.leader_id for each in described.follower_controllers if not each.is_linked)


def targets_told(visits: Sequence[Visit]) -> list[Target]:
    """Returns the addresses of SPUs that clients of these connections are told, each once."""
    return list(dict.fromkeys(Target(spu, address) for visit in visits for spu, address in visit.told.items()))
