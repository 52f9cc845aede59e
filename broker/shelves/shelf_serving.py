"""Serves reads of this SPU's copies of shelves to the leaders of their partitions: batches, and offsets by time.

This is the storing SPU's side; `shelf_reads` is the leader's.
"""

from collections.abc import Sequence

import trio

from tailrace.broker.peers.peer_codec import read_batches
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.internal.read_shelf import AbortedOnShelf, ReadShelfRequest, ReadShelfResponse
from tailrace.storage.directory.layout import ShelfKey
from tailrace.storage.log.log import Log
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_recovery import LogDamagedError
from tailrace.storage.segments.segment_scrub import SegmentScrub

from .shelf_copies import Damage, ShelfCopies
from .shelf_duties import ShelfDuty

READ_BYTES_MAX = 1 << 20
"""The limit for one response, whatever the request says. The first batch is returned even if it is larger."""
LARGEST_TIMESTAMP = -3
BY_OFFSET = -1
_EPOCH_MAX = 2**31 - 1


class ShelfServing:
    """Responds to ReadShelf."""

    def __init__(self, copies: ShelfCopies, metrics: BrokerMetrics) -> None:
        self._copies = copies
        self._metrics = metrics

    async def read(self, request: ReadShelfRequest) -> ReadShelfResponse:
        try:
            duty = self._copies.duties.require(ShelfKey(request.topic_id, request.partition, request.base))
            async with self._copies.open_to_read(duty) as log:
                damage = self._copies.damaged.get(duty.key)
                if damage is not None:
                    await self._check_headers(_segments_to_read(duty, log, request), damage)
                return self._read(duty, log, request)
        except KafkaError as error:
            return ReadShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, error.message)
        except OSError as error:
            return ReadShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    async def _check_headers(self, segments: Sequence[SealedSegment], damage: Damage) -> None:
        """Checks segments of a damaged copy, once each. Raises KafkaError if one may have a damaged offset or epoch.

        The checksums of batches do not cover offsets and epochs. A new copy must not be made from such a segment.
        """
        for segment in segments:
            if segment.base not in damage.readable:
                damage.readable[segment.base] = not await _has_damaged_headers(segment)
            if not damage.readable[segment.base]:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"an offset or an epoch is damaged in the segment at offset {segment.base} of a shelf on SPU"
                    f" {self._copies.own_id}",
                )

    def _read(self, duty: ShelfDuty, log: Log, request: ReadShelfRequest) -> ReadShelfResponse:
        offset, end = max(request.offset, duty.start), request.end
        is_empty = log.log_start == log.log_end
        if log.log_end < end or (is_empty and duty.start < end):
            self._copies.on_incomplete(duty, end)
            has = "nothing" if is_empty else f"only the records before offset {log.log_end}"
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"SPU {self._copies.own_id} has {has} of a shelf that is read up to offset {end}",
            )
        if request.timestamp != BY_OFFSET:
            is_largest = request.timestamp == LARGEST_TIMESTAMP
            found = log.max_timestamp(end, offset) if is_largest else log.find_timestamp(request.timestamp, end, offset)
            return ReadShelfResponse() if found is None else ReadShelfResponse(0, "", *found)
        return self._batches(log, offset, end, request.bytes_max)

    def _batches(self, log: Log, offset: int, end: int, bytes_max: int) -> ReadShelfResponse:
        if offset >= end:
            return ReadShelfResponse()
        try:
            found = log.read(offset, min(max(0, bytes_max), READ_BYTES_MAX), end, at_least_one=True)
            if found is None:
                return ReadShelfResponse()
            records = found.read()
            read_batches(memoryview(records), _EPOCH_MAX, offset, end)
            aborted = log.aborted_in(found, offset, end)
        except (KafkaError, RemoteProtocolError) as error:
            raise LogDamagedError(f"{log.directory}: {error}") from error
        self._metrics.shelf_read_bytes += len(records)
        return ReadShelfResponse(
            records=records,
            aborted=[AbortedOnShelf(each.producer_id, each.first_offset) for each in aborted],
        )


def _segments_to_read(duty: ShelfDuty, log: Log, request: ReadShelfRequest) -> Sequence[SealedSegment]:
    """Returns the segments from which a request reads."""
    offset = max(request.offset, duty.start)
    found = [each for each in log.synced_segments() if offset < each.end and each.base < request.end]
    return found[:1] if request.timestamp == BY_OFFSET else found


async def _has_damaged_headers(segment: SealedSegment) -> bool:
    """Whether the segment does not match its checksum, although each of its batches does."""
    scrub = SegmentScrub(segment)
    while not (scrub.is_at_end or scrub.is_outdated):
        if scrub.step() is not None:
            return False
        await trio.lowlevel.checkpoint()
    return not (scrub.is_outdated or scrub.is_proven)
