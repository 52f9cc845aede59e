from uuid import UUID

import structlog
from simulation.network import MemoryNetwork

from tailrace.broker.peer_links import PeerLinks
from tailrace.broker.peer_messages import PeerIdentity
from tailrace.broker.replication.messages import Fenced
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.chance import RandomChance


def test_what_is_told_to_nobody_is_lost() -> None:
    identity = PeerIdentity(SpuId(1), "store", "process")
    links = PeerLinks(identity, Cluster(), MemoryNetwork(), RandomChance(1), structlog.get_logger())
    links.to_follower(SpuId(2), (UUID(int=1), 0), Fenced(Epoch(3)))
    links.flush()
