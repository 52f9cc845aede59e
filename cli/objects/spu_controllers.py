"""Asks SPUs for their leader and follower controllers.

The SC does not know an SPU's controllers, so each SPU is asked on its public port. If an SPU does not respond, the
reason takes the place of its controllers.
"""

from collections.abc import Sequence

import trio

from tailrace.client.server_connection import UnreachableError, connect, error_name
from tailrace.client.spu_client import SPU
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
                return (answer.error_message or error_name(answer.error_code)) if answer.error_code else answer
            finally:
                connection.close()
        except UnreachableError as error:
            return str(error)
    return f"the SPU at {address} did not answer within {SECONDS_MAX:g} s"
