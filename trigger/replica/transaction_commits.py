"""Commits the mark of a shard in transactions, at an interval and at the end.

Each commit takes the turn of the line's runner. So nothing is being sent, and the mark is exactly after the records
whose output the transaction has.
"""

from collections.abc import Awaitable, Callable

import trio

from tailrace.client.transactions.transaction_errors import TransactionLostError

from .group_offsets import Mark
from .line_runner import LineRunner
from .mark_committer import REFRESH_SECONDS
from .replica_metrics import ReplicaMetrics
from .transactional_output import TransactionalOutput


class TransactionCommits:
    """The commits of one line."""

    def __init__(
        self,
        runner: LineRunner,
        output: TransactionalOutput,
        metrics: ReplicaMetrics,
        epoch: Callable[[], int],
        committed: int,
    ) -> None:
        """Takes the runner of a line that begins at the committed offset, and what tells the epoch of its owner."""
        self.committed = committed
        """The last committed offset."""
        self._epoch = epoch
        self._runner = runner
        self._output = output
        self._metrics = metrics
        self._committed_at = trio.current_time()

    async def run_line(self, read: Callable[[], Awaitable[None]], interval: float) -> None:
        """Runs the line until it is drained or what it sent is lost, and commits at an interval and at the end.

        `read` feeds the line with records, and is cancelled at the end. What cannot be committed is aborted.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._commit_periodically, interval)
            await self._runner.run(read)
            async with self._runner.turn:  # a commit that is cancelled would lose its transaction
                nursery.cancel_scope.cancel()
        if not await self.commit() and self._runner.lost is None:
            await self._output.abort("the shard was given up before all events of a list were handled")

    async def _commit_periodically(self, interval: float) -> None:
        while True:
            await trio.sleep(interval)
            await self.commit()

    async def commit(self) -> bool:
        """Commits the mark; returns whether everything that was sent is committed.

        If the transaction is lost, the line is told, and ends.
        """
        runner, output = self._runner, self._output
        async with runner.turn:
            line = runner.line
            if runner.lost is not None or not output.can_commit:
                return False
            if not line.covers_sent:
                if line.stopped is not None:  # it would never do so
                    await output.abort(line.stopped.reason)
                return False
            mark = line.mark
            is_due = trio.current_time() >= self._committed_at + REFRESH_SECONDS
            if mark == self.committed and not output.is_open and not is_due:
                return True
            try:
                await output.commit(Mark(mark, self._epoch()))
            except TransactionLostError as lost:
                self._metrics.failed_commits += 1
                runner.lose(lost)
                return False
            self.committed, self._committed_at = mark, trio.current_time()
            self._metrics.commits += 1
            return True
