"""What a simulated producer and consumer share: who leads their partition, and requests that may get no answer.

Like any Kafka client it believes only leader epochs that are at least as new as the newest it knows.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from random import Random
from typing import Any

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from .client import WireClient
from .world import World, spu_address

METADATA_VERSION = 12
PAUSE_SECONDS_MAX = 0.3


class RetryError(Exception):
    """Not now, or not here: look for the leader again."""


@dataclass(frozen=True)
class Leader:
    spu: int
    epoch: int


class PartitionClient:
    def __init__(self, world: World, name: str, topic: str, partition: int, chance: Random) -> None:
        self.name = name
        self.topic = topic
        self.partition = partition
        self.chance = chance
        self.last_reason = ""
        """Why the last attempt did not succeed: for whoever wonders why this client never finished."""
        self._world = world
        self._network = world.internet.process_on(name)
        self._epoch = -1

    @asynccontextmanager
    async def connected(self, spu: int) -> AsyncIterator[WireClient]:
        with trio.fail_after(self._world.patience_seconds):
            connection = await self._network.connect(spu_address(spu))
        try:
            yield WireClient(connection, self.name)
        finally:
            connection.close()

    async def find_leader(self) -> Leader:
        async with self.connected(self.chance.choice(list(self._world.spus))) as client:
            asked = MetadataRequest([MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False)
            response = await self.ask(client, ApiKey.METADATA, METADATA_VERSION, asked)
        for topic in response.topics:
            for found in topic.partitions:
                if found.partition_index == self.partition and found.leader_id >= 0:
                    if found.leader_epoch < self._epoch:
                        raise RetryError(f"epoch {found.leader_epoch} is over, {self._epoch} is known")
                    self._epoch = found.leader_epoch
                    return Leader(found.leader_id, found.leader_epoch)
        raise RetryError("nobody leads")

    async def ask(self, client: WireClient, api: IntEnum, version: int, message: object) -> Any:
        with trio.fail_after(self._world.patience_seconds):
            await client.send(client.encode(api, version, message))
            return await self.answer(client)

    async def answer(self, client: WireClient) -> Any:
        """The next response."""
        with trio.fail_after(self._world.patience_seconds):
            try:
                return await client.response()
            except AssertionError as error:
                if "closed the connection" in str(error):
                    raise ConnectionResetError(str(error)) from None
                raise

    @asynccontextmanager
    async def trying(self) -> AsyncIterator[None]:
        """Whatever a client has to expect ends the attempt, and a pause follows."""
        try:
            yield
        except (OSError, trio.TooSlowError, trio.ClosedResourceError, RetryError) as error:
            self.last_reason = f"{type(error).__name__}: {error}"
            await trio.sleep(self.chance.uniform(0.02, PAUSE_SECONDS_MAX))
