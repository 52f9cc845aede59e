"""Reads shelves for a leader's clients: records that the local log does not have any more, from stores.

This is the leader's side; `shelf_serving` is the storing SPU's. Each store of a shelf has all of it. Different shelves
are read from different stores first, to spread the load. If a store fails or times out, the next one is asked. If all
stores fail, the client gets an error and retries.
"""

from collections.abc import Sequence
from typing import NamedTuple

import trio
from msgspec.structs import replace

from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replication.copying import rotated
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.shelf_lookup import shelf_of, shelves_before
from tailrace.cluster.specs import Shelf
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.read_shelf import ReadShelfRequest, ReadShelfResponse
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS, InternalApiKey
from tailrace.runtime.logs import FilteringBoundLogger

CLIENT_ID = "tailrace-shelf"
READ_SHELF = SPU_OBJECT_APIS[InternalApiKey.READ_SHELF]
AT_ONCE_MAX = 8
"""How many requests of this SPU wait for a response. A response is a portion, or one batch that is larger."""
RESPONSE_SECONDS_MAX = 5.0
BY_LARGEST_TIME = -3

TimedOffset = tuple[int, int, int]
"""A record's timestamp, its offset and its leader epoch."""


class ShelvedRecords(NamedTuple):
    """Batches that were read from a shelf."""

    records: bytes
    aborted: Sequence[tuple[int, int]]
    """The producers and first offsets of the aborted transactions of these records, sorted by the offsets."""


class ShelfReads:
    """Reads through to shelves."""

    def __init__(self, spu_requests: SpuRequests, metrics: BrokerMetrics, logger: FilteringBoundLogger) -> None:
        self._spu_requests = spu_requests
        self._metrics = metrics
        self._logger = logger
        self._turns = trio.Semaphore(AT_ONCE_MAX)

    async def read(self, replica: Replica, offset: int, bytes_max: int, end: int) -> ShelvedRecords:
        """Reads complete batches of one shelf that end at or before `end`, and what was aborted in them.

        The first batch is the one that contains the offset, or the next one. The result is empty if no batch lies
        before the local log. Raises KafkaError if no store responds.
        """
        while offset < end and (shelf := shelf_of(replica.spec, offset, replica.log.log_start)) is not None:
            response = await self._ask(replica, replace(shelf, end=min(shelf.end, end)), offset, bytes_max)
            if response.records:
                self._metrics.read_through_bytes += len(response.records)
                aborted = [(each.producer_id, each.first_offset) for each in response.aborted]
                return ShelvedRecords(response.records, aborted)
            offset = shelf.end  # compaction may have left a gap at the end of the shelf
        return ShelvedRecords(b"", ())

    async def find_timestamp(self, replica: Replica, timestamp_ms: int) -> TimedOffset | None:
        """Finds the first record on shelves that is not older than the timestamp. Raises KafkaError."""
        start = replica.spec.shelved_from
        for shelf in shelves_before(replica.spec, replica.log.log_start):
            response = await self._ask(replica, shelf, max(start, shelf.base), 0, timestamp_ms)
            if response.found_offset >= 0:
                return _found(response)
        return None

    async def max_timestamp(self, replica: Replica) -> TimedOffset | None:
        """Finds the first record with the largest timestamp on shelves. Raises KafkaError."""
        newest: TimedOffset | None = None
        start = replica.spec.shelved_from
        for shelf in shelves_before(replica.spec, replica.log.log_start):
            response = await self._ask(replica, shelf, max(start, shelf.base), 0, BY_LARGEST_TIME)
            if response.found_offset >= 0 and (newest is None or response.found_timestamp > newest[0]):
                newest = _found(response)
        return newest

    async def _ask(
        self, replica: Replica, shelf: Shelf, offset: int, bytes_max: int, timestamp: int = -1
    ) -> ReadShelfResponse:
        request = ReadShelfRequest(
            replica.spec.topic_id, replica.partition, shelf.base, shelf.end, offset, bytes_max, timestamp
        )
        for store in filter(self._spu_requests.is_online, rotated(shelf.stores, shelf.base + replica.partition)):
            try:
                return await self._ask_store(store, request)
            except (OSError, RemoteProtocolError) as error:
                self._logger.warning(
                    "shelf_not_read",
                    topic=replica.topic,
                    partition=replica.partition,
                    base=shelf.base,
                    store=store,
                    reason=str(error),
                )
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"offset {offset} of {replica.topic}-{replica.partition} is on a shelf of SPUs {_listed(shelf.stores)}, "
            "and none of them could be read: retry",
        )

    async def _ask_store(self, store: SpuId, request: ReadShelfRequest) -> ReadShelfResponse:
        """Asks one store. Raises OSError, with the reason, and RemoteProtocolError."""
        async with self._turns:
            response: ReadShelfResponse = await self._spu_requests.send(
                store, CLIENT_ID, READ_SHELF, request, RESPONSE_SECONDS_MAX
            )
        if response.error_code != ErrorCode.NONE:
            raise OSError(response.error_message or f"SPU {store} responded with error {response.error_code}")
        return response


def _found(response: ReadShelfResponse) -> TimedOffset:
    return response.found_timestamp, response.found_offset, response.found_epoch


def _listed(spus: tuple[SpuId, ...]) -> str:
    return ", ".join(map(str, spus))
