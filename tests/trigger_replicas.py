"""Whole replicas of triggers on a simulated network, with workers that call a plain async function in this process."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog
import trio
from msgspec import Struct, field
from simulation.files import SimulatedFiles
from simulation.network import MemoryNetwork
from spus import ADDRESS, SC_PUBLIC, SteadyClock

from tailrace.protocol.batches.records import Record, read_records
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import SeekTo, TriggerConfig
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.replica.replica_setup import ReplicaServers, replica_of
from tailrace.trigger.replica.trigger_replica import Replica, ReplicaName
from tailrace.trigger.work import Chunk, Failure, FailureKind, Outcome, Output, Settled, Shard

Handler = Callable[[Shard, Record], Awaitable[Sequence[Output] | None]]


class InProcessWorkers:
    """Workers that call an async function for each record, one record after the other."""

    def __init__(self, handler: Handler, size: int = 1) -> None:
        self.size = size
        self.chunks: list[Chunk] = []
        self.killed: list[tuple[Shard, int]] = []
        """The events that were ended by the lease or by `stop`."""
        self._handler = handler
        self._workers = trio.CapacityLimiter(size)
        self._lease = float("-inf")
        self._scopes: set[trio.CancelScope] = set()
        self._is_stopped = False
        self._changed = trio.Event()

    @property
    def busy(self) -> int:
        return self._workers.borrowed_tokens

    def set_lease(self, until: float) -> None:
        self._lease = until
        for each in self._scopes:
            each.deadline = until
        self._changed.set()
        self._changed = trio.Event()

    async def handle(self, chunk: Chunk) -> Outcome:
        async with self._workers:
            while trio.current_time() >= self._lease and not self._is_stopped:
                await self._changed.wait()
            self.chunks.append(chunk)
            progress = _Progress(chunk.first, began=trio.current_time())
            with trio.CancelScope(deadline=self._lease) as scope:
                self._scopes.add(scope)
                try:
                    await self._handle(chunk, progress)
                finally:
                    self._scopes.discard(scope)
            if scope.cancelled_caught:
                self.killed.append((chunk.shard, progress.next_offset))
            return progress.outcome()

    async def _handle(self, chunk: Chunk, progress: "_Progress") -> None:
        for record in _records_of(chunk):
            progress.next_offset = record.offset
            now = trio.current_time()
            if self._is_stopped or now >= min(self._lease, progress.began + chunk.seconds_max):
                return
            try:
                progress.outputs += await self._handler(chunk.shard, record) or ()
            except Exception as error:
                kind, end = FailureKind.RAISED, record.offset + 1
                progress.failure = Failure(kind, record.offset, end, type(error).__name__, str(error))
                return
            progress.events += 1
        progress.next_offset = chunk.end

    async def next_settled(self) -> Sequence[Settled]:
        await trio.sleep_forever()
        return ()

    async def abandon(self, shard: Shard) -> None:
        await trio.lowlevel.checkpoint()

    async def stop(self, seconds: float) -> None:
        self._is_stopped = True
        self._changed.set()
        await trio.sleep(seconds)
        for each in self._scopes:
            each.cancel()


class OpenEventWorkers(InProcessWorkers):
    """Workers that leave all events open. A test settles them."""

    def __init__(self) -> None:
        super().__init__(Handled())
        self.opened: list[tuple[int, int]] = []
        """The shard and the offset of each event that was handed out."""
        self._settled: list[Settled] = []
        self._has_settled = trio.Event()

    async def handle(self, chunk: Chunk) -> Outcome:
        await trio.lowlevel.checkpoint()
        offsets = tuple(record.offset for record in _records_of(chunk))
        self.opened += [(chunk.shard.number, offset) for offset in offsets]
        return Outcome(chunk.end, len(offsets), opened=offsets)

    def settle(self, *settled: Settled) -> None:
        self._settled += settled
        self._has_settled.set()

    async def next_settled(self) -> Sequence[Settled]:
        await self._has_settled.wait()
        self._has_settled = trio.Event()
        settled, self._settled = self._settled, []
        return settled


class _Progress(Struct):
    next_offset: int
    began: float
    events: int = 0
    outputs: list[Output] = field(default_factory=list)
    failure: Failure | None = None

    def outcome(self) -> Outcome:
        seconds = trio.current_time() - self.began
        return Outcome(self.next_offset, self.events, tuple(self.outputs), self.failure, seconds)


def _records_of(chunk: Chunk) -> list[Record]:
    records = [record for batch in chunk.batches for record in read_records(batch)]
    wanted = None if chunk.offsets is None else set(chunk.offsets)
    return [
        each for each in records if chunk.first <= each.offset < chunk.end and (wanted is None or each.offset in wanted)
    ]


class RunningReplica:
    def __init__(self, workers: InProcessWorkers) -> None:
        self.workers = workers
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.replica: Replica

    @property
    def metrics(self) -> ReplicaMetrics:
        return self.replica.metrics

    async def stop(self) -> None:
        """Stops the replica as SIGTERM does."""
        self.replica.stop()
        await self.ended.wait()

    async def kill(self) -> None:
        """Ends the replica as kill -9 does."""
        self.scope.cancel()
        await self.ended.wait()

    @property
    def marks(self) -> dict[int, int]:
        return {each.shard: each.marked for each in self.replica.report().shards}


def config(**more: Any) -> TriggerConfig:
    given = {"name": "billing", "topic": "orders", "group": "billing", "seek_to": SeekTo.EARLIEST}
    return TriggerConfig(**{**given, **more})


class ReplicaWorld(Struct):
    """Where replicas run."""

    nursery: trio.Nursery
    network: MemoryNetwork
    brokers: Sequence[Address] = (ADDRESS,)
    sc: Sequence[Address] = (SC_PUBLIC,)
    clock: SteadyClock = field(default_factory=SteadyClock)
    starts: int = 0

    async def start(
        self, handler: Handler, name: str = "replica1", *, workers: int = 1, **changes: Any
    ) -> RunningReplica:
        """Starts a replica."""
        return await self.start_with(InProcessWorkers(handler, workers), name, max_workers=workers, **changes)

    async def start_with(self, pool: InProcessWorkers, name: str = "replica1", **changes: Any) -> RunningReplica:
        """Starts a replica with workers of the test."""
        self.starts += 1
        settings = config(**changes)
        chance, logger = RandomChance(self.starts), structlog.get_logger().bind(replica=name)
        seams = Seams(self.network, SimulatedFiles(), self.clock, chance)
        servers = ReplicaServers(self.sc, self.brokers)
        running = RunningReplica(pool)

        async def run(task_status: trio.TaskStatus[None]) -> None:
            try:
                with running.scope:
                    named = ReplicaName(settings.name, name)
                    async with replica_of(named, settings, pool, servers, seams, logger) as running.replica:
                        await running.replica.run(task_status)
            finally:
                running.ended.set()

        await self.nursery.start(run)
        return running


class Handled:
    """A handler that notes what it gets. It takes `seconds` for each event, and fails the first attempts of some."""

    def __init__(self, seconds: float = 0.0, *, outputs_to: str = "") -> None:
        self.seconds = seconds
        self.events: list[tuple[int, int]] = []
        """The shard and the offset of each event whose handling has ended."""
        self.failing: dict[tuple[int, int], int] = {}
        """How often events fail."""
        self.running: set[tuple[int, int]] = set()
        self._outputs_to = outputs_to
        self._changed = trio.Event()

    async def __call__(self, shard: Shard, record: Record) -> Sequence[Output]:
        event = shard.number, record.offset
        assert event not in self.running, "two workers have the same event"
        self.running.add(event)
        self._notify()
        try:
            await trio.sleep(self.seconds)
            if self.failing.get(event, 0):
                self.failing[event] -= 1
                raise ValueError(f"no luck with {record.offset}")
        finally:
            self.running.discard(event)
            self._notify()
        self.events.append(event)
        self._notify()
        return [Output(self._outputs_to, record.key, record.value)] if self._outputs_to else []

    def of(self, shard: int) -> list[int]:
        return [offset for number, offset in self.events if number == shard]

    async def count(self, events: int) -> None:
        """Waits until so many events were handled."""
        await self.until(lambda: len(self.events) >= events)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something holds, which only this handler changes."""
        while not condition():
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


async def until(condition: Callable[[], bool], seconds_max: float = 120.0) -> None:
    """Waits on a virtual clock until something holds."""
    with trio.fail_after(seconds_max):
        while not condition():  # noqa: ASYNC110 - the clock is virtual
            await trio.sleep(0.05)
