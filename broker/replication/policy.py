"""Replication policies: how many stores must commit an entry, seal an epoch, or answer a quorum read.

These numbers depend on each other. Each set of stores that may commit must share a store with each set that may seal or
be read from, and this store must not have lost what it acknowledged.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct

from tailrace.cluster.replication_policy import quorum_sizes
from tailrace.protocol.ids import SpuId


class ReplicationPolicy(Protocol):
    """A rule for when an entry is committed, with the rules for sealing and reading that fit it."""

    @property
    def reads_others(self) -> bool:
        """Whether a new leader needs the entries of other stores, because its own log may lack committed ones."""
        ...

    @property
    def replicas_min(self) -> int:
        """The number of live replicas without which nothing is committed. See `Replica.replicas_min`."""
        ...

    @property
    def takes_over(self) -> bool:
        """Whether earlier epochs may have been committed by other stores than those that commit now."""
        ...

    def committed_end(self, matched: Mapping[SpuId, int], live: Collection[SpuId]) -> int:
        """Returns the end up to which everything is committed. `matched` has the leader and each connected follower."""
        ...

    def is_sealed(self, sure: Collection[SpuId], in_doubt: Collection[SpuId]) -> bool:
        """Returns whether these stores, including the leader, are enough to seal an epoch."""
        ...

    def is_readable(self, sure: Collection[SpuId], in_doubt: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """Returns whether these stores are enough for a quorum read, so that one of them has whatever is committed."""
        ...

    def commits_without(self, stores: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """Returns whether an entry can be committed that none of these stores has. The stores must not be in doubt."""
        ...


class LivePolicy(Struct, frozen=True):
    """Commits with all live replicas, so that each of them can lead without asking others."""

    replicas_min: int = 1
    """The value of `min.insync.replicas`. See `Replica.replicas_min`."""
    reads_others: bool = False
    takes_over: bool = False
    """False, because live replicas have everything, even if the partition had other replicas before."""

    def committed_end(self, matched: Mapping[SpuId, int], live: Collection[SpuId]) -> int:
        if len(live) < self.replicas_min:
            return 0
        end = None
        for spu in live:
            matched_end = matched.get(spu, 0)
            if end is None or matched_end < end:
                end = matched_end
        return end or 0

    def is_sealed(self, sure: Collection[SpuId], in_doubt: Collection[SpuId]) -> bool:
        """Returns True. The leader alone is enough, because the SC elects it from the live replica set, and elects one
        in doubt only if no other is left."""
        return True

    def is_readable(self, sure: Collection[SpuId], in_doubt: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """Returns whether a live replica that is not in doubt is among the stores, or else all live replicas are."""
        members = frozenset(live)
        return not members.isdisjoint(sure) or (bool(members) and members <= {*sure, *in_doubt})

    def commits_without(self, stores: Collection[SpuId], live: Collection[SpuId]) -> bool:
        return frozenset(live).isdisjoint(stores)


class QuorumPolicy(Struct, frozen=True):
    """Commits with W of N stores and seals with N-W+1, so that two such sets always share a store."""

    stores: int
    """N: how many stores there are."""
    reads: int
    """R: how many stores a quorum read needs, so that it includes one of each W."""
    writes: int
    """W: how many stores must have an entry before it is committed."""
    reads_others: bool = True
    replicas_min: int = 1
    """1, because the live replica set does not matter."""
    takes_over: bool = False

    def __post_init__(self) -> None:
        if not (1 <= self.reads <= self.stores and 1 <= self.writes <= self.stores):
            raise ValueError(f"R and W must be between 1 and N: N={self.stores}, R={self.reads}, W={self.writes}")
        if self.reads + self.writes <= self.stores:
            raise ValueError(f"R + W must be more than N: N={self.stores}, R={self.reads}, W={self.writes}")

    def committed_end(self, matched: Mapping[SpuId, int], live: Collection[SpuId]) -> int:
        ends = sorted(matched.values(), reverse=True)
        return ends[self.writes - 1] if len(ends) >= self.writes else 0

    def is_sealed(self, sure: Collection[SpuId], in_doubt: Collection[SpuId]) -> bool:
        """Returns whether enough stores are sure. A store in doubt may be the only one that a commit and this sealing
        share.

        If all stores have responded, they are enough: no store is left that could know more.
        """
        return len(sure) > self.stores - self.writes or len(sure) + len(in_doubt) == self.stores

    def is_readable(self, sure: Collection[SpuId], in_doubt: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """Returns whether enough stores are sure. A store in doubt may be the only one that a commit and this read
        share."""
        return len(sure) >= self.reads or len(sure) + len(in_doubt) == self.stores

    def commits_without(self, stores: Collection[SpuId], live: Collection[SpuId]) -> bool:
        return self.stores - len(stores) >= self.writes


class CopySet(Struct, frozen=True):
    """Stores whose copies count, and how many of them are needed."""

    members: frozenset[SpuId]
    quorum: QuorumPolicy


class CopySetsPolicy(Struct, frozen=True):
    """Commits with the last copy set, and seals with enough stores of each copy set, while replicas are being changed.

    What earlier epochs committed is in one of the sets, so each sealing includes it. A replica in none of the sets does
    not count: it has just been added and is copying the log.
    """

    sets: tuple[CopySet, ...]
    reads_others: bool = True
    replicas_min: int = 1

    @property
    def takes_over(self) -> bool:
        return len(self.sets) > 1

    def committed_end(self, matched: Mapping[SpuId, int], live: Collection[SpuId]) -> int:
        members, quorum = self.sets[-1].members, self.sets[-1].quorum
        return quorum.committed_end({spu: end for spu, end in matched.items() if spu in members}, live)

    def is_sealed(self, sure: Collection[SpuId], in_doubt: Collection[SpuId]) -> bool:
        return all(
            each.quorum.is_sealed(each.members.intersection(sure), each.members.intersection(in_doubt))
            for each in self.sets
        )

    def is_readable(self, sure: Collection[SpuId], in_doubt: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """Returns whether each set is readable, because what is committed may be in any of them."""
        return all(
            each.quorum.is_readable(each.members.intersection(sure), each.members.intersection(in_doubt), live)
            for each in self.sets
        )

    def commits_without(self, stores: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """Returns whether any set can commit without these stores, because each set has something that the others
        lack."""
        return any(each.quorum.commits_without(each.members.intersection(stores), live) for each in self.sets)


def parse_policy(
    text: str, *, replicas: int, replicas_min: int, copy_sets: Collection[Collection[SpuId]] = ()
) -> ReplicationPolicy:
    """Parses `live`, `majority` or `nrw:N,R,W` for a partition with that many replicas.

    `copy_sets` are given while the partition gets other replicas. Raises ValueError with a sentence.
    """
    sets = [
        CopySet(frozenset(each), QuorumPolicy(*sizes)) for each in copy_sets if (sizes := quorum_sizes(text, len(each)))
    ]
    if sets:
        return CopySetsPolicy(tuple(sets))
    sizes = quorum_sizes(text, replicas)
    return LivePolicy(replicas_min) if sizes is None else QuorumPolicy(*sizes)
