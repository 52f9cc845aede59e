from logs import log_at
from msgspec.structs import replace
from simulation.files import SimulatedFiles
from spus import batch

from tailrace.broker.descriptions.local_replicas import describe_replicas
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal.describe_replicas import (
    DescribedReplica,
    DescribedTopic,
    DescribeReplicasRequest,
    EpochStart,
)

HERE, ELSEWHERE = SpuId(1), SpuId(2)
TOPIC = TopicId(int=7)
SPEC = PartitionSpec(TOPIC, "t", 0, HERE, Epoch(0), (HERE,), (HERE,))


def _replicas(*specs: PartitionSpec) -> ReplicaRegistry:
    files = SimulatedFiles()
    replicas = ReplicaRegistry(HERE, Cluster())
    settings = settings_of({}, BrokerConfigs({}))
    for spec in specs:
        log = log_at(files, f"/data/topics/t/{TOPIC}/{spec.partition}", settings.log, clean=True)
        replicas.add(Replica(HERE, spec, log, settings, 0))
    return replicas


def test_how_a_leader_stands() -> None:
    replicas = _replicas(SPEC)
    replica = replicas.leading("t", 0)
    data = bytearray(batch(b"a", b"b"))
    stamp(data, 0, 0, 0)
    replica.append(data, read_header(data))
    (described,) = describe_replicas(replicas, DescribeReplicasRequest()).replicas
    assert described == DescribedReplica(TOPIC, 0, True, 0, 2, 2, len(data), None, epoch=0)


def test_the_last_epochs_of_its_log_for_who_asks_for_them() -> None:
    replicas = _replicas(SPEC)
    log = replicas.leading("t", 0).log
    for epoch in (0, 2, 5):
        data = bytearray(batch(b"a", b"b"))
        stamp(data, 0, log.log_end, epoch)
        log.append(data, read_header(data))
    (described,) = describe_replicas(replicas, DescribeReplicasRequest(epochs_max=2)).replicas
    assert (described.epochs, described.older_epochs) == ([EpochStart(2, 2), EpochStart(5, 4)], 1)
    (described,) = describe_replicas(replicas, DescribeReplicasRequest(epochs_max=2**31 - 1)).replicas
    assert (len(described.epochs), described.older_epochs) == (3, 0)
    (described,) = describe_replicas(replicas, DescribeReplicasRequest(epochs_max=-1)).replicas
    assert (described.epochs, described.older_epochs) == ([], 0)


def test_a_follower_and_a_replica_that_failed() -> None:
    replicas = _replicas(replace(SPEC, leader=ELSEWHERE), replace(SPEC, partition=1))
    replicas.leading("t", 1).go_offline("append failed")
    follower, failed = describe_replicas(replicas, DescribeReplicasRequest()).replicas
    assert (follower.is_leader, follower.error_message) == (False, None)
    assert (failed.is_leader, failed.error_message) == (True, "append failed")


def test_a_replica_whose_log_did_not_open_says_why() -> None:
    replicas = _replicas()
    replicas.add_damaged(SPEC, "bits have flipped")
    (described,) = describe_replicas(replicas, DescribeReplicasRequest()).replicas
    assert (described.partition, described.error_message, described.log_end) == (0, "bits have flipped", -1)


def test_only_what_was_asked_for_and_is_here() -> None:
    replicas = _replicas(*(replace(SPEC, partition=number) for number in range(4)))
    asked = DescribeReplicasRequest([DescribedTopic(TOPIC, [3, 1, 9]), DescribedTopic(TopicId(int=8), [0])])
    assert [each.partition for each in describe_replicas(replicas, asked).replicas] == [1, 3]
