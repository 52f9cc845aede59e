"""Measures the lag of the groups that this SPU coordinates, when metrics are scraped.

Each leader of their partitions is asked at most twice: first for the readable ends, then, for the largest lags, for the
timestamps of the next records. A known timestamp is kept while a group stays at its offset.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.groups.common.group_lag import (
    NOTHING_THERE,
    GroupLag,
    GroupPosition,
    LargestLags,
    PartitionKey,
    group_lags,
    unread_offsets,
)
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.codec.primitives import NO_UUID
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.describe_positions import (
    AskedPartition,
    AskedTopic,
    DescribePositionsRequest,
    DescribePositionsResponse,
)
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS, InternalApiKey
from tailrace.runtime.turns import Turns
from tailrace.runtime.wall_clock import WallClock

if TYPE_CHECKING:
    from tailrace.broker.groups.offsets.committed_offsets import CommittedOffsets

LAGS_MAX = 10_000
"""How many lags are reported per scrape. Each makes three series in the monitoring system."""
FRESH_SECONDS = 2.0
"""How long a measurement is reused, for example if several systems scrape the metrics."""
RESPONSE_SECONDS_MAX = 2.0
ROWS_PER_TURN = 500
"""How many committed offsets are visited before other tasks run."""
CLIENT_ID = "tailrace-lag"
_API = SPU_OBJECT_APIS[InternalApiKey.DESCRIBE_POSITIONS]

Questions = Mapping[PartitionKey, Sequence[int]]
"""The offsets whose timestamps are requested, for each partition."""


class LagMeasurement:
    def __init__(
        self,
        spu_requests: SpuRequests,
        committed: Callable[[], Sequence["CommittedOffsets"]],
        cluster: Cluster,
        wall_clock: WallClock,
    ) -> None:
        """`committed` returns the committed offsets of each local coordinator."""
        self._spu_requests = spu_requests
        self._committed = committed
        self._cluster = cluster
        self._wall_clock = wall_clock
        self._lock = trio.Lock()
        self._measured_at = -FRESH_SECONDS
        self._lags: list[GroupLag] = []
        self._written_ms: dict[tuple[PartitionKey, int], int] = {}

    async def measure(self) -> Sequence[GroupLag]:
        """Returns the largest lags, the largest first."""
        async with self._lock:
            if trio.current_time() - self._measured_at >= FRESH_SECONDS:
                self._lags = await self._measure()
                self._measured_at = trio.current_time()
            return self._lags

    async def _measure(self) -> list[GroupLag]:
        ends: dict[PartitionKey, int] = {}
        for key, (end, _) in (await self._ask(await self._partition_keys())).items():
            ends[key] = end
        largest = LargestLags(ends, LAGS_MAX)
        turns = Turns(ROWS_PER_TURN)
        for offsets, group_id in self._groups():
            for topic, partition, committed in offsets.of_group(group_id):
                found = self._topic(topic, partition)
                if found is not None and committed.topic_id in (NO_UUID, found.id):
                    largest.add(GroupPosition(group_id, topic, (found.id, partition), committed.offset))
                turns.count += 1
            await turns.take()
        backlog = largest.result()
        self._written_ms = await self._timestamps(unread_offsets(backlog))
        return group_lags(backlog, self._written_ms, self._wall_clock.now_ms())

    async def _partition_keys(self) -> Questions:
        """Returns all partitions with committed offsets, and requests no timestamps."""
        keys: dict[PartitionKey, tuple[int, ...]] = {}
        turns = Turns(ROWS_PER_TURN)
        for offsets, group_id in self._groups():
            for topic in offsets.topics(group_id):
                for partition in offsets.partitions(group_id, topic):
                    found = self._topic(topic, partition)
                    if found is not None:
                        keys[found.id, partition] = ()
                    turns.count += 1
            await turns.take()
        return keys

    def _groups(self) -> Iterator[tuple["CommittedOffsets", str]]:
        """Yields the groups. Groups and offsets may change between two of them."""
        for offsets in self._committed():
            for group_id in offsets.group_ids():
                yield offsets, group_id

    def _topic(self, name: str, partition: int) -> TopicSpec | None:
        found = self._cluster.topics.get(name)
        return found if found is not None and partition < len(found.partitions) else None

    async def _timestamps(self, offsets: Questions) -> dict[tuple[PartitionKey, int], int]:
        found: dict[tuple[PartitionKey, int], int] = {}
        asked: dict[PartitionKey, list[int]] = {}
        for key, each in ((key, each) for key, its in offsets.items() for each in its):
            known = self._written_ms.get((key, each), NOTHING_THERE)
            if known != NOTHING_THERE:  # there may be records by now
                found[key, each] = known
            else:
                asked.setdefault(key, []).append(each)
        for key, (_, timestamps) in (await self._ask(asked)).items():
            found.update(((key, each), at) for each, at in zip(asked[key], timestamps, strict=False))
        return found

    # requests to leaders

    async def _ask(self, questions: Questions) -> dict[PartitionKey, tuple[int, list[int]]]:
        """Returns the ends and timestamps of the partitions whose leaders respond in time."""
        found: dict[PartitionKey, tuple[int, list[int]]] = {}
        by_leader: dict[SpuId, dict[TopicId, AskedTopic]] = {}
        for (topic_id, partition), offsets in questions.items():
            spec = self._cluster.partition(topic_id, partition)
            if spec is not None:
                topics = by_leader.setdefault(spec.leader, {})
                topic = topics.setdefault(topic_id, AskedTopic(topic_id))
                topic.partitions.append(AskedPartition(partition, list(offsets)))

        async def ask_one(spu: SpuId, request: DescribePositionsRequest) -> None:
            for topic in (await self._ask_one(spu, request)).topics:
                for each in topic.partitions:
                    if each.error_code == 0:
                        found[topic.topic_id, each.partition] = each.end, each.timestamps_ms

        async with trio.open_nursery() as nursery:
            for spu, topics in by_leader.items():
                nursery.start_soon(ask_one, spu, DescribePositionsRequest(list(topics.values())))
        return found

    async def _ask_one(self, spu: SpuId, request: DescribePositionsRequest) -> DescribePositionsResponse:
        try:
            response: DescribePositionsResponse = await self._spu_requests.send(
                spu, CLIENT_ID, _API, request, RESPONSE_SECONDS_MAX
            )
        except (OSError, RemoteProtocolError):
            return DescribePositionsResponse()
        return response
