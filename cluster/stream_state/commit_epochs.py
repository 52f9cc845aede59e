"""The epoch of a trigger's commit, which fences later commits of replicas that have lost the shard.

A replica commits offsets with a metadata text that names the epoch of its shard and the replica itself. A coordinator
keeps the text with the offset, so the fence survives a restart of the coordinator. Commits without such a text, such as
those of ordinary consumers or of an administrator, are never fenced.

A new owner reads the offset, and then claims it: it commits the same offset with its higher epoch. The previous owner
may commit between the two. A commit with a higher epoch is therefore refused if it would move the offset back, and the
new owner reads the offset again.
"""

import re
from typing import NamedTuple

PREFIX = "trigger epoch="
"""Every metadata text of a trigger begins with it."""

_TEXT = re.compile(r"trigger epoch=(0|[1-9][0-9]{0,18}) member=(.+)", re.DOTALL)


class CommitEpoch(NamedTuple):
    """Which replica committed an offset, and with which epoch of the shard."""

    epoch: int
    member_id: str


def format_commit_epoch(commit: CommitEpoch) -> str:
    """Returns the metadata text of a commit."""
    return f"{PREFIX}{commit.epoch} member={commit.member_id}"


def parse_commit_epoch(metadata: str) -> CommitEpoch | None:
    """Reads the metadata text of a commit; returns None if no trigger has written it."""
    found = _TEXT.fullmatch(metadata)
    return None if found is None else CommitEpoch(int(found[1]), found[2])


class StoredCommit(NamedTuple):
    """An offset of a group and its metadata text."""

    offset: int
    metadata: str


def is_fenced(stored: StoredCommit, commit: StoredCommit) -> bool:
    """Whether a commit comes from an older epoch than the stored one, or claims an offset that is not the newest."""
    before, now = parse_commit_epoch(stored.metadata), parse_commit_epoch(commit.metadata)
    if before is None or now is None:
        return False
    return now.epoch < before.epoch or (now.epoch > before.epoch and commit.offset < stored.offset)
