"""Commits the marks of a replica's shards to the offsets of its group, at an interval and whenever it is asked to."""

from collections.abc import Iterable
from typing import Protocol

import trio

from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.trigger.work import Shard

from .group_offsets import GroupOffsets, Mark
from .replica_metrics import ReplicaMetrics

REFRESH_SECONDS = 3600.0
"""How often marks are committed that have not changed, because the coordinator forgets offsets after some days."""


class Marked(Protocol):
    """A shard with a mark."""

    @property
    def shard(self) -> Shard:
        """The name of the shard."""

    @property
    def epoch(self) -> int:
        """The epoch with which the replica owns the shard."""

    @property
    def mark(self) -> int:
        """The offset before which everything is handled; -1 if nothing is known yet."""

    committed: int
    """The last committed offset, or -1."""

    def on_fenced(self) -> None:
        """Notes that another replica has claimed the shard. It may be called more than once."""


class MarkCommitter:
    """Commits marks that have changed, with one request for all of them."""

    def __init__(self, offsets: GroupOffsets, metrics: ReplicaMetrics, logger: FilteringBoundLogger) -> None:
        self._offsets = offsets
        self._metrics = metrics
        self._logger = logger
        self._problem = ""
        """Why the last commit failed; empty if it succeeded."""

    async def commit(self, shards: Iterable[Marked], *, unchanged: bool = False) -> bool:
        """Commits the marks of shards as they are now; returns whether none has to be committed again.

        `unchanged` also commits marks that are committed already. A fenced mark is final: another replica has claimed
        the shard.
        """
        changed = {each.shard: each for each in shards if each.mark >= 0 and (unchanged or each.mark != each.committed)}
        if not changed:
            await trio.lowlevel.checkpoint()
            return True
        marks = {shard: Mark(each.mark, each.epoch) for shard, each in changed.items()}
        try:
            refusals = await self._offsets.commit(marks)
        except (UnreachableError, RefusedError) as error:
            self._failed(reason_of(error), len(marks))
            return False
        is_done = True
        for shard, refused in refusals.items():
            if refused is None:
                changed[shard].committed = marks[shard].offset
                self._metrics.commits += 1
            elif refused.code == ErrorCode.STALE_MEMBER_EPOCH:
                self._metrics.fenced_commits += 1
                changed[shard].on_fenced()
            else:
                is_done = False
                self._failed(f"{shard}: {reason_of(refused)}", 1)
        if is_done and self._problem:
            self._problem = ""
            self._logger.info("marks_committed_again")
        return is_done

    def _failed(self, problem: str, count: int) -> None:
        self._metrics.failed_commits += count
        if problem != self._problem:
            self._problem = problem
            self._logger.warning("marks_not_committed", reason=problem)
