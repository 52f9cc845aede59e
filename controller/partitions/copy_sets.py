"""Moves a partition to other replicas: new ones catch up, then old ones leave, unless a single live copy would stay.

The topic's row says which replicas are wanted, and the partition's spec says which ones exist. While the two differ,
each step brings them closer, and any other event may happen between two steps. Each set of replicas begins with a new
epoch, with the same leader if it stays. So a store knows from the epoch of a message which replicas belong to the
partition.

With the policy `live`, every live replica has everything. So the replicas that should leave do so at once, unless only
one live replica would stay.

With `majority` and `nrw`, the replicas that stay first take over as a new copy set. From one epoch on they count
towards commits, and a leader must seal enough stores of the new set and of each set before it, where records may have
been committed. The leader reports when W stores of the new set have everything that its epoch began with. From the next
epoch on the other sets are not needed.
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
    """Returns the partition after the next step towards the row `wanted`, or unchanged if no step is possible now.

    A step needs a leader that has reported, so that steps do not overlap. A partition that never had a leader changes
    at once, since there is nothing to copy.

    `failed` has the replicas whose storage cannot be used. `has_taken_over` says that the leader has reported, in this
    epoch, that the newest copy set has taken over.
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
    """Returns the row of the topic for the partition, or the partition's replicas if there is no such row."""
    rows = {} if topic is None else topic.status.replica_map
    return rows.get(partition.number, partition.spec.replicas)


def is_changing(partition: Partition, wanted: Row) -> bool:
    """Tells whether the partition's replicas are being changed."""
    return bool(partition.spec.copy_sets) or set(wanted) != set(partition.spec.replicas)


def before_change(partition: Partition) -> Row:
    """Returns the replicas that the partition had before the current change."""
    spec = partition.spec
    return spec.copy_sets[0] if spec.copy_sets else spec.replicas


def coming_and_going(partition: Partition, wanted: Row) -> tuple[Row, Row]:
    """Returns the replicas that the current change adds, and those that it removes."""
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
    """Tells whether a leader could seal enough stores of every copy set in the next epoch.

    If not, the current leader should go on as long as it can.
    """
    for row in spec.copy_sets or (spec.replicas,):
        sizes = quorum_sizes(policy, len(row))
        if sizes is not None and sum(spu in sure for spu in row) <= sizes.stores - sizes.writes:
            return False
    return True


def _leaves_one(replicas: Row, sure: Collection[SpuId]) -> bool:
    """Tells whether a step would leave committed records on a single store although more are live now.

    That store may already be offline, which the SC notices a little later.
    """
    return sum(spu in sure for spu in replicas) < min(2, len(sure), len(replicas))


def _changed(partition: Partition, spec: PartitionSpec, leader: SpuId, spus: Spus, policy: str) -> Partition:
    before, changed = partition.spec, replace(partition, spec=spec)
    are_same = set(spec.replicas) == set(before.replicas) and (policy == LIVE or spec.copy_sets == before.copy_sets)
    if are_same and leader == partition.status.leader:
        return changed  # Only the order, and with it the preferred leader, has changed: no new epoch is needed.
    status = elected_cleanly(partition, leader, spus)
    live = _within(spec.replicas, status.live_replicas)
    return replace(changed, status=status if live == status.live_replicas else with_live_replicas(status, live))


def _within(replicas: Sequence[SpuId], live: Mapping[SpuId, str]) -> dict[SpuId, str]:
    """Returns the live replicas that stay. They have everything that those that leave have."""
    return {spu: live[spu] for spu in replicas if spu in live}
