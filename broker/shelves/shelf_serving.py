"""Reads the shelves that are kept here, for the leaders of their partitions: batches, and where a time is."""

from collections.abc import Sequence

import trio

from tailrace.broker.peers.peer_codec import read_batches
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.internal.read_shelf import ReadShelfRequest, ReadShelfResponse
from tailrace.storage.directory.layout import ShelfKey
from tailrace.storage.log.log import Log
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_recovery import LogDamagedError
from tailrace.storage.segments.segment_scrub import SegmentScrub

from .shelf_copies import Damage, ShelfCopies
from .shelf_duties import KeptShelf

READ_BYTES_MAX = 1 << 20
"""In one answer, whatever is asked for; a larger batch comes all the same."""
LARGEST_TIMESTAMP = -3
BY_OFFSET = -1
_EPOCH_MAX = 2**31 - 1


class KeptShelfReading:
    def __init__(self, copies: ShelfCopies, metrics: BrokerMetrics) -> None:
        self._copies = copies
        self._metrics = metrics

    async def read(self, request: ReadShelfRequest) -> ReadShelfResponse:
        try:
            kept = self._copies.kept.named(ShelfKey(request.topic_id, request.partition, request.base))
            async with self._copies.to_read(kept) as log:
                damage = self._copies.damaged.get(kept.key)
                if damage is not None:
                    await self._check_headers(_asked_for(kept, log, request), damage)
                return self._read(kept, log, request)
        except KafkaError as error:
            return ReadShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, error.message)
        except OSError as error:
            return ReadShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    async def _check_headers(self, segments: Sequence[SealedSegment], damage: Damage) -> None:
        """No checksum of a batch covers its offset and its epoch: if one of these may be what is damaged, nothing of
        that segment is told. The copy that replaces this one might be made of it. Raises KafkaError."""
        for segment in segments:
            if segment.base not in damage.readable:
                damage.readable[segment.base] = not await _has_other_headers(segment)
            if not damage.readable[segment.base]:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"SPU {self._copies.here} has another segment at offset {segment.base} of a shelf than it had",
                )

    def _read(self, kept: KeptShelf, log: Log, request: ReadShelfRequest) -> ReadShelfResponse:
        offset, end = max(request.offset, kept.start), request.end
        is_empty = log.log_start == log.log_end
        if log.log_end < end or (is_empty and kept.start < end):
            self._copies.on_lacking(kept, end)
            has = "nothing" if is_empty else f"what is before offset {log.log_end}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"SPU {self._copies.here} has {has} of a shelf up to {end}")
        if request.timestamp != BY_OFFSET:
            is_largest = request.timestamp == LARGEST_TIMESTAMP
            found = log.max_timestamp(end, offset) if is_largest else log.find_timestamp(request.timestamp, end, offset)
            return ReadShelfResponse() if found is None else ReadShelfResponse(0, "", *found)
        return ReadShelfResponse(records=self._batches(log, offset, end, request.bytes_max))

    def _batches(self, log: Log, offset: int, end: int, bytes_max: int) -> bytes:
        if offset >= end:
            return b""
        try:
            found = log.read(offset, min(max(0, bytes_max), READ_BYTES_MAX), end, at_least_one=True)
            records = b"" if found is None else found.read()
            read_batches(memoryview(records), _EPOCH_MAX, offset, end)
        except (KafkaError, RemoteProtocolError) as error:
            raise LogDamagedError(f"{log.directory}: {error}") from error
        self._metrics.shelf_read_bytes += len(records)
        return records


def _asked_for(kept: KeptShelf, log: Log, request: ReadShelfRequest) -> Sequence[SealedSegment]:
    """What is read of these is told."""
    offset = max(request.offset, kept.start)
    found = [each for each in log.synced_segments() if offset < each.end and each.base < request.end]
    return found[:1] if request.timestamp == BY_OFFSET else found


async def _has_other_headers(segment: SealedSegment) -> bool:
    """Than were written, though each batch has its checksum."""
    scrub = SegmentScrub(segment)
    while not (scrub.is_at_end or scrub.is_outdated):
        if scrub.step() is not None:
            return False
        await trio.lowlevel.checkpoint()
    return not (scrub.is_outdated or scrub.is_proven)
