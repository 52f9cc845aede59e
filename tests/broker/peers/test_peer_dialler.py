from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from peers import cluster_of, identity, private_address, put_spu
from simulation.network import MemoryConnection, MemoryNetwork
from structlog.testing import capture_logs

from tailrace.broker.peers.peer_dialler import UNUSED_SECONDS_MAX, PeerDialler
from tailrace.broker.peers.peer_handshake import RefusedError, accept_introduction
from tailrace.broker.peers.peer_messages import PeerIdentity
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.ids import SpuId
from tailrace.runtime.backoff import PAUSE_SECONDS_MAX
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address, Connection

LEADER = SpuId(1)


class _World:
    """SPU 2 dials; a listener for SPU 1 admits it, if its cluster says so."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.cluster = cluster_of(1, 2)
        self.lasts_seconds = float("inf")
        self.used: list[PeerIdentity] = []
        self.in_use = 0
        self.dialled: list[float] = []
        self.connections: list[MemoryConnection] = []
        self.connect_seconds = 0.0
        self.dialler = PeerDialler(identity(2), self.cluster, self, RandomChance(1), self._use, structlog.get_logger())

    async def connect(self, address: Address) -> MemoryConnection:
        self.dialled.append(trio.current_time())
        await trio.sleep(self.connect_seconds)
        self.connections.append(await self.network.connect(address))
        return self.connections[-1]

    async def listen(self, address: Address) -> object:
        raise AssertionError("it only dials")

    async def _use(self, connection: Connection, peer: PeerIdentity) -> None:
        self.used.append(peer)
        self.in_use += 1
        try:
            await trio.sleep(self.lasts_seconds)
        finally:
            self.in_use -= 1
            connection.close()

    async def answer_within(self, scope: trio.CancelScope) -> None:
        with scope:
            await self.answer()

    async def answer(self, spu: int = 1, cluster: Cluster | None = None) -> None:
        listener = await self.network.listen(private_address(1))
        try:
            while True:
                connection = await listener.accept()
                try:
                    await accept_introduction(connection, identity(spu), cluster or self.cluster)
                except RefusedError:
                    connection.close()
        finally:
            listener.close()


@asynccontextmanager
async def _world() -> AsyncIterator[tuple[_World, trio.Nursery]]:
    world = _World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.dialler.run)
        yield world, nursery
        nursery.cancel_scope.cancel()


async def test_one_connection_serves_all_replicas_and_ends_with_the_last(autojump_clock: object) -> None:
    async with _world() as (world, nursery):
        nursery.start_soon(world.answer)
        world.dialler.follow(LEADER)
        world.dialler.follow(LEADER)
        await trio.sleep(10)
        assert (world.used, world.in_use) == ([identity(1)], 1)
        world.dialler.unfollow(LEADER)
        await trio.sleep(10)
        assert world.in_use == 1
        world.dialler.unfollow(LEADER)
        await trio.sleep(10)
        assert (len(world.used), world.in_use) == (1, 0)
        world.dialler.follow(LEADER)
        await trio.sleep(10)
        assert (len(world.used), world.in_use) == (2, 1)


@pytest.mark.parametrize(("pause_seconds", "connections"), [(0, 1), (0.9, 1), (1.1, 2)])
async def test_a_connection_is_kept_for_a_replica_that_follows_again_soon(
    autojump_clock: object, pause_seconds: float, connections: int
) -> None:
    """This happens with a new epoch of the same leader."""
    async with _world() as (world, nursery):
        nursery.start_soon(world.answer)
        world.dialler.follow(LEADER)
        await trio.sleep(10)
        world.dialler.unfollow(LEADER)
        assert world.dialler.followed() == {}
        if pause_seconds:
            await trio.sleep(pause_seconds)
        world.dialler.follow(LEADER)
        await trio.sleep(10)
        assert (len(world.used), world.in_use) == (connections, 1)
        for _ in range(2):
            world.dialler.unfollow(LEADER)
            await trio.sleep(0.6)
            world.dialler.follow(LEADER)
        world.dialler.unfollow(LEADER)
        await trio.sleep(0.6)
        assert (len(world.used), world.in_use) == (connections, 1)
        await trio.sleep(0.6)
        assert (len(world.used), world.in_use) == (connections, 0)


async def test_an_spu_followed_before_the_dialler_runs_is_dialled_then(autojump_clock: object) -> None:
    world = _World()
    world.dialler.follow(LEADER)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.answer)
        nursery.start_soon(world.dialler.run)
        await trio.sleep(10)
        assert world.in_use == 1
        nursery.cancel_scope.cancel()


async def test_an_unreachable_spu_is_retried_after_pauses_and_logged_once(autojump_clock: object) -> None:
    async with _world() as (world, nursery):
        with capture_logs() as logged:
            world.dialler.follow(LEADER)
            await trio.sleep(60)
        (event,) = logged
        assert (event["event"], event["spu"]) == ("peer_unreachable", 1)
        assert "cannot connect to spu-1:9006" in event["reason"]
        pauses = [later - earlier for earlier, later in zip(world.dialled, world.dialled[1:], strict=False)]
        assert pauses[0] < PAUSE_SECONDS_MAX / 10
        assert PAUSE_SECONDS_MAX / 2 <= min(pauses[10:]) < max(pauses[10:]) <= PAUSE_SECONDS_MAX
        nursery.start_soon(world.answer)
        await trio.sleep(PAUSE_SECONDS_MAX)
        assert world.in_use == 1


async def test_links_that_end_at_once_are_not_made_in_haste(autojump_clock: object) -> None:
    async with _world() as (world, nursery):
        nursery.start_soon(world.answer)
        world.lasts_seconds = 0
        world.dialler.follow(LEADER)
        await trio.sleep(60)
        assert len(world.used) < 60 / (PAUSE_SECONDS_MAX / 2) + 10


async def test_a_link_that_has_lasted_is_made_again_at_once(autojump_clock: object) -> None:
    async with _world() as (world, nursery):
        nursery.start_soon(world.answer)
        world.lasts_seconds = 20
        world.dialler.follow(LEADER)
        await trio.sleep(25)
        assert world.dialled == pytest.approx([world.dialled[0], world.dialled[0] + 20])


async def test_after_a_link_a_reason_is_logged_again(autojump_clock: object) -> None:
    async with _world() as (world, nursery):
        with capture_logs() as logged:
            world.dialler.follow(LEADER)
            await trio.sleep(10)
            answering = trio.CancelScope()
            nursery.start_soon(world.answer_within, answering)
            world.lasts_seconds = 20
            await trio.sleep(10)
            answering.cancel()
            await trio.sleep(60)
        assert len(world.used) == 1
        assert [event["event"] for event in logged] == ["peer_unreachable"] * 2


async def test_a_network_that_drops_everything_times_out(autojump_clock: object) -> None:
    async with _world() as (world, _):
        world.connect_seconds = 1000
        with capture_logs() as logged:
            world.dialler.follow(LEADER)
            await trio.sleep(20)
        assert [event["reason"] for event in logged] == ["spu-1:9006 does not answer"]
        assert len(world.dialled) > 2


async def test_a_refusal_is_logged_once_until_it_changes(autojump_clock: object) -> None:
    strict = cluster_of(1, 3)
    async with _world() as (world, nursery):
        nursery.start_soon(world.answer, 1, strict)
        with capture_logs() as logged:
            world.dialler.follow(LEADER)
            await trio.sleep(20)
            strict.identify("another", LEADER)
            await trio.sleep(20)
        assert [event["event"] for event in logged] == ["peer_refused"] * 2
        assert logged[0]["reason"] == "SPU 2 is not known to SPU 1"
        assert all(connection.closed for connection in world.connections)
        strict.identify("the-cluster", LEADER)
        put_spu(strict, 2, None)
        await trio.sleep(PAUSE_SECONDS_MAX)
        assert world.in_use == 1


async def test_an_address_may_be_unknown_and_may_change(autojump_clock: object) -> None:
    async with _world() as (world, nursery):
        put_spu(world.cluster, 1, None)
        with capture_logs() as logged:
            world.dialler.follow(LEADER)
            await trio.sleep(20)
        assert [event["reason"] for event in logged] == ["the address of its private port is not known"]
        nursery.start_soon(world.answer)
        put_spu(world.cluster, 1, private_address(1))
        await trio.sleep(PAUSE_SECONDS_MAX)
        assert world.in_use == 1


async def test_a_missing_address_is_not_logged_before_metadata_has_arrived(autojump_clock: object) -> None:
    async with _world() as (world, nursery):
        for spu in list(world.cluster.spus):
            world.cluster.remove_spu(spu)
        nursery.start_soon(world.answer)
        with capture_logs() as logged:
            world.dialler.follow(LEADER)
            await trio.sleep(20)
            put_spu(world.cluster, 1, private_address(1))
            put_spu(world.cluster, 2, None)
            await trio.sleep(PAUSE_SECONDS_MAX)
        assert logged == []
        assert world.in_use == 1


async def test_a_silent_listener_times_out(autojump_clock: object) -> None:
    async with _world() as (world, _):
        await world.network.listen(private_address(1))
        with capture_logs() as logged:
            world.dialler.follow(LEADER)
            await trio.sleep(20)
        assert [event["reason"] for event in logged] == ["spu-1:9006 did not introduce itself in time"]
        assert len(world.dialled) > 2


async def test_unfollowing_while_dialling_ends_it(autojump_clock: object) -> None:
    async with _world() as (world, _):
        world.dialler.follow(LEADER)
        await trio.sleep(10)
        world.dialler.unfollow(LEADER)
        await trio.sleep(UNUSED_SECONDS_MAX)
        count = len(world.dialled)
        await trio.sleep(10)
        assert len(world.dialled) == count
