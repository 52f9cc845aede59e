"""Facts about a partition, computed from what the SC and the SPUs report of it."""

from typing import Protocol

from tailrace.cli.output.printing import size_text
from tailrace.protocol.internal.describe_partitions import DescribedPartition, ReplicaDetail

UNKNOWN = -1


class Shelf(Protocol):
    """A shelf in any of the internal messages."""

    base: int
    end: int
    stores: list[int]
    filling: list[int]


def shelf_copies(shelf: Shelf) -> str:
    """Lists the SPUs that store the shelf or are filling it."""
    return ", ".join([*map(str, shelf.stores), *(f"{spu} (being filled)" for spu in shelf.filling)])


def leader_of(partition: DescribedPartition) -> ReplicaDetail:
    """Returns the leader's report of its log; an empty report if there is no leader or it did not respond."""
    found = (each for each in partition.details if each.spu_id == partition.leader)
    return next(found, ReplicaDetail(partition.leader))


def lag_of(replica: ReplicaDetail, leader: ReplicaDetail) -> int | None:
    """Returns how many records a replica lacks; 0 if it seems to be ahead because the leader was asked first."""
    if UNKNOWN in (replica.log_end, leader.log_end):
        return None
    return max(leader.log_end - replica.log_end, 0)


def size_of(replica: ReplicaDetail) -> str | None:
    """Formats the size of a replica; None if it is unknown."""
    return None if replica.size_bytes == UNKNOWN else size_text(replica.size_bytes)


def is_lagging(partition: DescribedPartition) -> bool:
    """Whether a replica lags, is not live, or has an unknown lag."""
    leader = leader_of(partition)
    return len(partition.live_replicas) < len(partition.replicas) or any(
        lag_of(each, leader) != 0 for each in details_of(partition)
    )


def details_of(partition: DescribedPartition) -> list[ReplicaDetail]:
    """Returns a report for each replica; it is empty if the replica's SPU did not respond."""
    by_spu = {each.spu_id: each for each in partition.details}
    return [by_spu.get(spu_id) or ReplicaDetail(spu_id) for spu_id in partition.replicas]


def liveness(partition: DescribedPartition, spu: int) -> str:
    """Returns whether a replica is live. An electable replica is offline, but has everything that was committed."""
    if spu in partition.live_replicas:
        return "yes"
    return "electable" if spu in partition.electable else "no"


def known(number: int) -> int | None:
    """Returns the number, or None if it is the one that stands for an unknown value."""
    return None if number == UNKNOWN else number
