from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio.testing
from msgspec.structs import replace
from running_workflow import RunningWorkflow, put, registered, running_workflow

from tailrace.cluster.specs import Shelf
from tailrace.cluster.topic_planning import NewTopic
from tailrace.controller.inspection.segment_descriptions import RESPONSE_SECONDS_MAX, SegmentDescriptions
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.describe_replica_segments import (
    DescribeReplicaSegmentsResponse,
    RangeContent,
    ReplicaSegment,
)
from tailrace.protocol.internal.describe_segments import SegmentedPartition

SEALED = ReplicaSegment(0, 5, 0, 1, 500, 0xAB, "sealed", "bridge")
OPEN = ReplicaSegment(5, 8, 1, 1, 300, 0xCD, "open")
WHOLE = DescribeReplicaSegmentsResponse(
    log_start=0, log_end=8, high_watermark=7, segments=[SEALED, OPEN], contents=[RangeContent(0, 5, 77)]
)
RESTAMPED = replace(WHOLE, log_end=7, segments=[replace(SEALED, checksum=1), replace(OPEN, end=7)])


@asynccontextmanager
async def _running(partitions: int = 1) -> AsyncIterator[RunningWorkflow]:
    store = MemoryStore()
    await put(store, *registered(1, 2, 3))
    async with running_workflow(store) as running:
        await running.connect(1, 2, 3)
        await running.administration.create_topics([NewTopic("orders", partitions, 3)])
        yield running


def _descriptions(running: RunningWorkflow) -> SegmentDescriptions:
    return SegmentDescriptions(running.workflow.local, running.spus.ask_spu)


def _copies(described: SegmentedPartition) -> list[list[tuple[int, str]]]:
    """Returns the copies of each segment."""
    return [sorted((copy.spu_id, copy.comparison) for copy in each.copies) for each in described.segments]


async def _one(running: RunningWorkflow, number: int | None = None) -> SegmentedPartition:
    (described,) = await _descriptions(running).describe("orders", number, -1)
    return described


async def test_the_leaders_segments_with_all_their_copies() -> None:
    async with _running() as running:
        running.spus.segments |= {1: WHOLE, 2: RESTAMPED, 3: WHOLE}
        described = await _one(running)
        assert (described.leader, described.told_by, described.older_count) == (1, 1, 0)
        assert (described.log_start, described.log_end, described.high_watermark) == (0, 8, 7)
        assert _copies(described) == [
            [(1, "same"), (2, "same records"), (3, "same")],
            [(1, "same"), (2, "shorter"), (3, "same")],
        ]
        shown = [(each.base, each.end, each.last_epoch, each.state, each.sealed_by) for each in described.segments]
        assert shown == [(0, 5, 1, "sealed", "bridge"), (5, 8, 1, "open", "")]
        asked = [(spu, len(request.ranges)) for spu, request in running.spus.asked_for_segments]
        assert sorted(asked) == [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0)], "contents only of those that differ"


async def test_without_its_leader_the_one_with_most_is_shown(autojump_clock: trio.testing.MockClock) -> None:
    async with _running() as running:
        running.spus.segments |= {2: RESTAMPED, 3: WHOLE}
        running.spus.silent = {1}
        started = trio.current_time()
        described = await _one(running)
        assert trio.current_time() - started == pytest.approx(RESPONSE_SECONDS_MAX)
        assert (described.leader, described.told_by) == (1, 3)
        assert {each.spu_id: each.error_message for each in described.holders} == {
            1: "SPU 1 did not respond within 5 s",
            2: None,
            3: None,
        }
        assert _copies(described)[0] == [(1, "not compared"), (2, "same records"), (3, "same")]


async def test_an_offline_spu_is_described_as_offline(autojump_clock: trio.testing.MockClock) -> None:
    async with _running() as running:
        await running.lose(2)
        running.spus.connected.clear()
        described = await _one(running)
        assert (described.told_by, described.segments) == (-1, [])
        assert {each.spu_id: each.error_message for each in described.holders} == {
            1: "SPU 1 is not connected",
            2: "SPU 2 is not online",
            3: "SPU 3 is not connected",
        }


async def test_all_partitions_or_one_and_of_many_fewer_segments_each(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _running(partitions=3) as running:
        running.spus.segments |= {1: WHOLE, 2: WHOLE, 3: WHOLE}
        assert [each.partition for each in await _descriptions(running).describe("orders", None, -1)] == [0, 1, 2]
        assert (await _one(running, 2)).partition == 2
        assert {request.segments_max for _, request in running.spus.asked_for_segments} == {500}
        monkeypatch.setattr("tailrace.controller.inspection.segment_descriptions.SEGMENTS_OF_ALL_MAX", 30)
        running.spus.asked_for_segments.clear()
        await _descriptions(running).describe("orders", None, 6)
        assert {(request.segments_max, request.before) for _, request in running.spus.asked_for_segments} == {(10, 6)}


async def test_unknown_topics_and_partitions() -> None:
    async with _running() as running:
        with pytest.raises(KafkaError, match="there is no topic other"):
            await _descriptions(running).describe("other", None, -1)
        with pytest.raises(KafkaError, match="there is no partition orders/1"):
            await _descriptions(running).describe("orders", 1, -1)


ON_SHELVES = (Shelf(0, 10, (SpuId(1),)), Shelf(10, 20, (SpuId(2),), (SpuId(3),)), Shelf(20, 20, (SpuId(1),)))


async def test_shelves_are_described_without_asking_spus(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _running() as running:
        await running.shelve(*ON_SHELVES)
        described = await _one(running)
        shown = [(each.base, each.end, each.stores, each.filling) for each in described.shelves]
        assert shown == [(0, 10, [1], []), (10, 20, [2], [3])], "also where nobody says anything"
        (described,) = await _descriptions(running).describe("orders", None, 10)
        assert [each.base for each in described.shelves] == [0]
        monkeypatch.setattr("tailrace.controller.inspection.segment_descriptions.SEGMENTS_MAX", 1)
        described = await _one(running)
        assert ([each.base for each in described.shelves], described.older_shelves) == ([10], 1)
