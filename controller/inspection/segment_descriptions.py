"""Describes the segments of partitions and the copies of each, by asking the SPUs that hold them.

The segments are those of the leader, or those of the replica with the longest log if there is no leader. All SPUs are
asked concurrently. If a copy does not have equal bytes, both SPUs are asked for checksums of their records. Shelves are
described from the Local Store, without asking SPUs.
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
"""How many segments of one partition are described."""
SEGMENTS_OF_ALL_MAX = 5000
"""How many segments of all partitions together are described."""
PARTITIONS_AT_ONCE = 16

Ask = Callable[[SpuId, DescribeReplicaSegmentsRequest], Awaitable[DescribeReplicaSegmentsResponse]]
"""Asks an SPU. Raises LinkClosed, with a sentence, if the SPU cannot be asked."""
_Responses = Mapping[SpuId, DescribeReplicaSegmentsResponse]


class SegmentDescriptions:
    """Describes segments on request."""

    def __init__(self, local: LocalStore, ask: Ask) -> None:
        self._local = local
        self._ask = ask

    async def describe(self, topic: str, number: int | None, before: int) -> list[SegmentedPartition]:
        """Describes one partition of the topic, or all for None. Raises KafkaError.

        Only segments that begin before the offset `before` are described, or the last ones if it is negative.
        """
        partitions = self._partitions(topic, number)
        segments_max = max(1, min(SEGMENTS_MAX, SEGMENTS_OF_ALL_MAX // max(1, len(partitions))))
        turn = trio.CapacityLimiter(PARTITIONS_AT_ONCE)
        described: dict[int, SegmentedPartition] = {}

        async def describe_one(partition: Partition) -> None:
            async with turn:
                described[partition.number] = await _Copies(self._ask_or_explain, partition).describe(
                    before, segments_max
                )

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

    async def _ask_or_explain(
        self, spu: SpuId, request: DescribeReplicaSegmentsRequest
    ) -> DescribeReplicaSegmentsResponse:
        """Asks an SPU. If it does not respond soon, or cannot be asked, returns a response with that error."""
        try:
            return await response_of(spu, request, self._ask, self._local, RESPONSE_SECONDS_MAX)
        except NoResponseError as reason:
            return DescribeReplicaSegmentsResponse(str(reason))


class _Copies:
    """Describes the copies of one partition."""

    def __init__(self, ask: Ask, partition: Partition) -> None:
        self._ask = ask
        self._partition = partition

    async def describe(self, before: int, segments_max: int) -> SegmentedPartition:
        partition = self._partition
        responses = await self._ask_all(
            {spu: DescribeReplicaSegmentsRequest(segments_max=segments_max, before=before) for spu in self._holders}
        )
        reference = self._reference(responses)
        described = SegmentedPartition(
            partition.topic,
            partition.topic_id,
            partition.number,
            partition.status.leader,
            holders=[
                SegmentHolder(spu, response.log_end, response.error_message) for spu, response in responses.items()
            ],
        )
        shelves = [each for each in partition.spec.shelves if _is_shown(each, before)]
        described.older_shelves = max(len(shelves) - segments_max, 0)
        described.shelves = [
            DescribedShelf(each.base, each.end, list(each.stores), list(each.filling))
            for each in shelves[described.older_shelves :]
        ]
        if reference is None:
            return described
        responses = await self._with_contents(responses, reference)
        of_reference = responses[reference]
        described.told_by = reference
        described.log_start, described.log_end = of_reference.log_start, of_reference.log_end
        described.high_watermark = of_reference.high_watermark
        described.older_count = of_reference.older_count
        described.segments = [_described(segment, of_reference, responses) for segment in of_reference.segments]
        return described

    @property
    def _holders(self) -> tuple[SpuId, ...]:
        return self._partition.spec.replicas

    def _reference(self, responses: _Responses) -> SpuId | None:
        """Returns the SPU whose segments are shown, and with which the others are compared."""
        able = [spu for spu in responses if responses[spu].error_message is None]
        leader = self._partition.status.leader
        return leader if leader in able else max(able, key=lambda spu: responses[spu].log_end, default=None)

    async def _with_contents(self, responses: _Responses, reference: SpuId) -> _Responses:
        of_reference = responses[reference]
        wanted: dict[SpuId, list[OffsetRange]] = {}
        ranges: dict[tuple[int, int], OffsetRange] = {}
        for segment in of_reference.segments:
            for spu, response in responses.items():
                if (asked := wanted_content(segment, of_reference, response)) is not None:
                    wanted.setdefault(spu, []).append(asked)
                    ranges[asked.base, asked.end] = asked
        if not wanted:
            return responses
        wanted[reference] = list(ranges.values())
        with_contents = await self._ask_all(
            {spu: DescribeReplicaSegmentsRequest(ranges=of_spu) for spu, of_spu in wanted.items()}
        )
        return {
            spu: replace(response, contents=with_contents[spu].contents) if spu in with_contents else response
            for spu, response in responses.items()
        }

    async def _ask_all(self, requests: Mapping[SpuId, DescribeReplicaSegmentsRequest]) -> _Responses:
        """Asks all SPUs concurrently, and returns their responses in the order of the requests."""
        responses: dict[SpuId, DescribeReplicaSegmentsResponse] = {}

        async def ask_one(spu: SpuId, request: DescribeReplicaSegmentsRequest) -> None:
            request.topic_id, request.partition = self._partition.topic_id, self._partition.number
            responses[spu] = await self._ask(spu, request)

        async with trio.open_nursery() as nursery:
            for spu, request in requests.items():
                nursery.start_soon(ask_one, spu, request)
        return {spu: responses[spu] for spu in requests}


def _is_shown(shelf: Shelf, before: int) -> bool:
    """Tells whether to show a shelf. Empty shelves are not shown."""
    return shelf.base < shelf.end and (before < 0 or shelf.base < before)


def _described(
    segment: ReplicaSegment, of_reference: DescribeReplicaSegmentsResponse, responses: _Responses
) -> DescribedSegment:
    return DescribedSegment(
        segment.base,
        segment.end,
        segment.first_epoch,
        segment.last_epoch,
        segment.size_bytes,
        segment.checksum,
        segment.state,
        segment.sealed_by,
        [SegmentCopy(spu, compare(segment, of_reference, response)) for spu, response in responses.items()],
    )
