"""Tests the description of the leaders and followers of an SPU."""

import structlog
from logs import log_at
from msgspec.structs import replace
from peers import identity
from simulation.files import SimulatedFiles
from simulation.network import MemoryNetwork

from tailrace.broker.descriptions.spu_description import describe_spu
from tailrace.broker.peers.peer_links import PeerLinks
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal.describe_spu import FollowerOfLeader, FollowerOfThis
from tailrace.runtime.chance import RandomChance

HERE, SECOND, THIRD = COPY_SET = tuple(map(SpuId, (1, 2, 3)))
LED_HERE = PartitionSpec(TopicId(int=7), "t", 0, HERE, Epoch(5), COPY_SET, COPY_SET)


class _Spu:
    def __init__(self) -> None:
        self.replicas = ReplicaRegistry(HERE, Cluster())
        self.links = PeerLinks(identity(HERE), Cluster(), MemoryNetwork(), RandomChance(1), structlog.get_logger())
        self._files = SimulatedFiles()

    def add(self, spec: PartitionSpec, log_end: int = 0) -> Replica:
        settings = settings_of({}, BrokerConfigs({}))
        log = log_at(self._files, f"/data/topics/t/7/{spec.partition}", settings.log, clean=True)
        log.log_end = log_end
        replica = Replica(HERE, spec, log, settings, 0)
        if spec.leader == HERE:
            replica.begin_leading()
        self.replicas.add(replica)
        return replica


async def test_there_is_one_follower_controller_for_each_leader_and_none_after_the_last_replica() -> None:
    spu = _Spu()
    for leader in (THIRD, SECOND, THIRD):
        spu.links.follow(leader)
    described = describe_spu("/data", spu.replicas, spu.links)
    assert described.log_directory == "/data"
    assert described.follower_controllers == [
        FollowerOfLeader(SECOND, 1, is_linked=False, dialled_links=0),
        FollowerOfLeader(THIRD, 2, is_linked=False, dialled_links=0),
    ]
    spu.links.unfollow(SECOND)
    (left,) = describe_spu("/data", spu.replicas, spu.links).follower_controllers
    assert left.leader_id == THIRD


def test_what_a_follower_has_not_said_it_has_waits_for_it() -> None:
    spu = _Spu()
    spu.add(LED_HERE, log_end=10).follower_last_matched_end = {SECOND: 10, THIRD: 4}.get
    spu.add(replace(LED_HERE, partition=1, replicas=(HERE, THIRD)), log_end=100)
    spu.add(replace(LED_HERE, partition=2, leader=SECOND), log_end=1000)
    described = describe_spu("/data", spu.replicas, spu.links)
    assert described.leader_controllers == 2
    assert described.followers == [
        FollowerOfThis(SECOND, 1, is_linked=False, waiting_records=0),
        FollowerOfThis(THIRD, 2, is_linked=False, waiting_records=6 + 100),
    ]
