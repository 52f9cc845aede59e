"""Replication policies: how many stores make an offset committed, how many answers make an epoch sealed, and how many
tell a reader what is committed.

They belong together: any set of stores that may commit must meet any set that may seal, or be read from, and in it a
store that keeps what it acknowledged.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct

from tailrace.cluster.replication_policy import quorum_sizes
from tailrace.protocol.ids import SpuId


class ReplicationPolicy(Protocol):
    @property
    def reads_others(self) -> bool:
        """Whether a new leader needs what other stores hold, or has all that may be committed itself."""
        ...

    @property
    def replicas_min(self) -> int:
        """With fewer live replicas nothing is committed."""
        ...

    @property
    def takes_over(self) -> bool:
        """Whether earlier epochs may have been committed by other stores than those that commit now."""
        ...

    def committed_end(self, matched: Mapping[SpuId, int], live: Collection[SpuId]) -> int:
        """Up to where all is committed; `matched` names the leader and each store that speaks to it."""
        ...

    def is_sealed(self, sure: Collection[SpuId], in_doubt: Collection[SpuId]) -> bool:
        """Whether these stores, the leader among them, are enough for a new epoch to begin."""
        ...

    def is_readable(self, sure: Collection[SpuId], in_doubt: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """Whether these stores are enough for one who reads without a leader: one of them has whatever is committed."""
        ...

    def commits_without(self, stores: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """Whether anything may be committed that none of these stores has; of those that are not in doubt."""
        ...


class LivePolicy(Struct, frozen=True):
    """All live replicas commit, so any one of them may lead without asking the others."""

    replicas_min: int = 1
    """`min.insync.replicas`"""
    reads_others: bool = False
    takes_over: bool = False
    """Who is live has all, whichever replicas there were."""

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
        """The leader alone: the SC elects it from the live set, in doubt only if there is nobody else."""
        return True

    def is_readable(self, sure: Collection[SpuId], in_doubt: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """Any live replica has all, unless it may have lost something; all of them have what is left."""
        members = frozenset(live)
        return not members.isdisjoint(sure) or (bool(members) and members <= {*sure, *in_doubt})

    def commits_without(self, stores: Collection[SpuId], live: Collection[SpuId]) -> bool:
        return frozenset(live).isdisjoint(stores)


class QuorumPolicy(Struct, frozen=True):
    """W of N stores commit, N-W+1 seal: any two such sets have a store in common."""

    stores: int
    reads: int
    """How many a reader must ask so that it meets every commit."""
    writes: int
    reads_others: bool = True
    replicas_min: int = 1
    """Who is live does not matter."""
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
        """A store in doubt may be the very one that a commit and this sealing have in common.

        When all have answered there is nobody left who could know more.
        """
        return len(sure) > self.stores - self.writes or len(sure) + len(in_doubt) == self.stores

    def is_readable(self, sure: Collection[SpuId], in_doubt: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """As with sealing: one in doubt may be the very store that a commit and this reader have in common."""
        return len(sure) >= self.reads or len(sure) + len(in_doubt) == self.stores

    def commits_without(self, stores: Collection[SpuId], live: Collection[SpuId]) -> bool:
        return self.stores - len(stores) >= self.writes


class CopySet(Struct, frozen=True):
    members: frozenset[SpuId]
    quorum: QuorumPolicy


class CopySetsPolicy(Struct, frozen=True):
    """While a partition gets other replicas: those of the last set commit, and enough of each set seal.

    What earlier epochs committed is in one of the sets, so whoever seals meets it. Replicas of no set have no say: they
    are about to come, and copy what there is.
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
        """What is committed may be in each of the sets."""
        return all(
            each.quorum.is_readable(each.members.intersection(sure), each.members.intersection(in_doubt), live)
            for each in self.sets
        )

    def commits_without(self, stores: Collection[SpuId], live: Collection[SpuId]) -> bool:
        """While one set takes over from another, each has something that the other lacks."""
        return any(each.quorum.commits_without(each.members.intersection(stores), live) for each in self.sets)


def parse_policy(
    text: str, *, replicas: int, replicas_min: int, copy_sets: Collection[Collection[SpuId]] = ()
) -> ReplicationPolicy:
    """`live`, `majority` or `nrw:N,R,W`, for a partition with so many replicas; `copy_sets`: while it gets others.

    Raises ValueError with a sentence.
    """
    sets = [
        CopySet(frozenset(each), QuorumPolicy(*sizes)) for each in copy_sets if (sizes := quorum_sizes(text, len(each)))
    ]
    if sets:
        return CopySetsPolicy(tuple(sets))
    sizes = quorum_sizes(text, replicas)
    return LivePolicy(replicas_min) if sizes is None else QuorumPolicy(*sizes)
