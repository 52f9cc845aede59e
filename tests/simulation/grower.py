"""A client in a simulation that adds partitions to a topic, one by one, during faults."""

from random import Random

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

from .moments import GROW, Moments
from .patient_client import CHANGED_LATER, PatientClient, RetryError
from .world import World

CREATE_PARTITIONS_VERSION = 3
PAUSE_SECONDS_MAX = 4.0
NOT_NOW = CHANGED_LATER | {ErrorCode.INVALID_REPLICATION_FACTOR}
"""Errors after which to retry; an SC that has just started does not know the online SPUs yet."""


class Grower:
    def __init__(self, world: World, topic: str, counts: range, moments: Moments, chance: Random) -> None:
        """Prepares the client; `counts` are the successive partition counts of the topic."""
        self.client = PatientClient(world, "grower", chance)
        self._topic = topic
        self._counts = counts
        self._moments = moments
        self._chance = chance
        self.is_done = False

    async def run(self, is_over: trio.Event) -> None:
        for count in self._counts:
            with trio.move_on_after(self._chance.uniform(0, PAUSE_SECONDS_MAX)):
                await is_over.wait()
            has_grown = False
            while not has_grown:
                async with self.client.trying():
                    await self._grow(count)
                    has_grown = True
        self.is_done = True

    async def _grow(self, count: int) -> None:
        """Grows the topic, perhaps with a repeated request, because the effect of a request without a response is
        unknown."""
        self._moments.reach(GROW)
        request = CreatePartitionsRequest([CreatePartitionsTopic(self._topic, count, None)], timeout_ms=1000)
        async with self.client.connected(self.client.any_spu()) as connected:
            response = await self.client.ask(
                connected, ApiKey.CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION, request, more_seconds=1.0
            )
        (answered,) = response.results
        if answered.error_code in NOT_NOW:
            raise RetryError(ErrorCode(answered.error_code).name)
        assert answered.error_code in (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS), answered
