"""A client in a simulation that repeatedly moves a partition to other SPUs, and sometimes cancels the move."""

from random import Random

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

from .patient_client import PatientClient, RetryError
from .world import World

ALTER_VERSION = 1
PAUSE_SECONDS_MAX = 3.0
EXPECTED = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,  # an SPU that is offline cannot get a replica
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class Mover:
    def __init__(self, world: World, name: str, topic: str, partition: int, sizes: tuple[int, ...], chance: Random):
        """Prepares the client; `sizes` are the possible numbers of replicas."""
        self.client = PatientClient(world, name, chance)
        self._spus = list(world.spus)
        self._topic = topic
        self._partition = partition
        self._sizes = sizes
        self._chance = chance
        self.is_done = False
        self.moves = 0
        """The number of moves that were accepted."""

    async def run(self, is_over: trio.Event) -> None:
        while not is_over.is_set():
            with trio.move_on_after(self._chance.uniform(0, PAUSE_SECONDS_MAX)):
                await is_over.wait()
            async with self.client.trying(), self.client.connected(self.client.any_spu()) as connected:
                replicas = self._chance.sample(self._spus, self._chance.choice(self._sizes))
                partition = ReassignablePartition(self._partition, None if self._chance.random() < 0.15 else replicas)
                request = AlterPartitionReassignmentsRequest(1000, topics=[ReassignableTopic(self._topic, [partition])])
                api = ApiKey.ALTER_PARTITION_REASSIGNMENTS
                response = await self.client.ask(connected, api, ALTER_VERSION, request, more_seconds=1.0)
                self._on_code(response.error_code)
                self._on_code(response.responses[0].partitions[0].error_code)
                self.moves += 1
        self.is_done = True

    def _on_code(self, code: int) -> None:
        if code in EXPECTED:
            raise RetryError(ErrorCode(code).name)
        assert code == ErrorCode.NONE, f"{self.client.name} does not expect {ErrorCode(code).name}"
