"""Batches as other replicas have them, for a log that has lost one: asked for as any consumer would."""

from collections.abc import Sequence
from typing import Any, Protocol

import trio

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import MENDING_REPLICA, SpuId
from tailrace.runtime.files import Buffer
from tailrace.runtime.network import Network

from .replica import Replica
from .spu_question import ask, public_address

FETCH = API_TABLE[ApiKey.FETCH]
FETCH_VERSION = 13
"""Followers serve it, and topics go by their ids."""
CLIENT_ID = "tailrace-scrub"
NO_REPLICA = -1
ANSWER_SECONDS_MAX = 10.0
NOTHING = b""


class Copies(Protocol):
    def holders(self, replica: Replica) -> Sequence[SpuId]:
        """The replicas elsewhere, the leader first and then the others that are live."""

    async def fetch(self, spu: SpuId, replica: Replica, offset: int, *, is_committed: bool) -> Buffer:
        """The batch there that holds the offset, and perhaps more after it; empty when it cannot be had.

        `is_committed`: if it is known there to be so; else whatever that log has."""


class FetchedCopies:
    def __init__(self, here: SpuId, cluster: Cluster, network: Network) -> None:
        self._here = here
        self._cluster = cluster
        self._network = network

    def holders(self, replica: Replica) -> Sequence[SpuId]:
        spec = replica.spec
        by_rank = dict.fromkeys((spec.leader, *spec.live_replicas, *spec.replicas))
        return [spu for spu in by_rank if spu != self._here and public_address(self._cluster, spu) is not None]

    async def fetch(self, spu: SpuId, replica: Replica, offset: int, *, is_committed: bool) -> Buffer:
        address = public_address(self._cluster, spu)
        if address is None:
            return NOTHING
        from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

        partition = FetchPartition(partition=replica.partition, fetch_offset=offset, partition_max_bytes=1)
        topic = FetchTopic(topic_id=replica.spec.topic_id, partitions=[partition])
        with trio.move_on_after(ANSWER_SECONDS_MAX):
            try:
                named = NO_REPLICA if is_committed else MENDING_REPLICA
                request = FetchRequest(replica_id=named, max_wait_ms=0, min_bytes=0, topics=[topic])
                return _records(await ask(self._network, address, CLIENT_ID, FETCH, request, FETCH_VERSION))
            except (OSError, RemoteProtocolError):
                return NOTHING
        return NOTHING


def _records(response: Any) -> Buffer:
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.error_code == 0 and partition.records:
                records: Buffer = partition.records
                return records
    return NOTHING
