import pytest
import trio
from logs import log_at
from simulation.files import SimulatedFiles
from spus import batch

from tailrace.broker.descriptions import local_segments as segment_descriptions
from tailrace.broker.descriptions.local_segments import describe_segments
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal.describe_replica_segments import (
    DescribeReplicaSegmentsRequest,
    DescribeReplicaSegmentsResponse,
    OffsetRange,
)

HERE, THERE = SpuId(1), SpuId(2)
TOPIC = TopicId(int=7)
SPEC = PartitionSpec(TOPIC, "t", 0, HERE, Epoch(0), (HERE, THERE), (HERE, THERE))


class Holder:
    """One SPU with one replica."""

    def __init__(self) -> None:
        settings = settings_of({}, BrokerConfigs({}))
        self.log = log_at(SimulatedFiles(), f"/data/topics/t/{TOPIC}/0", settings.log, clean=True)
        self.replica = Replica(HERE, SPEC, self.log, settings, 0)
        self.replicas = ReplicaRegistry(HERE, Cluster())
        self.replicas.add(self.replica)

    def append(self, epoch: int, *values: bytes) -> None:
        data = bytearray(batch(*values))
        stamp(data, 0, self.log.log_end, epoch)
        self.log.append(data, read_header(data))

    def append_bridge(self, epoch: int) -> None:
        data = bridge(self.log.log_end, epoch)
        self.log.append(data, read_header(data))

    async def describe(
        self, *ranges: tuple[int, int], before: int = -1, segments_max: int = 100
    ) -> DescribeReplicaSegmentsResponse:
        asked = [OffsetRange(*each) for each in ranges]
        request = DescribeReplicaSegmentsRequest(TOPIC, 0, before, segments_max, asked)
        return await describe_segments(self.replicas, request)

    async def content(self, base: int, end: int) -> int | None:
        contents = (await self.describe((base, end))).contents
        return contents[0].checksum if contents else None


async def _recovered() -> Holder:
    """The leader of epoch 0 was lost, epoch 1 wrote a bridge, and epoch 2 had nothing to recover."""
    holder = Holder()
    holder.append(0, b"a", b"b")
    await holder.log.restamp(0, 2, 1)
    holder.append_bridge(1)
    holder.append(1, b"c")
    holder.append(2, b"d")
    return holder


async def test_segments_with_their_epochs_and_what_ended_them() -> None:
    holder = await _recovered()
    holder.replica.high_watermark = 3
    described = await holder.describe()
    assert (described.log_start, described.log_end, described.high_watermark) == (0, 5, 3)
    assert (described.error_message, described.older_count) == (None, 0)
    assert [
        (each.base, each.end, each.first_epoch, each.last_epoch, each.state, each.sealed_by)
        for each in described.segments
    ] == [
        (0, 3, 0, 1, "sealed", "bridge"),
        (3, 4, 1, 1, "sealing", "new epoch"),
        (4, 5, 2, 2, "open", ""),
    ]
    facts = holder.log.segments()
    assert [(each.size_bytes, each.checksum) for each in described.segments] == [
        (each.size, each.checksum) for each in facts
    ]


async def test_what_a_new_leader_has_not_committed_is_recovering_also_before_anything_follows() -> None:
    holder = Holder()
    holder.append(0, b"a")
    holder.append_bridge(1)
    holder.replica.begin_leading()
    assert [each.state for each in (await holder.describe()).segments] == ["recovering", "recovering"]
    holder.replica.on_committed(1, Epoch(1))
    assert [each.state for each in (await holder.describe()).segments] == ["sealed", "recovering"]
    holder.replica.on_committed(2, Epoch(1))
    holder.replica.is_recovering = False
    assert [each.state for each in (await holder.describe()).segments] == ["sealed", "sealed"]


async def test_no_more_than_asked_for_and_the_last_ones_first(monkeypatch: pytest.MonkeyPatch) -> None:
    holder = Holder()
    for epoch in range(5):
        holder.append(epoch, b"a")

    async def shown(before: int = -1, segments_max: int = 100) -> tuple[list[int], int]:
        described = await holder.describe(before=before, segments_max=segments_max)
        return [each.base for each in described.segments], described.older_count

    assert await shown(segments_max=2) == ([3, 4], 3)
    assert await shown(before=3, segments_max=2) == ([1, 2], 1)
    assert await shown(before=0) == ([], 0)
    assert await shown(segments_max=-1) == ([], 5)
    monkeypatch.setattr(segment_descriptions, "SEGMENTS_MAX", 4)
    assert await shown() == ([1, 2, 3, 4], 1)


async def test_the_content_does_not_depend_on_stamped_epochs_and_segment_ends() -> None:
    recovered = await _recovered()
    other = Holder()
    other.append(0, b"a", b"b")
    other.append_bridge(1)
    other.append(1, b"c")
    assert [each.end for each in other.log.segments()] == [2, 3, 4]
    assert await recovered.content(0, 4) == await other.content(0, 4) is not None
    assert await recovered.content(2, 4) != await recovered.content(0, 4), "not the same batches"


async def test_other_records_are_another_content() -> None:
    one, other = Holder(), Holder()
    for holder, last in ((one, b"x"), (other, b"y")):
        holder.append(0, b"a")
        holder.append(0, last)
    assert await one.content(0, 1) == await other.content(0, 1)
    assert await one.content(0, 2) != await other.content(0, 2)


async def test_a_range_may_end_in_a_gap_that_compaction_left() -> None:
    holder = Holder()
    holder.append(0, b"a")
    data = bytearray(batch(b"b"))
    stamp(data, 0, 5, 0)
    holder.log.append(data, read_header(data))
    assert await holder.content(0, 4) == await holder.content(0, 1) is not None
    assert await holder.content(1, 4) is not None
    assert await holder.content(0, 6) != await holder.content(0, 4)


async def test_what_does_not_lie_in_the_log_as_a_whole_has_no_content() -> None:
    holder = await _recovered()
    assert [await holder.content(*each) for each in ((0, 6), (5, 5), (4, 2))] == [None] * 3
    await holder.log.advance_log_start(2)
    assert await holder.content(0, 4) is None
    assert await holder.content(2, 4) is not None


async def test_others_have_their_turn_and_no_more_than_so_many_batches_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holder = Holder()
    for _ in range(10):
        holder.append(0, b"a")
    whole = await holder.content(0, 10)
    monkeypatch.setattr(segment_descriptions, "_BATCHES_AT_ONCE", 3)
    assert await holder.content(0, 10) == whole
    await holder.log.sync()  # records are then deleted at once
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def deletes() -> None:
            await holder.log.advance_log_start(5)

        assert await holder.content(0, 10) is None
    monkeypatch.setattr(segment_descriptions, "BATCHES_MAX", 4)
    described = await holder.describe((5, 8), (8, 10))
    assert [(each.base, each.end) for each in described.contents] == [(5, 8)]


async def test_what_is_not_here_or_cannot_be_read_says_why() -> None:
    holder = Holder()
    holder.append(0, b"a")
    absent = DescribeReplicaSegmentsRequest(TOPIC, 9)
    assert (await describe_segments(holder.replicas, absent)).error_message == "this SPU does not have the replica"
    holder.replicas.remove(SPEC)
    holder.replicas.add_damaged(SPEC, "bits have flipped")
    assert (await holder.describe()).error_message == "bits have flipped"
    holder.replicas.add(holder.replica)
    await holder.log.close()
    assert "the log was closed" in ((await holder.describe((0, 1))).error_message or "")
