"""Batches as other replicas have them, for a log that has lost one: asked for as any consumer would."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import trio

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import MENDING_REPLICA, NO_REPLICA, SpuId
from tailrace.protocol.internal.read_store import ReadStoreRequest
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS, InternalApiKey
from tailrace.runtime.files import Buffer
from tailrace.runtime.network import Address, Network

from .replica import Replica
from .replication.quorum_read import StoreAnswer
from .spu_question import ask, public_address
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
    def __init__(self, here: SpuId, cluster: Cluster, network: Network) -> None:
        self.here = here
        self._cluster = cluster
        self._network = network

    def holders(self, replica: Replica) -> Sequence[SpuId]:
        spec = replica.spec
        by_rank = dict.fromkeys((spec.leader, *spec.live_replicas, *spec.replicas))
        return [spu for spu in by_rank if spu != self.here and public_address(self._cluster, spu) is not None]

    async def fetch(self, spu: SpuId, replica: Replica, offset: int, *, is_committed: bool) -> Buffer:
        address = public_address(self._cluster, spu)
        if address is None:
            return NOTHING
        with trio.move_on_after(ANSWER_SECONDS_MAX):
            try:
                named = NO_REPLICA if is_committed else MENDING_REPLICA
                found = await fetch_records(self._network, address, CLIENT_ID, replica.spec, offset, 1, named)
            except (OSError, RemoteProtocolError):
                return NOTHING
            if found.error_code == 0:
                return records_of(found)
        return NOTHING

    async def look(self, spu: SpuId, replica: Replica, offset: int) -> tuple[StoreAnswer, Buffer] | None:
        address = public_address(self._cluster, spu)
        if address is None:
            return None
        request = ReadStoreRequest(replica.spec.topic_id, replica.partition, offset, 1)
        with trio.move_on_after(ANSWER_SECONDS_MAX):
            try:
                # Also what is not synced yet, which a store does not count for what it has when it says how it stands.
                found = await fetch_records(self._network, address, CLIENT_ID, replica.spec, offset, 1, MENDING_REPLICA)
                response = await ask(self._network, address, CLIENT_ID, READ_STORE, request)
                if found.error_code in (0, ErrorCode.OFFSET_OUT_OF_RANGE) and response.error_code == 0:
                    return store_answer(spu, response), records_of(found)
            except (OSError, RemoteProtocolError, KafkaError, ValueError):
                pass  # what nobody can read, or who knows another policy
        return None


async def fetch_records(
    network: Network,
    address: Address,
    client_id: str,
    spec: PartitionSpec,
    offset: int,
    bytes_max: int,
    named: int = NO_REPLICA,
) -> "PartitionData":
    """What that SPU answers who names himself so, as to this partition. Raises OSError and RemoteProtocolError."""
    from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    partition = FetchPartition(partition=spec.partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    topic = FetchTopic(topic_id=spec.topic_id, partitions=[partition])
    request = FetchRequest(replica_id=named, max_wait_ms=0, min_bytes=0, max_bytes=bytes_max, topics=[topic])
    response = await ask(network, address, client_id, FETCH, request, FETCH_VERSION)
    found: list[PartitionData] = [each for topic in response.responses for each in topic.partitions]
    if len(found) != 1:
        raise RemoteProtocolError(f"one partition was asked for, and {len(found)} were answered")
    return found[0]


def records_of(found: "PartitionData") -> Buffer:
    records: Any = found.records
    return records or NOTHING
