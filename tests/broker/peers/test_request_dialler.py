import pytest
import trio
from peers import cluster_of, identity, private_address
from simulation.network import MemoryNetwork

from tailrace.broker.peers.peer_handshake import Introduced, accept_introduction
from tailrace.broker.peers.request_dialler import RequestDialler
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.ids import SpuId


async def _dial(other: int = 1, theirs: Cluster | None = None) -> list[Introduced]:
    """Dials SPU 1, where the SPU `other` answers; returns what that one learned."""
    network, cluster = MemoryNetwork(), cluster_of(1, 2)
    listener = await network.listen(private_address(1))
    introduced: list[Introduced] = []

    async def answer() -> None:
        connection = await listener.accept()
        introduced.append(await accept_introduction(connection, identity(other), theirs or cluster))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        (await RequestDialler(identity(2), cluster, network, None).dial(SpuId(1))).close()
    return introduced


async def test_the_other_side_learns_that_requests_will_come() -> None:
    assert await _dial() == [Introduced(identity(2), is_for_requests=True)]


async def test_another_spu_at_the_address_is_no_use() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(ConnectionError, match="SPU 3 is not known"), allow_unwrapped=True):
        await _dial(3, cluster_of(2, 3))


async def test_an_spu_without_a_known_address_cannot_be_dialled() -> None:
    with pytest.raises(OSError, match="private port of SPU 9 is not known"):
        await RequestDialler(identity(2), cluster_of(1, 2), MemoryNetwork(), None).dial(SpuId(9))
