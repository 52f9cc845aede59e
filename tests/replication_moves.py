"""Moves the model's partition to other replicas, by the Streaming Controller's own rules."""

import random
from collections.abc import Mapping, Set

from msgspec import Struct

from tailrace.broker.replication.policy import ReplicationPolicy, parse_policy
from tailrace.cluster.replication_policy import quorum_sizes
from tailrace.controller.objects.objects import (
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    Spu,
    SpuResolution,
    SpuSpec,
    SpuStatus,
)
from tailrace.controller.partitions.copy_sets import before_change, is_changing, next_copy_set
from tailrace.protocol.ids import Epoch, SpuId, TopicId

Row = tuple[SpuId, ...]


class Moves(Struct, frozen=True):
    """The settings of a world in which replicas move."""

    policy: str
    stores: int = 6
    sizes: tuple[int, ...] = (3,)
    """The possible numbers of replicas."""

    def row(self, chance: random.Random, present: Row = ()) -> Row:
        """Draws a row that mostly has other replicas than the current one, so that the copy sets overlap little."""
        size = chance.choice(self.sizes)
        spus = [SpuId(spu) for spu in range(1, self.stores + 1)]
        others = [spu for spu in spus if spu not in present]
        return tuple(chance.sample(others if len(others) >= size and chance.random() < 0.7 else spus, size))

    def policy_of(self, layout: PartitionSpec) -> ReplicationPolicy:
        return parse_policy(self.policy, replicas=len(layout.replicas), replicas_min=1, copy_sets=layout.copy_sets)

    def writes_of(self, row: Row) -> int:
        sizes = quorum_sizes(self.policy, len(row))
        assert sizes is not None
        return sizes.writes

    def survive(self, layout: PartitionSpec, wanted: Row, damaged: Set[SpuId]) -> bool:
        """Whether nothing is lost even if these stores lose what they have."""
        sets = (*(layout.copy_sets or (layout.replicas,)), wanted)
        return all(len(damaged & set(each)) < self.writes_of(each) for each in sets)


def other_row(moves: Moves, layout: PartitionSpec, wanted: Row, chance: random.Random) -> Row:
    """Returns the row that an administrator requests next: another one, or the old one to cancel a change."""
    partition = _partition(layout, PartitionStatus())
    if is_changing(partition, wanted) and chance.random() < 0.4:
        return before_change(partition)
    return moves.row(chance, layout.replicas)


def moved(
    moves: Moves,
    layout: PartitionSpec,
    wanted: Row,
    *,
    leader: SpuId,
    process: str,
    epoch: Epoch,
    live: Mapping[SpuId, str],
    version: int,
    has_taken_over: bool,
    registered: Mapping[SpuId, tuple[str, str]],
    online: Set[SpuId],
) -> Partition:
    """Returns the partition after the next step of a move, given a report of the leader."""
    status = PartitionStatus(PartitionResolution.ONLINE, leader, epoch, process, dict(live), version)
    spus = {
        spu: Spu(
            SpuSpec(spu),
            SpuStatus(SpuResolution.ONLINE if spu in online else SpuResolution.OFFLINE, its_process, incarnation),
        )
        for spu, (its_process, incarnation) in registered.items()
    }
    return next_copy_set(_partition(layout, status), wanted, spus, moves.policy, has_taken_over=has_taken_over)


def _partition(layout: PartitionSpec, status: PartitionStatus) -> Partition:
    return Partition("t", TopicId(int=1), 0, layout, status)
