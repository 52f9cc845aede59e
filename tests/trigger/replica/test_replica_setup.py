"""Tests how a replica is put together; `test_trigger_replica.py` tests what it does then."""

import pytest
import structlog
import trio
from grouped_spu import grouped_spu
from spus import ADDRESS, SC_PUBLIC
from structlog.testing import capture_logs
from trigger_replicas import Handled, ReplicaWorld, config, until

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.runtime.network import Address
from tailrace.trigger.replica.replica_setup import ReplicaServers, check_topic

LOGGER = structlog.get_logger()


@pytest.mark.parametrize("servers", [ReplicaServers([SC_PUBLIC]), ReplicaServers(brokers=[ADDRESS])])
async def test_a_start_by_hand_looks_for_the_topic(autojump_clock: object, servers: ReplicaServers) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 3)
        assert await check_topic(servers, spu.network, config(), LOGGER) == 3
        with pytest.raises(RefusedError, match="nope"):
            await check_topic(servers, spu.network, config(topic="nope"), LOGGER)
        with capture_logs() as logged:
            assert await check_topic(servers, spu.network, config(access_key="key"), LOGGER) == 3
        assert "access_key_not_needed" in [each["event"] for each in logged]


async def test_a_start_by_hand_fails_without_a_server(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        with pytest.raises(UnreachableError, match="the SC at nowhere:1 does not answer"):
            await check_topic(ReplicaServers([Address("nowhere", 1)]), spu.network, config(), LOGGER)


async def test_a_replica_without_an_sc_has_all_shards(autojump_clock: object) -> None:
    async with grouped_spu() as spu, trio.open_nursery() as nursery:
        await spu.running.create("orders", 3)
        for shard in range(3):
            await spu.produce("orders", shard, 2)
        world = ReplicaWorld(nursery, spu.network, sc=(), clock=spu.clock)
        handled = Handled()
        replica = await world.start(handled)
        await until(lambda: replica.marks == {0: 2, 1: 2, 2: 2})
        await replica.stop()
        # A later replica continues, and its claims have a higher epoch.
        replica = await world.start(handled)
        await spu.produce("orders", 1, 1)
        await until(lambda: replica.marks == {0: 2, 1: 3, 2: 2})
        await replica.stop()
        assert len(handled.events) == 7
