"""Portions of what is committed, from followers that have it, for one that lacks a lot.

They are asked for as by any consumer, so their leader has no part in it. All replicas here take turns, so that a disk
that was lost does not come back all at once: what waits takes no memory, and what is on its way has a bound.
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
from .spu_requests import Spus

LIMITS = CopyLimits()
CLIENT_ID = "tailrace-copy"
AT_ONCE_MAX = 4
"""Questions that this SPU has not been answered; each answer is a portion, or one batch that is larger."""
ANSWER_SECONDS_MAX = 5.0
"""Who is slower than that has other things to do, or none of it comes: the leader sends it then."""

Portion = tuple[CopyResponse, ReceivedBatches | None]


class BulkCopies(Protocol):
    def limits(self, replica: Replica) -> CopyLimits | None:
        """None: all that it lacks is its leader's to send."""

    async def fetch(self, replica: Replica, request: CopyRequest) -> Portion: ...


class NoCopies:
    """Where nobody but the leader is asked."""

    def limits(self, replica: Replica) -> CopyLimits | None:
        return None

    async def fetch(self, replica: Replica, request: CopyRequest) -> Portion:
        raise AssertionError("nothing is to be copied")


class FetchedPortions:
    def __init__(self, spus: Spus, metrics: BrokerMetrics) -> None:
        self._spus = spus
        self._metrics = metrics
        self._turns = trio.Semaphore(AT_ONCE_MAX)

    def limits(self, replica: Replica) -> CopyLimits | None:
        """After an unclean election logs may part below a high watermark, until each was compared with its leader; and
        of two that are compacted, the beginning of one and the end of the other may make one that never was."""
        return None if replica.spec.was_unclean or replica.settings.log.compacts else LIMITS

    async def fetch(self, replica: Replica, request: CopyRequest) -> Portion:
        async with self._turns:
            try:
                return await self._fetch(replica, request)
            except (OSError, RemoteProtocolError, KafkaError) as error:
                return CopyResponse(request, failure=str(error)), None

    async def _fetch(self, replica: Replica, request: CopyRequest) -> Portion:
        found = await fetch_records(
            self._spus, request.source, CLIENT_ID, replica.spec, request.offset, request.bytes_max, ANSWER_SECONDS_MAX
        )
        if found.error_code:
            return CopyResponse(request, failure=f"it answers with error {found.error_code}"), None
        records = records_of(found)
        if not records:
            return CopyResponse(request, (), found.high_watermark), None
        entries, received = read_batches(memoryview(records), request.epoch, request.offset, None)
        self._metrics.copied_bytes += len(received.data)
        return CopyResponse(request, entries, found.high_watermark), received
