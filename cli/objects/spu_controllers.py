"""Asks SPUs for their leader and follower controllers, and formats the responses.

The SC does not know an SPU's controllers, so each SPU is asked on its public port. If an SPU does not respond, the
reason takes the place of its controllers.
"""

from collections.abc import Sequence

import trio

from tailrace.cli.clients.sc_client import Document
from tailrace.cli.clients.server_connection import UnreachableError, connect
from tailrace.cli.clients.spu_client import SPU
from tailrace.cli.output.tables import table
from tailrace.controller.objects.objects import Spu, SpuResolution
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.describe_spu import DescribeSpuRequest, DescribeSpuResponse
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS
from tailrace.runtime.network import Address, Network

SECONDS_MAX = 3.0

Controllers = DescribeSpuResponse | str
"""The controllers of an SPU, or the reason why they are unknown."""


async def controllers_of(network: Network, spus: Sequence[Spu]) -> dict[SpuId, Controllers]:
    """Asks all SPUs at the same time."""
    found: dict[SpuId, Controllers] = {}

    async def ask(spu: Spu) -> None:
        found[spu.spec.id] = await _controllers_of(network, spu)

    async with trio.open_nursery() as nursery:
        for spu in spus:
            nursery.start_soon(ask, spu)
    return found


async def _controllers_of(network: Network, spu: Spu) -> Controllers:
    status = spu.status
    if status.resolution is not SpuResolution.ONLINE or not status.listeners:
        return "the SPU is not online"
    address = Address(status.listeners[0].host, status.listeners[0].port)
    with trio.move_on_after(SECONDS_MAX):
        try:
            connection = await connect(network, address, SPU, SPU_OBJECT_APIS)
            try:
                answer: DescribeSpuResponse = await connection.ask(DescribeSpuRequest(), 0)
                return answer
            finally:
                connection.close()
        except UnreachableError as error:
            return str(error)
    return f"the SPU at {address} did not answer within {SECONDS_MAX:g} s"


def controller_fields(controllers: Controllers) -> list[tuple[str, object]]:
    if isinstance(controllers, str):
        return [("Controllers", f"unknown: {controllers}")]
    return [
        ("Data directory", controllers.log_directory),
        ("Leader controllers", controllers.leader_controllers),
        ("Follower controllers", len(controllers.follower_controllers)),
    ]


def controller_tables(controllers: Controllers) -> list[str]:
    """Formats the SPUs that this SPU follows, and those that follow it; an empty table is left out."""
    if isinstance(controllers, str):
        return []
    tables = []
    if controllers.follower_controllers:
        rows = [
            (each.leader_id, each.replicas, _linked(each.is_linked), each.dialled_links)
            for each in controllers.follower_controllers
        ]
        tables.append(table(("FOLLOWS SPU", "REPLICAS", "LINKED", "LINKS MADE"), rows))
    if controllers.followers:
        followers = [
            (each.spu_id, each.replicas, _linked(each.is_linked), each.waiting_records)
            for each in controllers.followers
        ]
        tables.append(table(("FOLLOWED BY SPU", "REPLICAS", "LINKED", "WAITING RECORDS"), followers))
    return tables


def controllers_document(controllers: Controllers) -> Document:
    if isinstance(controllers, str):
        return {"error": controllers}
    return {
        "logDirectory": controllers.log_directory,
        "leaderControllers": controllers.leader_controllers,
        "followerControllers": [
            {
                "leader": each.leader_id,
                "replicas": each.replicas,
                "isLinked": each.is_linked,
                "dialledLinks": each.dialled_links,
            }
            for each in controllers.follower_controllers
        ],
        "followers": [
            {
                "spuId": each.spu_id,
                "replicas": each.replicas,
                "isLinked": each.is_linked,
                "waitingRecords": each.waiting_records,
            }
            for each in controllers.followers
        ],
    }


def _linked(is_linked: bool) -> str:
    return "yes" if is_linked else "no"
