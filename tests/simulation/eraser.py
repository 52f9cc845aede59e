"""A client in a simulation that deletes the beginning of a partition now and then."""

from random import Random

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

from .history import PartitionHistory
from .leaders import Leaders
from .patient_client import PatientClient
from .world import World

DELETE_RECORDS_VERSION = 2
PAUSE_SECONDS_MAX = 4.0
EXPECTED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors that a request may get: OFFSET_OUT_OF_RANGE from a leader that does not know of all commits, and the last one
while a live replica is offline."""


class Eraser:
    def __init__(self, world: World, name: str, topic: str, history: PartitionHistory, chance: Random) -> None:
        self._client = PatientClient(world, name, chance)
        self._leaders = Leaders(self._client, topic, history.partition)
        self._history = history
        self._chance = chance
        self.is_done = False

    async def run(self, is_over: trio.Event) -> None:
        """Deletes records until the event is set, because the logs must not change before the final comparison."""
        while not is_over.is_set():
            async with self._client.trying():
                leader = await self._leaders.find()
                async with self._client.connected(leader.spu) as connected:
                    offset = self._chance.randint(0, self._history.known_end)
                    self._history.on_deleting(offset)
                    partition = DeleteRecordsPartition(self._leaders.partition, offset)
                    request = DeleteRecordsRequest([DeleteRecordsTopic(self._leaders.topic, [partition])], 1000)
                    response = await self._client.ask(connected, ApiKey.DELETE_RECORDS, DELETE_RECORDS_VERSION, request)
                    answer = response.topics[0].partitions[0]
                    code = answer.error_code
                    assert code in EXPECTED, f"{self._client.name} does not expect {ErrorCode(code).name}"
                    if code == ErrorCode.NONE:
                        assert answer.low_watermark >= offset, (
                            f"the low watermark is {answer.low_watermark} after a deletion up to {offset}"
                        )
                        self._history.on_deleted(offset)
            with trio.move_on_after(self._chance.uniform(0, PAUSE_SECONDS_MAX)):
                await is_over.wait()
        self.is_done = True
