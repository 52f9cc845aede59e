"""Reading what the log here does not have any more from those that keep it on shelves, for the leader's clients.

Any store of a shelf has all of it. They are asked in turn, another part of the log beginning with another one; who does
not answer in time is left out, and the client is told to come again only when none of them does.
"""

import trio
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

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

CLIENT_ID = "tailrace-shelf"
READ_SHELF = SPU_OBJECT_APIS[InternalApiKey.READ_SHELF]
AT_ONCE_MAX = 8
"""Questions that have not been answered; each answer is a portion, or one batch that is larger."""
ANSWER_SECONDS_MAX = 5.0
BY_LARGEST_TIME = -3

TimedOffset = tuple[int, int, int]
"""A record's timestamp, its offset and its leader epoch."""


class ShelfReader:
    def __init__(self, spu_requests: SpuRequests, metrics: BrokerMetrics, logger: FilteringBoundLogger) -> None:
        self._spu_requests = spu_requests
        self._metrics = metrics
        self._logger = logger
        self._turns = trio.Semaphore(AT_ONCE_MAX)

    async def read(self, replica: Replica, offset: int, bytes_max: int, end: int) -> bytes:
        """Whole batches of one shelf that end before `end`, the first of them the one that holds the offset, or comes
        next; empty when there is none before the log here. Raises KafkaError when no store answers."""
        while offset < end and (shelf := shelf_of(replica.spec, offset, replica.log.log_start)) is not None:
            answer = await self._ask(replica, replace(shelf, end=min(shelf.end, end)), offset, bytes_max)
            if answer.records:
                self._metrics.read_through_bytes += len(answer.records)
                return answer.records
            offset = shelf.end  # a gap, which compaction may have left once
        return b""

    async def find_timestamp(self, replica: Replica, timestamp_ms: int) -> TimedOffset | None:
        """The first record on shelves, from where they begin, that is not older. Raises KafkaError."""
        start = replica.spec.shelved_from
        for shelf in shelves_before(replica.spec, replica.log.log_start):
            answer = await self._ask(replica, shelf, max(start, shelf.base), 0, timestamp_ms)
            if answer.found_offset >= 0:
                return _found(answer)
        return None

    async def max_timestamp(self, replica: Replica) -> TimedOffset | None:
        """The first of the newest records on shelves. Raises KafkaError."""
        newest: TimedOffset | None = None
        start = replica.spec.shelved_from
        for shelf in shelves_before(replica.spec, replica.log.log_start):
            answer = await self._ask(replica, shelf, max(start, shelf.base), 0, BY_LARGEST_TIME)
            if answer.found_offset >= 0 and (newest is None or answer.found_timestamp > newest[0]):
                newest = _found(answer)
        return newest

    async def _ask(
        self, replica: Replica, shelf: Shelf, offset: int, bytes_max: int, timestamp: int = -1
    ) -> ReadShelfResponse:
        request = ReadShelfRequest(
            replica.spec.topic_id, replica.partition, shelf.base, shelf.end, offset, bytes_max, timestamp
        )
        for store in filter(self._spu_requests.is_online, rotated(shelf.stores, shelf.base + replica.partition)):
            try:
                return await self._answer_of(store, request)
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
            "and none of them can be read now",
        )

    async def _answer_of(self, store: SpuId, request: ReadShelfRequest) -> ReadShelfResponse:
        """Raises OSError, which says why there is none, and RemoteProtocolError."""
        async with self._turns:
            answer: ReadShelfResponse = await self._spu_requests.send(
                store, CLIENT_ID, READ_SHELF, request, ANSWER_SECONDS_MAX
            )
        if answer.error_code != ErrorCode.NONE:
            raise OSError(answer.error_message or f"it answers with error {answer.error_code}")
        return answer


def _found(answer: ReadShelfResponse) -> TimedOffset:
    return answer.found_timestamp, answer.found_offset, answer.found_epoch


def _listed(spus: tuple[SpuId, ...]) -> str:
    return ", ".join(map(str, spus))
