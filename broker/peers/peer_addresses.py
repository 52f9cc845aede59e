"""Where the other SPUs listen for this one."""

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address


def private_address(cluster: Cluster, spu: SpuId) -> Address | None:
    """Returns the address of the private port of an SPU, or None if it is not known."""
    spec = cluster.spus.get(spu)
    return None if spec is None or spec.private is None else Address(spec.private.host, spec.private.port)
