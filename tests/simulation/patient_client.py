"""What simulated clients share: connections to SPUs, requests that may get no response, and retries."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import IntEnum
from random import Random
from typing import Any

import trio

from tailrace.protocol.apis import API_TABLE, Api
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.network import Address

from .client import WireClient
from .world import World, spu_address

PAUSE_SECONDS_MAX = 0.3
CHANGED_LATER = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which a client that changes a topic has to retry."""


class RetryError(Exception):
    """A request failed for now, or at this SPU: the client finds out again whom to ask."""


class PatientClient:
    def __init__(self, world: World, name: str, chance: Random) -> None:
        self.name = name
        self.chance = chance
        self.last_reason = ""
        """Why the last attempt failed, for people who wonder why this client never finished."""
        self._world = world
        self._network = world.internet.process_on(name)

    def any_spu(self) -> int:
        return self.chance.choice(list(self._world.spus))

    def die(self) -> None:
        """Ends all connections of the client, as if its process were killed."""
        self._network.die()

    @asynccontextmanager
    async def connected(self, spu: int) -> AsyncIterator[WireClient]:
        async with self.connected_to(spu_address(spu), API_TABLE) as connected:
            yield connected

    async def connect(self, address: Address, apis: Mapping[int, Api] = API_TABLE) -> WireClient:
        with trio.fail_after(self._world.patience_seconds):
            return WireClient(await self._network.connect(address), self.name, apis)

    @asynccontextmanager
    async def connected_to(self, address: Address, apis: Mapping[int, Api]) -> AsyncIterator[WireClient]:
        connected = await self.connect(address, apis)
        try:
            yield connected
        finally:
            connected.connection.close()

    async def ask(
        self, client: WireClient, api: IntEnum, version: int, message: object, *, more_seconds: float = 0.0
    ) -> Any:
        """Sends a request, and returns the response; `more_seconds` is how long the server may take in addition."""
        with trio.fail_after(self._world.patience_seconds + more_seconds):
            await client.send(client.encode(api, version, message))
            return await _response(client)

    async def answer(self, client: WireClient, *, more_seconds: float = 0.0) -> Any:
        """Returns the next response."""
        with trio.fail_after(self._world.patience_seconds + more_seconds):
            return await _response(client)

    @asynccontextmanager
    async def trying(self) -> AsyncIterator[None]:
        """Makes an attempt; expected errors end it, and a pause follows."""
        try:
            yield
        except (OSError, trio.TooSlowError, trio.ClosedResourceError, RetryError) as error:
            self.last_reason = f"{type(error).__name__}: {error}"
            await trio.sleep(self.chance.uniform(0.02, PAUSE_SECONDS_MAX))


async def _response(client: WireClient) -> Any:
    try:
        return await client.response()
    except AssertionError as error:
        if "closed the connection" in str(error):
            raise ConnectionResetError(str(error)) from None
        raise
