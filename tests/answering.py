"""A server that does one thing with its first connection."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio
from simulation.network import MemoryConnection, MemoryNetwork

from tailrace.runtime.network import Address

Answer = Callable[[MemoryConnection], Awaitable[None]]


@asynccontextmanager
async def answering(address: Address, answer: Answer) -> AsyncIterator[MemoryNetwork]:
    """Yields the network of the server, which responds to the first request."""
    network = MemoryNetwork()
    listener = await network.listen(address)

    async def serve() -> None:
        connection = await listener.accept()
        await connection.wait_readable()
        connection.receive_into(memoryview(bytearray(1000)))
        await answer(connection)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        yield network
        nursery.cancel_scope.cancel()
