import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
import trio.testing
from scripted_spu import ScriptedSpu
from simulation.network import MemoryListener, MemoryNetwork

from tailrace.cluster.cluster import Cluster
from tailrace.controller.connections.connection_manager import ConnectionManager
from tailrace.controller.connections.private_server import PrivateServer
from tailrace.controller.objects.objects import Spu, SpuSpec
from tailrace.controller.sc_metrics import ScMetrics
from tailrace.controller.state.actions import AddSpu
from tailrace.controller.state.events import Event
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.forward import ForwardRequest, ForwardResponse
from tailrace.runtime.network import Address

ADDRESS = Address("sc", 9004)


async def _ignore(_: Event) -> None:
    await trio.lowlevel.checkpoint()


async def _no_ids() -> range:
    raise NotImplementedError


async def _no_forwarding(_: ForwardRequest) -> ForwardResponse:
    raise NotImplementedError


@asynccontextmanager
async def _serving(network: MemoryNetwork) -> AsyncIterator[tuple[MemoryListener, trio.Nursery]]:
    manager = ConnectionManager(
        LocalStore(),
        Cluster(),
        network,
        events=_ignore,
        allocate_producer_ids=_no_ids,
        forward=_no_forwarding,
        metrics=ScMetrics({}),
        logger=structlog.get_logger(),
        unreadable={},
        lease_seconds=1.5,
    )
    for number in range(4):
        manager.apply(AddSpu(Spu(SpuSpec(SpuId(number)))))
    listener = await network.listen(ADDRESS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(PrivateServer(manager, structlog.get_logger()).serve, listener)
        yield listener, nursery
        nursery.cancel_scope.cancel()


async def test_no_more_connect_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.controller.connections.private_server.CONNECTIONS_MAX", 2)
    network = MemoryNetwork()
    with structlog.testing.capture_logs() as logged:
        async with _serving(network) as (_, nursery):
            spus = [ScriptedSpu(number) for number in range(4)]
            for spu in spus[:3]:
                await spu.connect(network, ADDRESS, nursery)
                await trio.testing.wait_all_tasks_blocked()
            assert [spu.link.closed_because is None for spu in spus[:3]] == [True, True, False]
            assert [entry["reason"] for entry in logged if entry["event"] == "connection_refused"] == [
                "2 connections are open"
            ]
            spus[0].link.close()
            await trio.testing.wait_all_tasks_blocked()
            await spus[3].connect(network, ADDRESS, nursery)
            assert (await spus[3].register()).error_code == 0


async def test_the_server_survives_a_failed_accept(
    autojump_clock: trio.testing.MockClock,
) -> None:
    network = MemoryNetwork()
    with structlog.testing.capture_logs() as logged:
        async with _serving(network) as (listener, nursery):
            listener.accept_errors.append(OSError(errno.EMFILE, "too many open files"))
            for number in (1, 2):
                spu = ScriptedSpu(number)
                await spu.connect(network, ADDRESS, nursery)
                assert (await spu.register()).error_code == 0
    assert [entry["event"] for entry in logged if entry["log_level"] == "error"] == ["accept_failed"]
