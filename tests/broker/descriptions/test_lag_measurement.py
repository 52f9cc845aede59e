"""Tests the measurement of group lag with real partitions on two SPUs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio
from clusters import ClusterOfSpus, address_of, cluster_of
from spus import spu_requests_from
from trio.testing import MockClock

from tailrace.broker.descriptions import lag_measurement as group_lag
from tailrace.broker.descriptions.consumer_positions import describe_positions
from tailrace.broker.descriptions.lag_measurement import FRESH_SECONDS, RESPONSE_SECONDS_MAX, LagMeasurement
from tailrace.broker.groups.common.group_lag import GroupLag
from tailrace.broker.groups.offsets.committed_offsets import CommittedOffset, CommittedOffsets
from tailrace.broker.handlers.stores import describe_positions as describe_positions_handler
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.spu import Spu
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.describe_positions import DescribePositionsRequest, DescribePositionsResponse
from tailrace.runtime.network import Address

PRODUCED_MS = 1_700_000_000_000
"""The timestamp of all records of `ClusterOfSpus.produce`."""
SILENT = Address("silent", 9005)
"""A server listens at this address and never responds."""


@dataclass
class World:
    """Two SPUs and a topic of which each leads a partition. Tests set the committed offsets."""

    cluster: ClusterOfSpus
    led_here: int
    led_there: int
    committed: dict[tuple[str, str, int], CommittedOffset] = field(default_factory=dict)
    asked: int = 0

    def __post_init__(self) -> None:
        spu = self.spu
        seams = self.cluster.world
        spus = spu_requests_from(SpuId(1), spu.cluster, seams.network, spu.answer)
        self.lag = LagMeasurement(spus, self._committed, spu.cluster, seams.clock)

    @property
    def spu(self) -> Spu:
        return self.cluster.spus[1].spu

    def reach_the_other_at(self, address: Address) -> None:
        self.spu.cluster.put_spu(SpuSpec(SpuId(2), endpoints=(Endpoint("PUBLIC", address.host, address.port),)))

    def commit(self, partition: int, offset: int, group: str = "g", **more: TopicId) -> None:
        self.committed[group, "t", partition] = CommittedOffset(offset, **more)

    def _committed(self) -> list[CommittedOffsets]:
        self.asked += 1
        coordinators = [CommittedOffsets(), CommittedOffsets()]
        for place, (key, committed) in enumerate(self.committed.items()):
            coordinators[place % 2].put(*key, committed)
        return coordinators

    async def measured(self) -> set[tuple[str, int, int, int | None, float | None]]:
        """Returns group, partition, committed offset, records and seconds of each lag."""
        await trio.sleep(FRESH_SECONDS)
        return {(each.group_id, each.partition, *each[3:]) for each in await self.lag.measure()}


@asynccontextmanager
async def world_of_two() -> AsyncIterator[World]:
    async with cluster_of(1, 2) as cluster:
        await cluster.create(1, "t", 2, 1)
        leaders = {leader: partition for partition, (leader, _) in (await cluster.leaders(1, "t")).items()}
        assert sorted(leaders) == [1, 2]
        for leader, partition in leaders.items():
            for _ in range(3):
                assert await cluster.produce(leader, "t", partition, b"x") == 0
        cluster.world.clock.time_ms = PRODUCED_MS + 2500
        world = World(cluster, leaders[1], leaders[2])
        world.reach_the_other_at(address_of(2))
        yield world


async def test_no_leader_is_asked_if_nothing_is_committed(autojump_clock: MockClock) -> None:
    async with world_of_two() as world:
        await world.cluster.kill_spu(2)
        began = trio.current_time()
        assert await world.lag.measure() == []
        assert trio.current_time() == began


async def test_a_lag_is_measured_wherever_the_partition_is_led(autojump_clock: MockClock) -> None:
    async with world_of_two() as world:
        world.commit(world.led_here, 1)
        world.commit(world.led_there, 0)
        world.commit(world.led_there, 3, group="done")
        assert await world.measured() == {
            ("g", world.led_here, 1, 2, 2.5),
            ("g", world.led_there, 0, 3, 2.5),
            ("done", world.led_there, 3, 0, 0.0),
        }


async def test_a_silent_leader_leaves_gaps_and_does_not_delay_for_long(autojump_clock: MockClock) -> None:
    async with world_of_two() as world:
        world.commit(world.led_here, 1)
        world.commit(world.led_there, 0)
        await world.cluster.world.network.listen(SILENT)
        for address, seconds in ((SILENT, RESPONSE_SECONDS_MAX), (Address("nobody", 9005), 0)):
            world.reach_the_other_at(address)
            began = trio.current_time() + FRESH_SECONDS
            assert await world.measured() == {
                ("g", world.led_here, 1, 2, 2.5),
                ("g", world.led_there, 0, None, None),
            }
            assert trio.current_time() - began == seconds


async def test_what_is_fresh_is_not_measured_again(autojump_clock: MockClock) -> None:
    async with world_of_two() as world:
        world.commit(world.led_here, 1)
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(world.lag.measure)
        once = world.asked
        await world.measured()
        assert world.asked == 2 * once


async def test_an_age_is_looked_up_once_for_as_long_as_a_group_stands_there(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def noted(replicas: ReplicaRegistry, request: DescribePositionsRequest) -> DescribePositionsResponse:
        asked.extend(offset for topic in request.topics for each in topic.partitions for offset in each.offsets)
        return await describe_positions(replicas, request)

    monkeypatch.setattr(describe_positions_handler, "describe_positions", noted)
    async with world_of_two() as world:
        for offset in (1, 1, 2, 1):
            world.commit(world.led_here, offset)
            assert await world.measured() == {("g", world.led_here, offset, 3 - offset, 2.5)}
        assert asked == [1, 2, 1]


async def test_what_was_committed_of_another_topic_of_that_name_counts_no_more(autojump_clock: MockClock) -> None:
    async with world_of_two() as world:
        world.commit(world.led_here, 1, topic_id=TopicId(int=99))
        world.committed["g", "gone", 0] = CommittedOffset(0)
        world.committed["g", "t", 7] = CommittedOffset(0)
        assert await world.measured() == set()
        world.commit(world.led_here, 1, topic_id=world.spu.cluster.topics["t"].id)
        assert len(await world.measured()) == 1


async def test_of_too_many_lags_the_largest_are_reported(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_lag, "LAGS_MAX", 2)
    async with world_of_two() as world:
        for offset in range(4):
            world.commit(world.led_here, offset, group=f"at-{offset}")
        await trio.sleep(FRESH_SECONDS)
        assert await world.lag.measure() == [
            GroupLag("at-0", "t", world.led_here, 0, 3, 2.5),
            GroupLag("at-1", "t", world.led_here, 1, 2, 2.5),
        ]
