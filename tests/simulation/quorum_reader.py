"""A reader in a simulation that needs no leader: it asks several stores what is acknowledged.

The history checks it like any other reader: what it read must be in the final log, and no other reader may have read
anything else.
"""

from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import UUID

import trio

from tailrace.broker.copies.store_answers import batches_of, store_answer
from tailrace.broker.replication.quorum_read import QuorumRead, quorum_read
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.read_store import ReadStoreRequest, ReadStoreResponse
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS, InternalApiKey
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from .history import PartitionHistory, Read
from .leaders import METADATA_VERSION
from .patient_client import PatientClient, RetryError
from .world import World, spu_address

APIS = {**API_TABLE, **SPU_OBJECT_APIS}
UNANSWERED = (OSError, trio.TooSlowError, trio.ClosedResourceError, RetryError)


class QuorumReader:
    def __init__(
        self, world: World, name: str, topic: str, history: PartitionHistory, chance: Random, *, knows_members: bool
    ) -> None:
        """Prepares the reader; with `knows_members`, the responding SPUs know which stores may have acknowledged
        records."""
        self.name = name
        self.position = chance.choice((0, history.known_end))
        self._client = PatientClient(world, name, chance)
        self._topic = topic
        self._history = history
        self._chance = chance
        self._knows_members = knows_members
        history.on_started(name, self.position)

    async def run(self) -> None:
        """Reads until it is cancelled."""
        while True:
            async with self._client.trying():
                topic_id, replicas = await self._find()
                for _ in range(self._chance.randint(1, 30)):
                    await self._read(topic_id, replicas)
                    await trio.sleep(self._chance.choice((0.0, 0.005, 0.02, 0.1)))

    async def _find(self) -> tuple[UUID, list[int]]:
        async with self._client.connected(self._client.any_spu()) as connected:
            asked = MetadataRequest([MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=False)
            response = await self._client.ask(connected, ApiKey.METADATA, METADATA_VERSION, asked)
        for topic in response.topics:
            for found in topic.partitions:
                if found.partition_index == self._history.partition:
                    return topic.topic_id, found.replica_nodes
        raise RetryError("there is no such partition")

    async def _read(self, topic_id: UUID, replicas: list[int]) -> None:
        """Reads from some of the replicas, each at another time."""
        known_end = self._history.known_end
        asked = self._chance.sample(replicas, self._chance.randint(min(2, len(replicas)), len(replicas)))
        request = ReadStoreRequest(
            topic_id, self._history.partition, self.position, self._chance.choice((100, 2000, 1_000_000, 1_000_000))
        )
        responses: dict[SpuId, ReadStoreResponse] = {}
        async with trio.open_nursery() as nursery:
            for spu in asked:
                nursery.start_soon(
                    self._ask, spu, request, self._chance.choice((0.0, 0.0, 0.0, 0.0, 0.05, 0.5)), responses
                )
        found = quorum_read(self.position, [store_answer(spu, each) for spu, each in responses.items()])
        if found is None:
            raise RetryError("too few stores respond")
        if self._knows_members:
            self._history.check(
                found.may_end >= known_end,
                f"{self.name} is told that nothing beyond {found.may_end} is acknowledged, but {known_end} is known",
            )
        self._take(found, responses)

    async def _ask(
        self, spu: int, request: ReadStoreRequest, after: float, responses: dict[SpuId, ReadStoreResponse]
    ) -> None:
        await trio.sleep(after)
        try:
            async with self._client.connected_to(spu_address(spu), APIS) as connected:
                response = await self._client.ask(connected, InternalApiKey.READ_STORE, 0, request)
        except UNANSWERED:
            return
        if response.error_code == ErrorCode.NONE:
            responses[SpuId(spu)] = response

    def _take(self, found: QuorumRead, responses: Mapping[SpuId, ReadStoreResponse]) -> None:
        if found.start > self.position:
            if self._history.is_retained:
                self._history.on_deleting(found.start)
            if found.start > self._history.deleted_end:
                self._history.on_truncation(
                    self.name, f"the log starts at {found.start}, beyond what may have been deleted"
                )
        batches: dict[SpuId, dict[int, Any]] = {
            spu: {entry.base: batch for entry, batch in batches_of(each)} for spu, each in responses.items()
        }
        records = [
            Read(record.offset, record.value or b"")
            for each in found.entries
            for record in read_records(batches[self._chance.choice(each.holders)][each.entry.base])
        ]
        self._history.on_read(self.name, [each for each in records if each.offset >= found.start])
        self.position = found.end
