"""Replication policies as texts: `live`, `majority` and `nrw:N,R,W`, and which of them a topic may have.

The Streaming Controller refuses what a partition could not be replicated by, so that no SPU ever meets it; what the
numbers mean while replicating is the SPU's, in `broker/replication/policy.py`.
"""

from collections.abc import Mapping
from typing import NamedTuple

LIVE = "live"
MAJORITY = "majority"


class QuorumSizes(NamedTuple):
    """Of so many stores, how many a reader must ask, and how many commit."""

    stores: int
    reads: int
    writes: int


def policy_of(configs: Mapping[str, str]) -> str:
    """Of a topic that sets these itself: there is no default for a broker."""
    return configs.get("replication.policy", LIVE)


def quorum_sizes(policy: str, replicas: int) -> QuorumSizes | None:
    """For a partition with so many replicas; None for `live`, by which all live replicas commit.

    Raises ValueError with a sentence.
    """
    if policy == LIVE:
        return None
    if policy == MAJORITY:
        majority = replicas // 2 + 1
        return QuorumSizes(replicas, majority, majority)
    sizes = _read(policy)
    if sizes is None:
        raise ValueError(f"a replication policy is live, majority or nrw:N,R,W, not {policy!r}")
    _check(sizes)
    if sizes.stores != replicas:
        raise ValueError(f"{policy} is for {sizes.stores} replicas, and there are {replicas}")
    return sizes


def fault_of_policy(policy: str) -> str | None:
    """What is wrong with it, however many replicas there are."""
    sizes = _read(policy)
    try:
        quorum_sizes(policy, 1 if sizes is None else sizes.stores)
    except ValueError as error:
        return str(error)
    return None


def _read(policy: str) -> QuorumSizes | None:
    name, _, numbers = policy.partition(":")
    parts = numbers.split(",")
    if name != "nrw" or len(parts) != 3 or not all(_is_small_number(part) for part in parts):
        return None
    return QuorumSizes(*map(int, parts))


def _is_small_number(text: str) -> bool:
    """Longer ones are the slower to read, and no partition has so many replicas."""
    return text.isascii() and text.isdigit() and len(text) <= 4


def _check(sizes: QuorumSizes) -> None:
    stores, reads, writes = sizes
    given = f"N={stores}, R={reads}, W={writes}"
    if not (1 <= reads <= stores and 1 <= writes <= stores):
        raise ValueError(f"R and W must be between 1 and N: {given}")
    if reads + writes <= stores:
        raise ValueError(f"R + W must be more than N: {given}")
