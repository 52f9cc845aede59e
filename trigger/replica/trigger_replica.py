"""One replica of a trigger: runs a task for each of its shards, commits, reports, and stops in order.

The membership says which shards the replica may handle, and until when. The replica starts a task for each shard that
it gets, cancels the tasks of shards that it has lost, and drains those that it should release.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Protocol

import trio
from msgspec import Struct

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.cluster.stream_state.rebalance_causes import Rebalance
from tailrace.cluster.stream_state.replica_report import ReplicaReport, ReplicaState, encode_report
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.trigger.config.trigger_config import RetryMode
from tailrace.trigger.membership.member_lease import MemberLease
from tailrace.trigger.work import Shard

from .mark_committer import REFRESH_SECONDS, MarkCommitter
from .replica_metrics import ReplicaGauges
from .shard_task import ShardParts, ShardTask

REPORT_SECONDS = 2.0
REPORT_SECONDS_MIN = 0.2
"""How soon a report may follow the last one, if shards have come or gone."""
KILL_SECONDS_MAX = 2.0
"""How long it may take until the outcomes of killed events are known."""
DEPARTURE_SECONDS_MAX = 5.0
"""How long the last commit and the departure from the group may take after all events have ended."""


class ReplicaMembership(Protocol):
    """What a replica asks of its membership."""

    @property
    def shards(self) -> Mapping[int, int]:
        """The shards that the replica may handle now, with the epoch of each."""

    @property
    def waiting_for(self) -> str:
        """What the replica waits for, in words; empty if it has its share."""

    async def run(self) -> None:
        """Keeps the membership, and returns after `leave`."""

    def released(self, shard: int) -> None:
        """Gives up a shard whose events are all handled and committed."""

    async def leave(self) -> None:
        """Asks the replica to release all shards, and returns when it has left the group."""

    async def raise_epoch(self, above: int) -> None:
        """Returns when all shards of the replica have epochs above one that a stored commit has, or are lost."""


class ReplicaName(Struct, frozen=True):
    """Which replica this is, and where it runs."""

    trigger: str
    member_id: str
    host: str = ""
    pid: int = 0
    revision: int = 0
    """The revision of the deployed trigger that the replica runs, or 0."""


Report = Callable[[str], Awaitable[None]]
"""Gives the SC the report of a replica, as JSON. Raises UnreachableError and RefusedError."""


class _Running(Struct):
    """A shard whose task runs."""

    task: ShardTask
    scope: trio.CancelScope
    is_lost: bool = False


class Replica:
    """A replica; as a `ShardOwner` it does what its membership says."""

    def __init__(
        self,
        name: ReplicaName,
        parts: ShardParts,
        join: Callable[["Replica"], ReplicaMembership],
        report: Report | None = None,
    ) -> None:
        """Takes a function that makes the membership, and one that reports to the SC, if there is one."""
        self.name = name
        self._parts = parts
        self._config = parts.config
        self.metrics = parts.metrics
        self._lease: MemberLease | None = None
        self._membership = join(self)
        self._send_report = report
        self._committer = MarkCommitter(parts.offsets, parts.metrics, parts.logger)
        self._running: dict[Shard, _Running] = {}
        """The shards of the topic, and with retries aside those of the retry topic, whose tasks have not ended."""
        self._to_start: dict[int, int] = {}
        """Shards that were lost and gained again, whose old tasks have not ended."""
        self._has_ended = trio.Condition()
        self._nursery: trio.Nursery | None = None
        """The owner of the tasks of shards; None before `run`."""
        self._is_stopping = trio.Event()
        self._has_news = trio.Event()
        """Set if the SC should get a report soon."""
        self._reported = (0.0, 0)
        """The time of the last report, and how many events were handled until then."""

    def stop(self) -> None:
        """Begins an orderly stop: no new event, the running ones end or are given up, marks are committed."""
        self._has_news.set()
        self._is_stopping.set()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until the replica has stopped and left the group."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._membership.run)
            nursery.start_soon(self._commit_periodically)
            nursery.start_soon(self._settle)
            if self._send_report is not None:
                nursery.start_soon(self._report_periodically, self._send_report)
            task_status.started()
            await self._is_stopping.wait()
            await self._leave()
            nursery.cancel_scope.cancel()

    # What the membership says

    def on_lease(self, lease: MemberLease) -> None:
        """Handles shards until the ends of a lease."""
        self._lease = lease
        self._parts.workers.set_lease(lease.handle_until)
        for each in self._running.values():
            each.task.wake()

    def on_gained(self, shards: Mapping[int, int]) -> None:
        """Begins to handle shards; each comes with its epoch."""
        self._has_news.set()
        for number, epoch in shards.items():
            if self._tasks_of(number):
                self._to_start[number] = epoch  # tasks that were cancelled still end
            else:
                self._start(number, epoch)

    def on_release(self, shards: Collection[int]) -> None:
        """Drains shards, commits their marks, and releases them."""
        for number in shards:
            running = self._tasks_of(number)
            if self._to_start.pop(number, None) is not None or not running:
                self._membership.released(number)  # nothing of it has begun
            for each in running:
                each.task.drain()

    def on_lost(self, shards: Collection[int]) -> None:
        """Stops handling shards at once."""
        self._has_news.set()
        for number in shards:
            self._to_start.pop(number, None)
            for each in self._tasks_of(number):
                each.is_lost = True
                each.scope.cancel()

    def on_rebalanced(self, rebalance: Rebalance) -> None:
        """Counts shards that a write of the state has moved."""
        self.metrics.rebalances[rebalance.cause.value] += 1

    def may_hand_out(self, now: float) -> bool:
        """Whether events may be given to workers."""
        return self._lease is not None and now < self._lease.hand_out_until

    async def raise_epoch(self, above: int) -> None:
        """Gets epochs above the given one, which a claim has from before the state object was made anew."""
        await self._membership.raise_epoch(above)
        for shard, each in self._running.items():
            each.task.epoch = self._membership.shards.get(shard.number, each.task.epoch)

    # Shards

    def _tasks_of(self, number: int) -> list[_Running]:
        return [each for shard, each in self._running.items() if shard.number == number]

    def _start(self, number: int, epoch: int) -> None:
        topics = [self._config.topic]
        if self._config.retry.mode is RetryMode.ASIDE:
            topics.append(self._config.retry_topic)
        for topic in topics:
            task = ShardTask(Shard(topic, number), epoch, self._parts, self)
            self._running[task.shard] = running = _Running(task, trio.CancelScope())
            assert self._nursery is not None, "the membership runs only while the replica does"
            self._nursery.start_soon(self._run_shard, running, name=f"shard {task.shard}")

    async def _run_shard(self, running: _Running) -> None:
        task, number = running.task, running.task.shard.number
        try:
            with running.scope:
                await task.run()
                await self._commit_last(task)
            if running.scope.cancelled_caught and not running.is_lost:  # its time is over, and its workers have ended
                await task.commit_last()
                await self._committer.commit(_marked([task]))
            await self._parts.workers.abandon(task.shard)
        finally:
            task.close()
            del self._running[task.shard]
        self._has_news.set()
        if not self._tasks_of(number):
            if not running.is_lost:
                self._membership.released(number)
            if number in self._to_start:
                self._start(number, self._to_start.pop(number))
        async with self._has_ended:
            self._has_ended.notify_all()

    async def _commit_last(self, task: ShardTask) -> None:
        """Commits the final mark of a shard, however long it takes: the owner of the scope bounds the time."""
        failures = 0
        while not await self._committer.commit(_marked([task])):
            failures += 1
            await trio.sleep(spread_pause_seconds(failures, self._parts.chance))

    async def _commit_periodically(self) -> None:
        refreshed_at = trio.current_time()
        while True:
            await trio.sleep(self._config.commit_interval)
            now = trio.current_time()
            if self._lease is None or now >= self._lease.handle_until:
                continue  # another replica may have the shards
            is_refresh = now >= refreshed_at + REFRESH_SECONDS
            if is_refresh:
                refreshed_at = now
            tasks = [each.task for each in self._running.values() if not each.is_lost]
            await self._committer.commit(_marked(tasks), unchanged=is_refresh)

    async def _settle(self) -> None:
        """Tells shards what became of their open events."""
        while True:
            for settled in await self._parts.workers.next_settled():
                found = [each.task for each in self._tasks_of(settled.shard.number) if not each.is_lost]
                # A record of the retry topic was first in a shard of the topic, which may know its offset as well.
                found.sort(key=lambda task: task.shard.topic == self._config.topic)
                task = next((each for each in found if each.knows(settled)), None)
                if task is not None:
                    task.settle(settled)

    # The end

    async def _leave(self) -> None:
        """Drains all shards, gives up what runs for too long, commits, and leaves the group."""
        self._parts.logger.info("replica_stopping", shards=self._numbers)
        async with trio.open_nursery() as nursery:

            async def depart() -> None:
                await self._membership.leave()
                nursery.cancel_scope.cancel()

            nursery.start_soon(depart)
            await self._drain()
            await trio.sleep(DEPARTURE_SECONDS_MAX)
            self._parts.logger.warning("departure_failed", shards=self._numbers)
            nursery.cancel_scope.cancel()

    async def _drain(self) -> None:
        """Kills events that do not end in time, so that their shards are released."""
        with trio.move_on_after(self._config.stop_timeout):
            await self._all_ended()
            return
        await self._parts.workers.stop(0.0)
        with trio.move_on_after(KILL_SECONDS_MAX):
            await self._all_ended()
            return
        for each in self._running.values():
            each.scope.cancel()  # what handlers emitted cannot be sent, or a mark cannot be committed

    async def _all_ended(self) -> None:
        async with self._has_ended:
            while self._running:
                await self._has_ended.wait()

    # What people see

    def gauges(self) -> ReplicaGauges:
        """Returns the gauges of the replica at this moment."""
        wall_ms = self._parts.wall_clock.now_ms()
        workers = self._parts.workers
        shards = {each.shard.number: each.gauges(wall_ms) for each in self._main_tasks}
        return ReplicaGauges(workers.size, workers.busy, shards)

    @property
    def _main_tasks(self) -> list[ShardTask]:
        """The tasks of the topic's shards, without those of the retry topic."""
        return [each.task for shard, each in sorted(self._running.items()) if shard.topic == self._config.topic]

    @property
    def _numbers(self) -> list[int]:
        return sorted({shard.number for shard in self._running})

    def report(self) -> ReplicaReport:
        """Returns what the SC is told about the replica."""
        wall_ms, now = self._parts.wall_clock.now_ms(), trio.current_time()
        metrics, workers = self.metrics, self._parts.workers
        before, events = self._reported
        self._reported = (now, metrics.events)
        return ReplicaReport(
            topic=self._config.topic,
            group=self._config.group,
            replica=self.name.member_id,
            state=self.state,
            reason=self._membership.waiting_for,
            revision=self.name.revision,
            host=self.name.host,
            pid=self.name.pid,
            workers=workers.size,
            busy_workers=workers.busy,
            shards=tuple(each.report(wall_ms) for each in self._main_tasks),
            events=metrics.events,
            failures=metrics.failures.total(),
            dead_letters=metrics.dead_letters,
            events_per_second=round((metrics.events - events) / (now - before), 1) if now > before > 0 else 0.0,
        )

    @property
    def state(self) -> ReplicaState:
        """What the replica does as a whole."""
        if self._is_stopping.is_set():
            return ReplicaState.STOPPING
        if self._running:
            return ReplicaState.MEMBER
        return ReplicaState.WAITING if self._membership.waiting_for else ReplicaState.STARTING

    async def _report_periodically(self, send: Report) -> None:
        while True:
            self._has_news = trio.Event()
            # Without an SC the report is lost, and the membership says so.
            with suppress(UnreachableError, RefusedError):
                await send(encode_report(self.report()))
            await trio.sleep(REPORT_SECONDS_MIN)
            with trio.move_on_after(REPORT_SECONDS - REPORT_SECONDS_MIN):
                await self._has_news.wait()


def _marked(tasks: Iterable[ShardTask]) -> list[ShardTask]:
    """Returns the tasks whose marks are committed outside of transactions."""
    return [each for each in tasks if not each.commits_itself]
