"""How a partition gets other replicas: new ones are added, and when they have all, those that are to go leave.

What is wanted is the topic's row; what there is, the partition's replicas. While the two differ this goes on, step by
step, whatever happens in between. Each other set of replicas begins at another epoch, with the same leader if it
stays: so every store knows by the epoch of whom it hears who belongs to the partition.

Where all live replicas commit, whoever is live has all, and those that are to go leave at once, unless only one stays
that is live. Where W of N do, those that stay first take over: from one epoch on they commit, and whoever leads must
seal enough stores of their set and of those before it, where something may have been committed. The leader says when W
of them have all that its epoch began with; from the next one on nobody else is asked.
"""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from tailrace.cluster.replication_policy import LIVE, quorum_sizes
from tailrace.controller.objects.objects import Partition, PartitionResolution, PartitionSpec, Spu, Topic
from tailrace.protocol.ids import NO_EPOCH, SpuId

from .election import elected_cleanly, is_sure, with_live_replicas

Spus = Mapping[SpuId, Spu]
Row = tuple[SpuId, ...]


def next_copy_set(
    partition: Partition,
    wanted: Row,
    spus: Spus,
    policy: str = LIVE,
    failed: Collection[SpuId] = (),
    *,
    has_taken_over: bool = False,
) -> Partition:
    """The partition with the next step done, if there is one to do now. It takes a leader that has reported: one thing
    goes on after the other. Where there never was a leader, there is nothing to copy.

    `failed`: those whose storage cannot be used. `has_taken_over`: the leader has said so, in this epoch.
    """
    spec, status = partition.spec, partition.status
    if spec == (done := spec.with_replicas(wanted[0], wanted)):
        return partition
    if status.epoch == NO_EPOCH:
        return replace(partition, spec=done)
    if status.resolution is not PartitionResolution.ONLINE:
        return partition
    sure = {spu for spu in spec.replicas if spu not in failed and is_sure(spu, status.live_replicas, spus)}
    following = _next_spec(spec, wanted, policy, sure, has_taken_over)
    stay = [spu for spu in following.copy_set if spu in sure]
    if following == spec or not stay or not _can_be_sealed(following, policy, sure):
        return partition
    if policy == LIVE and _leaves_one(following.replicas, sure):
        return partition
    return _changed(partition, following, status.leader if status.leader in stay else stay[0], spus, policy)


def wanted_row(partition: Partition, topic: Topic | None) -> Row:
    """The row that its topic has for it; what it has, when the topic has none or has gone."""
    rows = {} if topic is None else topic.status.replica_map
    return rows.get(partition.number, partition.spec.replicas)


def is_changing(partition: Partition, wanted: Row) -> bool:
    return bool(partition.spec.copy_sets) or set(wanted) != set(partition.spec.replicas)


def before_change(partition: Partition) -> Row:
    """Those that there were before others were added."""
    spec = partition.spec
    return spec.copy_sets[0] if spec.copy_sets else spec.replicas


def coming_and_going(partition: Partition, wanted: Row) -> tuple[Row, Row]:
    """Those that are new, and those that leave."""
    present = before_change(partition)
    return (
        tuple(spu for spu in wanted if spu not in present),
        tuple(spu for spu in partition.spec.replicas if spu not in wanted),
    )


def _next_spec(
    spec: PartitionSpec, wanted: Row, policy: str, sure: Collection[SpuId], has_taken_over: bool
) -> PartitionSpec:
    sets = spec.copy_sets or (spec.replicas,)
    if has_taken_over and set(wanted) != set(spec.copy_set):
        coming = tuple(spu for spu in spec.adding if spu in wanted)
        return spec.with_replicas(spec.initial_leader, spec.copy_set + coming, (spec.copy_set,) if coming else ())
    missing = tuple(spu for spu in wanted if spu not in spec.replicas)
    if missing:
        return spec.with_replicas(spec.initial_leader, spec.replicas + missing, sets)
    if not all(spu in sure for spu in wanted if spu in spec.adding):
        return spec
    if policy == LIVE or has_taken_over or (len(sets) == 1 and set(wanted) == set(spec.copy_set)):
        return spec.with_replicas(wanted[0], wanted)
    if set(wanted) == set(spec.copy_set) or not _can_commit(wanted, policy, sure):
        return spec
    before = (sets[0], *(each for each in sets[1:] if set(each) != set(wanted)))
    leaving = dict.fromkeys(spu for each in before for spu in each if spu not in wanted)
    return spec.with_replicas(wanted[0], (*wanted, *leaving), (*before, wanted))


def _can_commit(row: Row, policy: str, sure: Collection[SpuId]) -> bool:
    sizes = quorum_sizes(policy, len(row))
    return sizes is None or sum(spu in sure for spu in row) >= sizes.writes


def _can_be_sealed(spec: PartitionSpec, policy: str, sure: Collection[SpuId]) -> bool:
    """At the next epoch. Else the leader that there is had better go on, as long as it can."""
    for row in spec.copy_sets or (spec.replicas,):
        sizes = quorum_sizes(policy, len(row))
        if sizes is not None and sum(spu in sure for spu in row) <= sizes.stores - sizes.writes:
            return False
    return True


def _leaves_one(replicas: Row, sure: Collection[SpuId]) -> bool:
    """All that was committed would be on a single store then, though there are others now; and that one may have gone
    already, which is noticed a little later."""
    return sum(spu in sure for spu in replicas) < min(2, len(sure), len(replicas))


def _changed(partition: Partition, spec: PartitionSpec, leader: SpuId, spus: Spus, policy: str) -> Partition:
    before, changed = partition.spec, replace(partition, spec=spec)
    are_same = set(spec.replicas) == set(before.replicas) and (policy == LIVE or spec.copy_sets == before.copy_sets)
    if are_same and leader == partition.status.leader:
        return changed  # in another order: the preferred leader is another, and nothing else
    status = elected_cleanly(partition, leader, spus)
    live = _within(spec.replicas, status.live_replicas)
    return replace(changed, status=status if live == status.live_replicas else with_live_replicas(status, live))


def _within(replicas: Sequence[SpuId], live: Mapping[SpuId, str]) -> dict[SpuId, str]:
    """Who leaves was live, and has nothing that those who stay do not have."""
    return {spu: live[spu] for spu in replicas if spu in live}
