"""Tests that an isolated leader refuses its clients as soon as others may lead, and not while it reaches one side."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from clusters import ClusterOfSpus, cluster_of
from simulation.client import WireClient
from structlog.testing import capture_logs

from tailrace.broker.controller_link.isolation import CHECK_SECONDS, WITHOUT_LEASE_SECONDS_MAX
from tailrace.protocol.error_codes import ErrorCode

LEASE_SECONDS = 1.5
FOUND_OUT_SECONDS = LEASE_SECONDS + WITHOUT_LEASE_SECONDS_MAX + 2 * CHECK_SECONDS


@asynccontextmanager
async def led_by_one(**configs: str) -> AsyncIterator[tuple[ClusterOfSpus, int]]:
    """Yields three SPUs that each have a record, and the leader of the topic."""
    async with cluster_of(1, 2, 3) as cluster:
        await cluster.create(1, "t", 1, 3, **configs)
        await trio.sleep(1)
        leader, _ = (await cluster.leaders(1, "t"))[0]
        assert await cluster.produce(leader, "t", 0, b"a") == ErrorCode.NONE
        yield cluster, leader


async def kill_followers(cluster: ClusterOfSpus, leader: int) -> None:
    for spu in {1, 2, 3} - {leader}:
        await cluster.kill_spu(spu)


async def test_an_isolated_leader_refuses_until_it_reaches_the_controller(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with led_by_one() as (cluster, leader):
        with capture_logs() as logs:
            await cluster.kill_sc()
            await kill_followers(cluster, leader)
            await trio.sleep(FOUND_OUT_SECONDS)
            for acks in (1, -1):
                assert await cluster.produce(leader, "t", 0, b"b", acks=acks) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await trio.sleep(5)
        assert (await cluster.fetched(leader, "t", 0)).records
        assert (await cluster.fetched(leader, "t", 0, 1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [each["event"] for each in logs].count("partitions_cut_off") == 1
        await cluster.start_sc()
        await trio.sleep(10)
        assert (await cluster.fetched(leader, "t", 0, 1)).error_code == ErrorCode.NONE
        assert await cluster.produce(leader, "t", 0, b"b") == ErrorCode.NONE


async def test_followers_are_enough(autojump_clock: trio.testing.MockClock) -> None:
    async with led_by_one() as (cluster, leader):
        await cluster.kill_sc()
        await trio.sleep(60)
        assert await cluster.produce(leader, "t", 0, b"b") == ErrorCode.NONE
        assert (await cluster.fetched(leader, "t", 0, 2)).error_code == ErrorCode.NONE


async def test_as_many_followers_as_commit_are_enough(autojump_clock: trio.testing.MockClock) -> None:
    async with led_by_one(replication_policy="majority") as (cluster, leader):
        await cluster.kill_sc()
        await cluster.kill_spu(min({1, 2, 3} - {leader}))
        await trio.sleep(60)
        assert await cluster.produce(leader, "t", 0, b"b") == ErrorCode.NONE


async def test_a_controller_is_enough(autojump_clock: trio.testing.MockClock) -> None:
    async with led_by_one(min_insync_replicas="2") as (cluster, leader):
        await kill_followers(cluster, leader)
        await trio.sleep(60)
        assert await cluster.produce(leader, "t", 0, b"b") == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await cluster.fetched(leader, "t", 0, 1)).error_code == ErrorCode.NONE


async def test_a_single_replica_is_never_isolated(autojump_clock: trio.testing.MockClock) -> None:
    async with cluster_of(1) as cluster:
        await cluster.create(1, "t", 1, 1)
        await cluster.kill_sc()
        await trio.sleep(60)
        assert await cluster.produce(1, "t", 0, b"b") == ErrorCode.NONE
        assert (await cluster.fetched(1, "t", 0, 1)).error_code == ErrorCode.NONE


async def test_a_follower_needs_its_leader_or_a_controller(autojump_clock: trio.testing.MockClock) -> None:
    async with led_by_one() as (cluster, leader):
        follower = min({1, 2, 3} - {leader})
        await cluster.kill_sc()
        await trio.sleep(60)
        assert (await cluster.fetched(follower, "t", 0, 1)).error_code == ErrorCode.NONE
        await cluster.kill_spu(leader)
        await trio.sleep(CHECK_SECONDS)
        assert (await cluster.fetched(follower, "t", 0)).records
        assert (await cluster.fetched(follower, "t", 0, 1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def refused(cluster: ClusterOfSpus, leader: int, client: WireClient, what: str) -> None:
    if what == "a record":
        code = await cluster.produce(leader, "t", 0, b"b", timeout_ms=60_000, client=client)
    else:
        code = (await cluster.fetched(leader, "t", 0, 1, wait_ms=60_000, client=client)).error_code
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("what", ["a record", "a fetch"])
async def test_waiting_requests_are_refused(autojump_clock: trio.testing.MockClock, what: str) -> None:
    async with led_by_one() as (cluster, leader):
        await cluster.kill_sc()
        await kill_followers(cluster, leader)
        started = trio.current_time()
        await refused(cluster, leader, await cluster.client_of(leader), what)
        assert trio.current_time() - started < FOUND_OUT_SECONDS


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("what", ["a record", "a fetch"])
async def test_a_refused_client_is_disconnected(autojump_clock: trio.testing.MockClock, what: str, waits: bool) -> None:
    """A client without another connection would learn forever from this SPU that it leads."""
    async with led_by_one() as (cluster, leader):
        await cluster.kill_sc()
        await kill_followers(cluster, leader)
        if not waits:
            await trio.sleep(FOUND_OUT_SECONDS)
        client = await cluster.client_of(leader)
        await refused(cluster, leader, client, what)
        with trio.fail_after(1):
            assert await client.at_end()
