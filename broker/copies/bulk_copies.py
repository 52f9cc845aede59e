"""Fetches portions of committed records from followers, for a replica that lacks many.

The requests are fetches, like those of any consumer, and the leader has no part in them. All replicas on this SPU share
a few turns: so the memory for arriving portions has a bound even after the loss of a disk, when every replica copies.
"""

from typing import Protocol

import trio

from tailrace.broker.peers.peer_codec import read_batches
from tailrace.broker.peers.peer_messages import ReceivedBatches
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replication.copying import CopyLimits, CopyRequest, CopyResponse
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.protocol.error_codes import KafkaError, RemoteProtocolError

from .batch_copies import fetch_records, records_of
from .spu_requests import SpuRequests

LIMITS = CopyLimits()
CLIENT_ID = "tailrace-copy"
AT_ONCE_MAX = 4
"""How many requests of this SPU wait for a response. A response is one portion, or one batch that is larger."""
RESPONSE_SECONDS_MAX = 5.0
"""After this time the follower is overloaded or unreachable, and the leader sends the records instead."""

BulkPortion = tuple[CopyResponse, ReceivedBatches | None]


class BulkCopies(Protocol):
    """Portions of a partition's committed log on other followers."""

    def limits(self, replica: Replica) -> CopyLimits | None:
        """Returns the limits of a copy, or None if the leader has to send everything that the replica lacks."""

    async def fetch(self, replica: Replica, request: CopyRequest) -> BulkPortion:
        """Fetches one portion. The response says why, if there is none."""


class NoBulkCopies:
    """Copies nothing from followers: the leader sends everything."""

    def limits(self, replica: Replica) -> CopyLimits | None:
        return None

    async def fetch(self, replica: Replica, request: CopyRequest) -> BulkPortion:
        raise AssertionError("a bulk copy began although it has no limits")


class RemoteBulkCopies:
    """Fetches portions over the network."""

    def __init__(self, spu_requests: SpuRequests, metrics: BrokerMetrics) -> None:
        self._spu_requests = spu_requests
        self._metrics = metrics
        self._turns = trio.Semaphore(AT_ONCE_MAX)

    def limits(self, replica: Replica) -> CopyLimits | None:
        """Returns None for logs whose parts may not fit together.

        After an unclean election, logs may differ below a high watermark until each was compared with the leader's. If
        two logs were compacted at different times, a part of one and a part of the other may be a log that never was.
        """
        return None if replica.spec.was_unclean or replica.settings.log.compacts else LIMITS

    async def fetch(self, replica: Replica, request: CopyRequest) -> BulkPortion:
        async with self._turns:
            try:
                return await self._fetch(replica, request)
            except (OSError, RemoteProtocolError, KafkaError) as error:
                return CopyResponse(request, failure=str(error)), None

    async def _fetch(self, replica: Replica, request: CopyRequest) -> BulkPortion:
        found = await fetch_records(
            self._spu_requests,
            request.source,
            CLIENT_ID,
            replica.spec,
            request.offset,
            request.bytes_max,
            RESPONSE_SECONDS_MAX,
        )
        if found.error_code:
            return CopyResponse(request, failure=f"SPU {request.source} responded with error {found.error_code}"), None
        records = records_of(found)
        if not records:
            return CopyResponse(request, (), found.high_watermark), None
        entries, received = read_batches(memoryview(records), request.epoch, request.offset, None)
        self._metrics.copied_bytes += len(received.data)
        return CopyResponse(request, entries, found.high_watermark), received
