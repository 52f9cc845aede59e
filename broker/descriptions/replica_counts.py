"""Counts the replicas of this SPU by state, and measures each of them, for metrics."""

from collections.abc import Mapping

from msgspec import Struct, field

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.ids import SpuId


class PartitionGauges(Struct):
    topic: str
    partition: int
    log_start: int
    log_end: int
    high_watermark: int
    stable_lag_records: int
    """The number of committed records that wait for the end of a transaction."""
    size_bytes: int
    unsynced_records: int
    follower_lags: Mapping[SpuId, int] = field(default_factory=dict)
    """The lag of each follower in records. Empty unless this SPU leads the partition."""


class ReplicaCounts(Struct):
    partitions: int = 0
    """The number of partitions with a replica on this SPU."""
    leaders: int = 0
    """The number of partitions that this SPU leads."""
    under_replicated: int = 0
    """The number of led partitions with fewer live replicas than replicas."""
    under_min_insync: int = 0
    """The number of led partitions with too few live replicas for acks=all."""
    offline: int = 0
    """The number of replicas whose storage failed."""
    follower_lag_records: int = 0
    """The largest lag of a follower of this SPU, in records."""


def count_replicas(replicas: ReplicaRegistry) -> ReplicaCounts:
    counts = ReplicaCounts(partitions=len(replicas.damaged), offline=len(replicas.damaged))
    for replica in replicas:
        counts.partitions += 1
        counts.offline += replica.offline_reason is not None
        if replica.is_leader:
            live, spec = replica.live_count, replica.spec
            counts.leaders += 1
            counts.under_replicated += live < len(spec.replicas)
            counts.under_min_insync += live < replica.settings.min_insync_replicas
            counts.follower_lag_records = max((counts.follower_lag_records, *lags_of_followers(replica).values()))
    return counts


def gauge_partitions(replicas: ReplicaRegistry) -> list[PartitionGauges]:
    return [
        PartitionGauges(
            replica.topic,
            replica.partition,
            replica.earliest,
            replica.log.log_end,
            replica.high_watermark,
            replica.high_watermark - replica.last_stable_offset,
            replica.log.size_bytes,
            replica.log.log_end - replica.log.synced_end,
            lags_of_followers(replica),
        )
        for replica in replicas
    ]


def unsynced_seconds_max(replicas: ReplicaRegistry, now: float) -> float:
    """Returns the age of the oldest append that is not synced to the disk."""
    return now - min((each.unsynced_since for each in replicas if each.unsynced_since is not None), default=now)


def lags_of_followers(replica: Replica) -> dict[SpuId, int]:
    """Returns the lag of each follower in records, without followers whose log end is unknown."""
    if not replica.is_leader:
        return {}
    ends = {spu: replica.follower_last_matched_end(spu) for spu in replica.spec.replicas if spu != replica.spec.leader}
    return {spu: max(replica.log.log_end - end, 0) for spu, end in ends.items() if end is not None}


def note_live_replicas(metrics: BrokerMetrics, here: SpuId, before: PartitionSpec, after: PartitionSpec) -> None:
    """Counts that the stored live replicas of a led partition have shrunk, expanded, or both."""
    if before.leader == after.leader == here:
        left, entered = set(before.live_replicas), set(after.live_replicas)
        metrics.live_replica_shrinks += not left <= entered
        metrics.live_replica_expands += not entered <= left
