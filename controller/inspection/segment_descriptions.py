"""The segments of partitions and the copies of each, as the SPUs that hold them say: asked for whenever people look.

The segments are those of the leader, or of who has most when there is none. The others are asked for theirs at the same
time, and where a copy is not the same to the byte, both are asked what the records are. What is on shelves is told as
it is known here: nobody is asked for that.
"""

from collections.abc import Awaitable, Callable, Mapping

import trio
from msgspec.structs import replace

from tailrace.cluster.specs import Shelf
from tailrace.controller.objects.objects import Partition
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.describe_replica_segments import (
    DescribeReplicaSegmentsRequest,
    DescribeReplicaSegmentsResponse,
    OffsetRange,
    ReplicaSegment,
)
from tailrace.protocol.internal.describe_segments import (
    DescribedSegment,
    DescribedShelf,
    SegmentCopy,
    SegmentedPartition,
    SegmentHolder,
)

from .segment_comparison import compare, wanted_content
from .spu_responses import NoResponseError, response_of

RESPONSE_SECONDS_MAX = 5.0
SEGMENTS_MAX = 500
"""Of a partition; of each of many partitions fewer."""
SEGMENTS_OF_ALL_MAX = 5000
PARTITIONS_AT_ONCE = 16

Ask = Callable[[SpuId, DescribeReplicaSegmentsRequest], Awaitable[DescribeReplicaSegmentsResponse]]
"""Raises LinkClosed, with a sentence, when the SPU cannot be asked."""
_Said = Mapping[SpuId, DescribeReplicaSegmentsResponse]


class SegmentDescriptions:
    def __init__(self, local: LocalStore, ask: Ask) -> None:
        self._local = local
        self._ask = ask

    async def describe(self, topic: str, number: int | None, before: int) -> list[SegmentedPartition]:
        """Of one partition, or of all that the topic has; `before`: as in the request. Raises KafkaError."""
        partitions = self._partitions(topic, number)
        segments_max = max(1, min(SEGMENTS_MAX, SEGMENTS_OF_ALL_MAX // max(1, len(partitions))))
        turn = trio.CapacityLimiter(PARTITIONS_AT_ONCE)
        described: dict[int, SegmentedPartition] = {}

        async def describe_one(partition: Partition) -> None:
            async with turn:
                described[partition.number] = await _Copies(self._asks, partition).describe(before, segments_max)

        async with trio.open_nursery() as nursery:
            for partition in partitions:
                nursery.start_soon(describe_one, partition)
        return [described[partition.number] for partition in partitions]

    def _partitions(self, topic: str, number: int | None) -> list[Partition]:
        known = self._local.topics.get(topic)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic:.300}")
        partitions = self._local.partitions_of(known.id)
        if number is None:
            return [partition for _, partition in sorted(partitions.items())]
        if number not in partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic:.300}/{number}")
        return [partitions[number]]

    async def _asks(self, spu: SpuId, request: DescribeReplicaSegmentsRequest) -> DescribeReplicaSegmentsResponse:
        """An SPU that cannot be asked, or does not answer soon, is described by that."""
        try:
            return await response_of(spu, request, self._ask, self._local, RESPONSE_SECONDS_MAX)
        except NoResponseError as reason:
            return DescribeReplicaSegmentsResponse(str(reason))


class _Copies:
    """Of one partition."""

    def __init__(self, ask: Ask, partition: Partition) -> None:
        self._ask = ask
        self._partition = partition

    async def describe(self, before: int, segments_max: int) -> SegmentedPartition:
        partition = self._partition
        said = await self._ask_all(
            {spu: DescribeReplicaSegmentsRequest(segments_max=segments_max, before=before) for spu in self._holders}
        )
        teller = self._teller(said)
        described = SegmentedPartition(
            partition.topic,
            partition.topic_id,
            partition.number,
            partition.status.leader,
            holders=[SegmentHolder(spu, answer.log_end, answer.error_message) for spu, answer in said.items()],
        )
        shelves = [each for each in partition.spec.shelves if _is_shown(each, before)]
        described.older_shelves = max(len(shelves) - segments_max, 0)
        described.shelves = [
            DescribedShelf(each.base, each.end, list(each.stores), list(each.filling))
            for each in shelves[described.older_shelves :]
        ]
        if teller is None:
            return described
        said = await self._with_contents(said, teller)
        told = said[teller]
        described.told_by = teller
        described.log_start, described.log_end = told.log_start, told.log_end
        described.high_watermark = told.high_watermark
        described.older_count = told.older_count
        described.segments = [_described(segment, told, said) for segment in told.segments]
        return described

    @property
    def _holders(self) -> tuple[SpuId, ...]:
        return self._partition.spec.replicas

    def _teller(self, said: _Said) -> SpuId | None:
        """Whose segments are shown."""
        able = [spu for spu in said if said[spu].error_message is None]
        leader = self._partition.status.leader
        return leader if leader in able else max(able, key=lambda spu: said[spu].log_end, default=None)

    async def _with_contents(self, said: _Said, teller: SpuId) -> _Said:
        told = said[teller]
        wanted: dict[SpuId, list[OffsetRange]] = {}
        of_teller: dict[tuple[int, int], OffsetRange] = {}
        for segment in told.segments:
            for spu, answer in said.items():
                if (asked := wanted_content(segment, told, answer)) is not None:
                    wanted.setdefault(spu, []).append(asked)
                    of_teller[asked.base, asked.end] = asked
        if not wanted:
            return said
        wanted[teller] = list(of_teller.values())
        answers = await self._ask_all(
            {spu: DescribeReplicaSegmentsRequest(ranges=ranges) for spu, ranges in wanted.items()}
        )
        return {
            spu: replace(answer, contents=answers[spu].contents) if spu in answers else answer
            for spu, answer in said.items()
        }

    async def _ask_all(self, requests: Mapping[SpuId, DescribeReplicaSegmentsRequest]) -> _Said:
        """At the same time; the answers come in the order of the requests."""
        answers: dict[SpuId, DescribeReplicaSegmentsResponse] = {}

        async def ask_one(spu: SpuId, request: DescribeReplicaSegmentsRequest) -> None:
            request.topic_id, request.partition = self._partition.topic_id, self._partition.number
            answers[spu] = await self._ask(spu, request)

        async with trio.open_nursery() as nursery:
            for spu, request in requests.items():
                nursery.start_soon(ask_one, spu, request)
        return {spu: answers[spu] for spu in requests}


def _is_shown(shelf: Shelf, before: int) -> bool:
    """One on which nothing is yet is none of anything."""
    return shelf.base < shelf.end and (before < 0 or shelf.base < before)


def _described(segment: ReplicaSegment, told: DescribeReplicaSegmentsResponse, said: _Said) -> DescribedSegment:
    return DescribedSegment(
        segment.base,
        segment.end,
        segment.first_epoch,
        segment.last_epoch,
        segment.size_bytes,
        segment.checksum,
        segment.state,
        segment.sealed_by,
        [SegmentCopy(spu, compare(segment, told, answer)) for spu, answer in said.items()],
    )
