"""Tests visits with a real SC and a real SPU in memory."""

import trio
from clusters import ClusterOfSpus, address_of, cluster_of
from running_sc import PUBLIC
from structlog.testing import capture_logs

from tailrace.cli.health.server_visits import SC_ID, Target, Visit, name_of, targets_told, visit_all
from tailrace.runtime.network import Address


async def _visits(cluster: ClusterOfSpus, *targets: Target) -> list[Visit]:
    return await visit_all(cluster.world.network, targets, cluster.world.clock)


async def test_servers_say_who_they_are_and_what_clients_are_told(autojump_clock: trio.testing.MockClock) -> None:
    nowhere = Target(2, Address("spu-2", 9005))
    with capture_logs():
        async with cluster_of(1) as cluster:
            sc, spu, nothing = await _visits(cluster, Target(SC_ID, PUBLIC), Target(1, address_of(1)), nowhere)
            assert sc.description is not None
            assert spu.description is not None
            assert (sc.description.spu_id, spu.description.spu_id) == (SC_ID, 1)
            assert sc.description.cluster_id == spu.description.cluster_id
            assert targets_told([sc, spu]) == [Target(1, address_of(1))]
            assert nothing.description is None
            assert nothing.fault == "the SPU 2 at spu-2:9005 does not answer: connection refused. "


async def test_a_server_that_accepts_and_says_nothing_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    with capture_logs():
        async with cluster_of(1) as cluster:
            silent = await cluster.world.network.listen(Address("silent", 9005))
            (visit,) = await _visits(cluster, Target(1, silent.address))
            assert visit.fault == "nothing responds within 5 seconds"


def test_servers_have_names() -> None:
    assert (name_of(SC_ID), name_of(3)) == ("the SC", "SPU 3")
