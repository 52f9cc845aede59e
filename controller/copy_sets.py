"""How a partition gets other replicas: new ones are added, and when they have all, those that are to go leave.

What is wanted is the topic's row; what there is, the partition's replicas. While the two differ this goes on, step by
step, whatever happens in between. Each other set of replicas begins at another epoch, with the same leader if it
stays: so every store knows by the epoch of whom it hears who belongs to the partition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tailrace.protocol.ids import NO_EPOCH, SpuId

from .election import elected_cleanly, is_sure, with_live_replicas
from .objects import Partition, PartitionResolution, PartitionSpec, Spu

Spus = Mapping[SpuId, Spu]
Row = tuple[SpuId, ...]


def next_copy_set(partition: Partition, wanted: Row, spus: Spus) -> Partition:
    """The partition with the next step done, if there is one to do now. It takes a leader that has reported: one thing
    goes on after the other. Where there never was a leader, there is nothing to copy."""
    spec = partition.spec
    if spec == PartitionSpec(wanted[0], wanted):
        return partition
    if partition.status.epoch == NO_EPOCH:
        return replace(partition, spec=PartitionSpec(wanted[0], wanted))
    if partition.status.resolution is not PartitionResolution.ONLINE:
        return partition
    missing = tuple(spu for spu in wanted if spu not in spec.replicas)
    if missing:
        more = replace(spec, replicas=spec.replicas + missing, adding=spec.adding + missing)
        return _changed(partition, more, partition.status.leader, spus)
    stay = [spu for spu in wanted if is_sure(spu, partition.status.live_replicas, spus)]
    if not stay or not all(spu in stay for spu in wanted if spu in spec.adding):
        return partition
    leader = partition.status.leader if partition.status.leader in stay else stay[0]
    return _changed(partition, PartitionSpec(wanted[0], wanted), leader, spus)


def is_changing(partition: Partition, wanted: Row) -> bool:
    return bool(partition.spec.adding) or set(wanted) != set(partition.spec.replicas)


def before_change(partition: Partition) -> Row:
    """Those that there were before others were added."""
    return tuple(spu for spu in partition.spec.replicas if spu not in partition.spec.adding)


def _changed(partition: Partition, spec: PartitionSpec, leader: SpuId, spus: Spus) -> Partition:
    changed = replace(partition, spec=spec)
    if set(spec.replicas) == set(partition.spec.replicas) and leader == partition.status.leader:
        return changed  # in another order: the preferred leader is another, and nothing else
    status = elected_cleanly(partition, leader, spus)
    live = _within(spec.replicas, status.live_replicas)
    return replace(changed, status=status if live == status.live_replicas else with_live_replicas(status, live))


def _within(replicas: Sequence[SpuId], live: Mapping[SpuId, str]) -> dict[SpuId, str]:
    """Who leaves was live, and has nothing that those who stay do not have."""
    return {spu: live[spu] for spu in replicas if spu in live}
