"""Batches as other replicas have them, for a log that has lost one: asked for as any consumer would."""

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

from .spu_requests import Spus
from .store_answers import store_answer

if TYPE_CHECKING:
    from tailrace.protocol.messages.fetch import PartitionData

FETCH = API_TABLE[ApiKey.FETCH]
READ_STORE = SPU_OBJECT_APIS[InternalApiKey.READ_STORE]
FETCH_VERSION = 13
"""Followers serve it, and topics go by their ids."""
CLIENT_ID = "tailrace-scrub"
ANSWER_SECONDS_MAX = 10.0
NOTHING = b""


class Copies(Protocol):
    here: SpuId

    def holders(self, replica: Replica) -> Sequence[SpuId]:
        """The replicas elsewhere, the leader first and then the others that are live."""

    async def fetch(self, spu: SpuId, replica: Replica, offset: int, *, is_committed: bool) -> Buffer:
        """The batch there that holds the offset, and perhaps more after it; empty when it cannot be had.

        `is_committed`: if it is known there to be so; else whatever that log has."""

    async def look(self, spu: SpuId, replica: Replica, offset: int) -> tuple[StoreAnswer, Buffer] | None:
        """How that store stands, and the batch there that holds the offset, committed or not; empty when it has none.
        None: it does not say."""


class FetchedCopies:
    def __init__(self, spus: Spus) -> None:
        self.here = spus.here
        self._spus = spus

    def holders(self, replica: Replica) -> Sequence[SpuId]:
        spec = replica.spec
        by_rank = dict.fromkeys((spec.leader, *spec.live_replicas, *spec.replicas))
        return [spu for spu in by_rank if spu != self.here and self._spus.is_there(spu)]

    async def fetch(self, spu: SpuId, replica: Replica, offset: int, *, is_committed: bool) -> Buffer:
        named = NO_REPLICA if is_committed else REPAIRING_REPLICA
        try:
            found = await self._fetch(spu, replica, offset, named)
        except (OSError, RemoteProtocolError):
            return NOTHING
        return records_of(found) if found.error_code == 0 else NOTHING

    async def look(self, spu: SpuId, replica: Replica, offset: int) -> tuple[StoreAnswer, Buffer] | None:
        request = ReadStoreRequest(replica.spec.topic_id, replica.partition, offset, 1)
        try:
            # Also what is not synced yet, which a store does not count for what it has when it says how it stands.
            found = await self._fetch(spu, replica, offset, REPAIRING_REPLICA)
            response = await self._spus.ask(spu, CLIENT_ID, READ_STORE, request, ANSWER_SECONDS_MAX)
            if found.error_code in (0, ErrorCode.OFFSET_OUT_OF_RANGE) and response.error_code == 0:
                return store_answer(spu, response), records_of(found)
        except (OSError, RemoteProtocolError, KafkaError, ValueError):
            pass  # what nobody can read, or who knows another policy
        return None

    async def _fetch(self, spu: SpuId, replica: Replica, offset: int, named: int) -> "PartitionData":
        return await fetch_records(self._spus, spu, CLIENT_ID, replica.spec, offset, 1, ANSWER_SECONDS_MAX, named)


async def fetch_records(
    spus: Spus,
    spu: SpuId,
    client_id: str,
    spec: PartitionSpec,
    offset: int,
    bytes_max: int,
    seconds: float,
    named: int = NO_REPLICA,
) -> "PartitionData":
    """What that SPU answers who names himself so, as to this partition. Raises OSError and RemoteProtocolError."""
    from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    partition = FetchPartition(partition=spec.partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    topic = FetchTopic(topic_id=spec.topic_id, partitions=[partition])
    request = FetchRequest(replica_id=named, max_wait_ms=0, min_bytes=0, max_bytes=bytes_max, topics=[topic])
    response = await spus.ask(spu, client_id, FETCH, request, seconds, FETCH_VERSION)
    found: list[PartitionData] = [each for topic in response.responses for each in topic.partitions]
    if len(found) != 1:
        raise RemoteProtocolError(f"one partition was asked for, and {len(found)} were answered")
    return found[0]


def records_of(found: "PartitionData") -> Buffer:
    """Raises OSError if they were fetched here, and cannot be read."""
    records: Any = found.records
    return records.read() if isinstance(records, FileRange) else records or NOTHING
