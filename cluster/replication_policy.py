"""Reads and checks the texts of replication policies: `live`, `majority` and `nrw:N,R,W`.

The Streaming Controller refuses impossible policies, so that no SPU ever gets one. What the numbers mean for
replication is in `broker/replication/policy.py`.
"""

from collections.abc import Mapping
from typing import NamedTuple

LIVE = "live"
MAJORITY = "majority"


class QuorumSizes(NamedTuple):
    """The sizes of quorums."""

    stores: int
    """The number of all stores."""
    reads: int
    """How many stores a quorum read needs."""
    writes: int
    """How many stores a commit needs."""


def policy_of(configs: Mapping[str, str]) -> str:
    """Returns the policy of a topic with these configs; brokers have no config for its default."""
    return configs.get("replication.policy", LIVE)


def quorum_sizes(policy: str, replicas: int) -> QuorumSizes | None:
    """Returns the quorum sizes for a number of replicas; None for `live`, which has no fixed quorum.

    Raises ValueError, with a sentence, if the policy is wrong.
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
        raise ValueError(f"{policy} is for {sizes.stores} replicas, but there are {replicas}")
    return sizes


def fault_of_policy(policy: str) -> str | None:
    """Returns what is wrong with a policy for any number of replicas; None if nothing is."""
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
    """Whether the text is a number of at most four digits; no partition has more replicas."""
    return text.isascii() and text.isdigit() and len(text) <= 4


def _check(sizes: QuorumSizes) -> None:
    stores, reads, writes = sizes
    given = f"N={stores}, R={reads}, W={writes}"
    if not (1 <= reads <= stores and 1 <= writes <= stores):
        raise ValueError(f"R and W must be between 1 and N: {given}")
    if reads + writes <= stores:
        raise ValueError(f"R + W must be more than N: {given}")
