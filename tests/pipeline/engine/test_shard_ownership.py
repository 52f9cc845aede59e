"""Tests the membership of a driver, with a real SC, a real SPU and replicas on a simulated network and clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from grouped_spu import GroupedSpu, grouped_spu
from simulation.files import SimulatedFiles
from spus import ADDRESS, SC_PUBLIC
from trigger_replicas import Handled, ReplicaWorld, config, until

from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import UnreachableError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transactions.transaction_errors import ProducerFencedError
from tailrace.client.transactions.transactional_producer import TransactionalProducer
from tailrace.pipeline.engine.shard_ownership import LOST, RELEASED, OwnershipError, ShardOwnership
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams, real_seams
from tailrace.trigger.config.trigger_config import Guarantee, SeekTo
from tailrace.trigger.replica.group_offsets import Claim, FencedError
from tailrace.trigger.replica.lone_membership import LoneMembership
from tailrace.trigger.replica.replica_setup import ReplicaServers
from tailrace.trigger.replica.transactional_output import transactional_id
from tailrace.trigger.work import Output, Shard


@asynccontextmanager
async def _orders() -> AsyncIterator[tuple[GroupedSpu, ReplicaWorld]]:
    async with grouped_spu() as spu, trio.open_nursery() as nursery:
        await spu.running.create("orders", 2)
        yield spu, ReplicaWorld(nursery, spu.network, clock=spu.clock)
        nursery.cancel_scope.cancel()


def _ownership(spu: GroupedSpu, sc: tuple[Address, ...] = (SC_PUBLIC,), **changes: object) -> ShardOwnership:
    seams = Seams(spu.network, SimulatedFiles(), spu.clock, RandomChance())
    return ShardOwnership(config(**changes), ReplicaServers(sc, (ADDRESS,)), "spark", seams, structlog.get_logger())


async def test_a_driver_that_must_release_shards_before_it_has_all_of_them_gives_up(autojump_clock: object) -> None:
    """Otherwise it would wait for the shards of a deployed trigger, which waits for those of the driver."""
    async with _orders() as (spu, _):
        ownership = _ownership(spu)
        ownership.on_release({0})
        with pytest.RaisesGroup(pytest.RaisesExc(OwnershipError, match=RELEASED), flatten_subgroups=True):
            await ownership.run(trio.Event())


async def _members(spu: GroupedSpu) -> dict[str, set[int]]:
    sc = ScClient(spu.network, [SC_PUBLIC])
    state = (await sc.read_stream_state("orders", "billing")).state
    sc.close()
    return {each.member_id: set(each.shards) for each in state.members}


async def test_a_driver_owns_all_shards_until_it_leaves_and_then_a_replica_gets_them(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 5)
        ownership, stop = _ownership(spu), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ownership.run, stop)
            await until(lambda: ownership.owned is not None)
            assert ownership.owned is not None
            assert ownership.owned.positions == {0: 0, 1: 0}
            assert ownership.owned.ends == {0: 5, 1: 0}
            assert (await _members(spu)) == {"spark": {0, 1}}
            handled = Handled()
            await world.start(handled)
            await trio.sleep(30)
            assert handled.events == [], "the driver owns the shards"
            stop.set()
        assert ownership.problem == ""
        await handled.count(5)
        assert (await _members(spu)) == {"replica1": {0, 1}}


async def test_a_driver_does_not_begin_while_a_replica_is_live(autojump_clock: object) -> None:
    async with _orders() as (spu, world):
        await spu.produce("orders", 0, 5)
        handled = Handled()
        await world.start(handled)
        await handled.count(5)
        with pytest.RaisesGroup(OwnershipError, allow_unwrapped=True, flatten_subgroups=True) as caught:
            await _ownership(spu).run(trio.Event())
        assert "replica1 handles orders in the group billing already" in str(caught.value)


async def test_a_driver_that_loses_its_lease_must_end(autojump_clock: object) -> None:
    async with _orders() as (spu, _):
        ownership = _ownership(spu)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ownership.run, trio.Event())
            await until(lambda: ownership.owned is not None)
            ownership.on_lost([0, 1])
            assert ownership.problem == LOST
            nursery.cancel_scope.cancel()


async def test_the_next_driver_waits_until_the_entry_of_a_killed_one_is_stale(autojump_clock: object) -> None:
    async with _orders() as (spu, _):
        first, second = _ownership(spu), _ownership(spu)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.run, trio.Event())
            await until(lambda: first.owned is not None)
            nursery.cancel_scope.cancel()  # as kill -9 does
        began, stop = trio.current_time(), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second.run, stop)
            await until(lambda: second.owned is not None)
            stop.set()
        assert trio.current_time() - began >= 5
        assert min(second.epochs.values()) > max(first.epochs.values())


async def test_without_an_sc_a_driver_is_alone(autojump_clock: object) -> None:
    async with _orders() as (spu, _):
        ownership, stop = _ownership(spu, sc=()), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ownership.run, stop)
            await until(lambda: ownership.owned is not None)
            assert dict(ownership.epochs) == {0: 1, 1: 1}
            stop.set()


async def test_a_driver_aborts_what_tasks_of_a_killed_one_have_left_open(autojump_clock: object) -> None:
    async with _orders() as (spu, _):
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        task = TransactionalProducer(spus, transactional_id("billing", Shard("orders", 1)), spu.clock, RandomChance(1))
        await task.initialize()
        assert not await task.send([Output("orders", None, b"lost", partition=0)])
        ownership, stop = _ownership(spu, guarantee=Guarantee.EXACTLY_ONCE), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ownership.run, stop)
            await until(lambda: ownership.owned is not None)
            stop.set()
        with pytest.raises(ProducerFencedError):
            await task.commit("billing", {})
        task.close()
        spus.close()


async def test_a_driver_that_loses_its_shards_while_it_claims_them_says_so() -> None:
    class Lost(LoneMembership):
        async def raise_epoch(self, above: int) -> None:
            await trio.lowlevel.checkpoint()
            ownership.on_lost({0, 1})

    async def claim(epoch: int, seek_to: SeekTo) -> Claim:
        await trio.lowlevel.checkpoint()
        raise FencedError(Shard("orders", 0), 7)

    async def count() -> int:
        await trio.lowlevel.checkpoint()
        return 2

    async with _orders() as (spu, _):
        ownership = _ownership(spu)
        ownership.on_gained({0: 1, 1: 1})
        with pytest.raises(OwnershipError, match="lost its place in the group"):
            await ownership._claimed(0, claim, Lost(count, ownership, structlog.get_logger()))


def test_a_failure_to_join_is_raised_where_the_driver_waits() -> None:
    nobody = ReplicaServers(brokers=(Address("127.0.0.1", 1),))
    seams = real_seams(send_buffer_bytes=0, waits_awake=False)
    ownership = ShardOwnership(config(), nobody, "spark", seams, structlog.get_logger())
    ownership.start()
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        ownership.wait()
    ownership.stop()
