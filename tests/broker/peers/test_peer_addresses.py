from tailrace.broker.peers.peer_addresses import private_address
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address


def test_only_known_private_ports_have_an_address() -> None:
    cluster = Cluster()
    cluster.put_spu(SpuSpec(SpuId(1), private=Endpoint("PRIVATE", "spu-1", 9006)))
    cluster.put_spu(SpuSpec(SpuId(2)))
    assert private_address(cluster, SpuId(1)) == Address("spu-1", 9006)
    assert [private_address(cluster, SpuId(spu)) for spu in (2, 3)] == [None, None]
