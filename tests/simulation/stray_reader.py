"""A reader in a simulation that has read what the leader's log never had, as after an unclean election.

It claims a position in an earlier epoch, beyond the bridge of a later one. The leader must say that the earlier epoch
ended before that, in responses to OffsetForLeaderEpoch and to Fetch. Otherwise a real consumer with such a position
would continue, and miss records.
"""

from random import Random

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from .client import WireClient
from .consumer import FETCH_VERSION, OFFSET_FOR_LEADER_EPOCH_VERSION
from .history import PartitionHistory
from .leaders import Leader, Leaders
from .patient_client import PatientClient, RetryError
from .world import World

PAUSE_SECONDS_MAX = 0.5


class StrayReader:
    def __init__(self, world: World, name: str, topic: str, history: PartitionHistory, chance: Random) -> None:
        self.name = name
        self._client = PatientClient(world, name, chance)
        self._leaders = Leaders(self._client, topic, history.partition)
        self._world = world
        self._history = history
        self._chance = chance

    async def run(self) -> None:
        """Asks leaders until it is cancelled."""
        while True:
            await trio.sleep(PAUSE_SECONDS_MAX * self._chance.random())
            async with self._client.trying():
                leader = await self._leaders.find()
                async with self._client.connected(leader.spu) as client:
                    for _ in range(self._chance.randint(1, 3)):
                        await self._ask(client, leader)

    async def _ask(self, client: WireClient, leader: Leader) -> None:
        began = [epoch for epoch in self._history.bridges if 0 < epoch <= leader.epoch]
        if not began:
            return
        later = self._chance.choice(began)
        earlier = later - 1 if self._chance.random() < 0.7 else self._chance.randrange(later)
        await self._ask_for_end(client, leader, earlier)
        # The leader has recovered, or it would not have responded. So it knows where the epoch ended.
        bridge = self._history.bridges.get(later)
        if bridge is not None:
            await self._fetch(client, leader, earlier, bridge + self._chance.choice((1, 1, 2, 5)))

    async def _ask_for_end(self, client: WireClient, leader: Leader, epoch: int) -> None:
        partition = OffsetForLeaderPartition(self._leaders.partition, leader.epoch, epoch)
        request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(self._leaders.topic, [partition])])
        response = await self._client.ask(
            client, ApiKey.OFFSET_FOR_LEADER_EPOCH, OFFSET_FOR_LEADER_EPOCH_VERSION, request
        )
        answered = response.topics[0].partitions[0]
        _check_code(answered.error_code)
        self._history.on_epoch_end(self.name, leader.epoch, epoch, answered.end_offset, self._log_start())

    async def _fetch(self, client: WireClient, leader: Leader, epoch: int, offset: int) -> None:
        partition = FetchPartition(
            partition=self._leaders.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
            partition_max_bytes=1000,
        )
        topic = FetchTopic(topic=self._leaders.topic, partitions=[partition])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[topic])
        response = await self._client.ask(client, ApiKey.FETCH, FETCH_VERSION, request)
        _check_code(response.error_code)
        data = response.responses[0].partitions[0]
        _check_code(data.error_code)
        end = offset if data.diverging_epoch is None else data.diverging_epoch.end_offset
        self._history.on_epoch_end(self.name, leader.epoch, epoch, end, self._log_start())

    def _log_start(self) -> int:
        """Returns the largest log start of any replica, because a log does not know how epochs ended before it."""
        logs = [
            replica.log
            for spu in self._world.running_spus().values()
            for replica in spu.replicas
            if (replica.topic, replica.partition) == (self._leaders.topic, self._leaders.partition) and replica.is_open
        ]
        return max((log.log_start for log in logs), default=1 << 62)


def _check_code(code: int) -> None:
    if code != ErrorCode.NONE:
        raise RetryError(ErrorCode(code).name)
