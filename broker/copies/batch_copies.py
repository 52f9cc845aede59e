"""Fetches single batches from other replicas, to repair a corrupt one in the local log.

The requests are fetches, like those of any consumer.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replication.quorum_read import StoreAnswer
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import NO_REPLICA, REPAIRING_REPLICA, SpuId
from tailrace.protocol.internal.read_store import ReadStoreRequest
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS, InternalApiKey
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer

from .spu_requests import SpuRequests
from .store_answers import store_answer

if TYPE_CHECKING:
    from tailrace.protocol.messages.fetch import PartitionData

FETCH = API_TABLE[ApiKey.FETCH]
READ_STORE = SPU_OBJECT_APIS[InternalApiKey.READ_STORE]
FETCH_VERSION = 13
"""A version that followers serve, and in which topics are named by their ids."""
CLIENT_ID = "tailrace-scrub"
READ_COMMITTED = 1
"""The isolation level of readers that skip aborted transactions."""
RESPONSE_SECONDS_MAX = 10.0
NOTHING = b""


class BatchCopies(Protocol):
    """Copies of single batches in the logs of other replicas."""

    own_id: SpuId

    def holders(self, replica: Replica) -> Sequence[SpuId]:
        """Returns the other online replicas: the leader first, then the live ones, then the rest."""

    async def fetch(self, spu: SpuId, replica: Replica, offset: int, *, is_committed: bool) -> Buffer:
        """Fetches the batch that contains the offset, perhaps with later ones; returns nothing if that fails.

        With `is_committed`, only batches below the high watermark of that SPU are returned.
        """

    async def inspect(self, spu: SpuId, replica: Replica, offset: int) -> tuple[StoreAnswer, Buffer] | None:
        """Fetches a store's state and its batch that contains the offset, committed or not.

        The batch is empty if the store has none. The result is None if the store does not say what it has.
        """


class RemoteBatchCopies:
    """Fetches batches over the network."""

    def __init__(self, spu_requests: SpuRequests) -> None:
        self.own_id = spu_requests.own_id
        self._spu_requests = spu_requests

    def holders(self, replica: Replica) -> Sequence[SpuId]:
        spec = replica.spec
        by_rank = dict.fromkeys((spec.leader, *spec.live_replicas, *spec.replicas))
        return [spu for spu in by_rank if spu != self.own_id and self._spu_requests.is_online(spu)]

    async def fetch(self, spu: SpuId, replica: Replica, offset: int, *, is_committed: bool) -> Buffer:
        sender = NO_REPLICA if is_committed else REPAIRING_REPLICA
        try:
            found = await self._fetch(spu, replica, offset, sender)
        except (OSError, RemoteProtocolError):
            return NOTHING
        return records_of(found) if found.error_code == 0 else NOTHING

    async def inspect(self, spu: SpuId, replica: Replica, offset: int) -> tuple[StoreAnswer, Buffer] | None:
        request = ReadStoreRequest(replica.spec.topic_id, replica.partition, offset, 1)
        try:
            # This fetch also returns batches that are not synced yet. ReadStore does not count them as stored.
            found = await self._fetch(spu, replica, offset, REPAIRING_REPLICA)
            response = await self._spu_requests.send(spu, CLIENT_ID, READ_STORE, request, RESPONSE_SECONDS_MAX)
            if found.error_code in (0, ErrorCode.OFFSET_OUT_OF_RANGE) and response.error_code == 0:
                return store_answer(spu, response), records_of(found)
        except (OSError, RemoteProtocolError, KafkaError, ValueError):
            pass  # unreachable, batches that cannot be decoded, or an unknown replication policy
        return None

    async def _fetch(self, spu: SpuId, replica: Replica, offset: int, sender: int) -> "PartitionData":
        return await fetch_records(
            self._spu_requests, spu, CLIENT_ID, replica.spec, offset, 1, RESPONSE_SECONDS_MAX, sender
        )


async def fetch_records(
    spu_requests: SpuRequests,
    spu: SpuId,
    client_id: str,
    spec: PartitionSpec,
    offset: int,
    bytes_max: int,
    seconds: float,
    sender: int = NO_REPLICA,
    isolation_level: int = 0,
) -> "PartitionData":
    """Fetches one partition from an SPU, which decides by the replica id `sender` how far it lets the sender read.

    Raises OSError and RemoteProtocolError.
    """
    from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    partition = FetchPartition(partition=spec.partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    topic = FetchTopic(topic_id=spec.topic_id, partitions=[partition])
    request = FetchRequest(
        replica_id=sender,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=bytes_max,
        isolation_level=isolation_level,
        topics=[topic],
    )
    response = await spu_requests.send(spu, client_id, FETCH, request, seconds, FETCH_VERSION)
    found: list[PartitionData] = [each for topic in response.responses for each in topic.partitions]
    if len(found) != 1:
        raise RemoteProtocolError(f"the request was for one partition, and the response has {len(found)}")
    return found[0]


def records_of(found: "PartitionData") -> Buffer:
    """Returns the records of a fetched partition.

    Raises OSError if this SPU responded to itself with a range of a file that cannot be read.
    """
    records: Any = found.records
    return records.read() if isinstance(records, FileRange) else records or NOTHING
