"""Tests the counts and gauges of replicas."""

import pytest
from logs import log_at
from msgspec.structs import replace
from simulation.files import SimulatedFiles

from tailrace.broker.descriptions.replica_counts import (
    PartitionGauges,
    ReplicaCounts,
    count_replicas,
    gauge_partitions,
    lags_of_followers,
    note_live_replicas,
    unsynced_seconds_max,
)
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec, Shelf
from tailrace.protocol.ids import Epoch, SpuId, TopicId

HERE, SECOND, THIRD = COPY_SET = tuple(map(SpuId, (1, 2, 3)))
LED_HERE = PartitionSpec(TopicId(int=7), "t", 0, HERE, Epoch(5), COPY_SET, COPY_SET)


def _replica(files: SimulatedFiles, spec: PartitionSpec) -> Replica:
    settings = settings_of({"min.insync.replicas": "2"}, BrokerConfigs({}))
    log = log_at(files, f"/data/topics/t/7/{spec.partition}", settings.log, clean=True)
    replica = Replica(HERE, spec, log, settings, 0)
    if spec.leader == HERE:
        replica.begin_leading()
    return replica


def test_leaders_are_counted_by_how_many_copies_are_live() -> None:
    files, replicas = SimulatedFiles(), ReplicaRegistry(HERE, Cluster())
    for number, spec in enumerate(
        (
            LED_HERE,
            replace(LED_HERE, live_replicas=(HERE, THIRD)),
            replace(LED_HERE, live_replicas=(HERE,)),
            replace(LED_HERE, leader=SECOND, live_replicas=(SECOND,)),
        )
    ):
        replicas.add(_replica(files, replace(spec, partition=number)))
    replicas.add_damaged(replace(LED_HERE, partition=4), "bits have flipped")
    assert count_replicas(replicas) == ReplicaCounts(5, 3, under_replicated=2, under_min_insync=1, offline=1)
    led, *_ = replicas
    led.lagging_count = 2
    assert count_replicas(replicas) == ReplicaCounts(5, 3, under_replicated=3, under_min_insync=2, offline=1)
    for replica in replicas:
        replica.go_offline("the disk is gone")
    assert count_replicas(replicas).offline == 5


def test_the_largest_follower_lag_is_reported() -> None:
    replicas = ReplicaRegistry(HERE, Cluster())
    replica = _replica(SimulatedFiles(), LED_HERE)
    replicas.add(replica)
    assert count_replicas(replicas).follower_lag_records == 0
    replica.log.log_end = 10
    replica.follower_last_matched_end = {HERE: 0, SECOND: 8, THIRD: 3}.get
    assert count_replicas(replicas).follower_lag_records == 7
    assert lags_of_followers(replica) == {SECOND: 2, THIRD: 7}
    assert gauge_partitions(replicas) == [PartitionGauges("t", 0, 0, 10, 0, 0, 0, 10, {SECOND: 2, THIRD: 7})]
    replica.follower_last_matched_end = {SECOND: 0}.get
    assert lags_of_followers(replica) == {SECOND: 10}, "the other one has not said what it has"
    replica.is_leader = False
    assert lags_of_followers(replica) == {}


def test_a_partition_is_said_to_begin_where_its_shelves_do() -> None:
    replicas = ReplicaRegistry(HERE, Cluster())
    replicas.add(_replica(SimulatedFiles(), replace(LED_HERE, shelved_from=3, shelves=(Shelf(0, 9, (SpuId(4),)),))))
    (gauges,) = gauge_partitions(replicas)
    assert gauges.log_start == 3


def test_the_age_of_the_oldest_unsynced_append_is_reported() -> None:
    files, replicas = SimulatedFiles(), ReplicaRegistry(HERE, Cluster())
    assert unsynced_seconds_max(replicas, 9.0) == 0
    for number, since in enumerate((None, 7.0, 6.5)):
        replica = _replica(files, replace(LED_HERE, partition=number))
        replica.unsynced_since = since
        replicas.add(replica)
    assert unsynced_seconds_max(replicas, 9.0) == 2.5


@pytest.mark.parametrize(
    ("before", "after", "shrinks", "expands"),
    [
        (COPY_SET, COPY_SET, 0, 0),
        (COPY_SET, (HERE, THIRD), 1, 0),
        ((HERE,), (HERE, THIRD), 0, 1),
        ((HERE, SECOND), (HERE, THIRD), 1, 1),
        (COPY_SET, (THIRD, SECOND, HERE), 0, 0),
    ],
)
def test_a_leader_counts_how_its_live_replicas_change(
    before: tuple[SpuId, ...], after: tuple[SpuId, ...], shrinks: int, expands: int
) -> None:
    metrics = BrokerMetrics()
    old, new = replace(LED_HERE, live_replicas=before), replace(LED_HERE, live_replicas=after)
    note_live_replicas(metrics, HERE, old, new)
    assert (metrics.live_replica_shrinks, metrics.live_replica_expands) == (shrinks, expands)
    note_live_replicas(metrics, SECOND, old, new)
    note_live_replicas(metrics, HERE, replace(old, leader=SECOND), new)
    assert (metrics.live_replica_shrinks, metrics.live_replica_expands) == (shrinks, expands), "others count theirs"
