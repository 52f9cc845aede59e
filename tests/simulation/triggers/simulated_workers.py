"""Workers of a simulated replica: they call a handler in Python that takes virtual time, fails, or dies.

They behave like the real pool. The lease lies in memory that replica and workers share: a worker begins no event after
it, and a watchdog in the worker ends the worker if its event still runs then. The replica, too, kills workers that
exceed the lease. What a worker says arrives at the replica as a message, so a stopped replica learns of it later.

If replica and worker are both stopped, nothing can end the event before both go on. The watchdog then comes first, so
that the event counts as ended when the worker was stopped.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

import trio
from msgspec import Struct

from tailrace.protocol.batches.records import Record, read_records
from tailrace.trigger.work import Chunk, Failure, FailureKind, Outcome, Output, Settled, Shard

from .stopped_processes import ProcessHost, StoppableProcess
from .trigger_history import End, Handling, Tenure, TriggerHistory

STEP_SECONDS = 0.02
START_SECONDS = 0.1
"""How long a worker takes to start."""


class Handler(Struct, frozen=True):
    """What the function of the trigger does."""

    chance: Random
    topic: str
    """Where it emits records to."""
    fails: float = 0.03
    dies: float = 0.005
    """The probability that the worker dies in an event."""
    slow: float = 0.02
    """The probability that an event takes long."""
    slow_seconds: tuple[float, ...] = (0.3, 1.5)
    """How long such an event may take."""

    def seconds(self) -> float:
        """Returns how long an event takes."""
        if self.chance.random() < self.slow:
            return self.chance.choice(self.slow_seconds)
        return self.chance.choice((0.0, 0.001, 0.01)) * self.chance.random()

    def output(self, value: bytes) -> bytes | None:
        """Returns the value of the record that an event emits, if it does."""
        return value if sum(value) % 2 else None

    @staticmethod
    def is_bad(value: bytes) -> bool:
        """Whether the event always fails."""
        return sum(value) % 29 == 0


class _Job:
    """A chunk for which a task of the replica waits."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.done = trio.Event()
        self.outcome: Outcome | None = None
        self.is_given_up = False


class _Page:
    """What replica and worker share."""

    def __init__(self, lease_until: float) -> None:
        self.lease_until = lease_until
        self.may_begin = True
        self.safe = 0
        """The offset before which the events of the chunk are handled, and nothing of them is unsent."""
        self.running: Handling | None = None
        self.tenure: Tenure | None = None
        """Whose the shard of the chunk is, according to the last claim."""


class SimulatedWorker:
    """One worker process."""

    def __init__(self, host: ProcessHost, name: str, owner: str, lease_until: float) -> None:
        self.process = StoppableProcess(host, name)
        self.owner = owner
        self.page = _Page(lease_until)
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.job: _Job | None = None
        self.is_ready = False
        self.died_by_itself = False
        self.to_worker, self.inbox = trio.open_memory_channel[Chunk](1)
        self.to_replica, self.results = trio.open_memory_channel[Outcome](1)

    def kill(self) -> None:
        """Ends the worker like SIGKILL."""
        self.process.resume()
        self.scope.cancel()


class SimulatedWorkers:
    """The workers of one process of a replica: see `Workers`."""

    def __init__(
        self,
        nursery: trio.Nursery,
        host: ProcessHost,
        owner: StoppableProcess,
        size: int,
        handler: Handler,
        history: TriggerHistory,
        on_broken: Callable[[str], None],
    ) -> None:
        """Takes a nursery for the worker processes, which outlive tasks of the replica for a moment."""
        self.size = size
        self.live: list[SimulatedWorker] = []
        self._nursery = nursery
        self._host = host
        self._owner = owner
        self._handler = handler
        self._history = history
        self._on_broken = on_broken
        self._lease_until = 0.0
        self._waiting: deque[_Job] = deque()
        self._is_stopping = False
        self._changed = trio.Event()
        self._starts = 0

    @property
    def busy(self) -> int:
        return sum(each.job is not None for each in self.live)

    # What the replica asks

    async def run(self) -> None:
        """Keeps workers until it is cancelled; runs in the process of the replica."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            for place in range(self.size):
                nursery.start_soon(self._keep, place)

    async def handle(self, chunk: Chunk) -> Outcome:
        """See `Workers.handle`."""
        if self._is_stopping:
            await trio.lowlevel.checkpoint()
            return Outcome(next_offset=chunk.first)
        job = _Job(chunk)
        self._waiting.append(job)
        self._dispatch()
        try:
            await job.done.wait()
        except trio.Cancelled:
            self._give_up(job)
            raise
        assert job.outcome is not None
        return job.outcome

    async def next_settled(self) -> Sequence[Settled]:
        """See `Workers.next_settled`; no event is open here."""
        await trio.sleep_forever()
        return ()

    async def abandon(self, shard: Shard) -> None:
        """See `Workers.abandon`; no event is open here, but one of a cancelled chunk may still run."""
        await trio.lowlevel.checkpoint()
        for each in list(self.live):
            if each.job is not None and each.job.is_given_up:
                each.kill()
                await each.ended.wait()

    def set_lease(self, until: float) -> None:
        """See `Workers.set_lease`."""
        self._lease_until = until
        for each in self.live:
            each.page.lease_until = until
        self._dispatch()
        self._notify()

    async def stop(self, seconds: float) -> None:
        """See `Workers.stop`."""
        self._is_stopping = True
        while self._waiting:
            self._finish(job := self._waiting.popleft(), Outcome(next_offset=job.chunk.first))
        for each in self.live:
            each.page.may_begin = False
        with trio.move_on_after(seconds):
            while self.busy:
                await self._changed.wait()
        for each in list(self.live):
            each.kill()

    def kill_all(self) -> None:
        """Kills all workers, as the kernel does when the replica is killed."""
        for each in list(self.live):
            each.kill()

    # Dispatching

    def _dispatch(self) -> None:
        while self._waiting and trio.current_time() < self._lease_until:
            free = next((each for each in self.live if each.is_ready and each.job is None), None)
            if free is None:
                return
            free.job = self._waiting.popleft()
            free.to_worker.send_nowait(free.job.chunk)

    def _give_up(self, job: _Job) -> None:
        job.is_given_up = True
        if job in self._waiting:
            self._waiting.remove(job)
        for each in self.live:
            if each.job is job:
                each.page.may_begin = False

    def _finish(self, job: _Job, outcome: Outcome) -> None:
        if not job.is_given_up:
            job.outcome = outcome
            job.done.set()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _watch(self) -> None:
        """Kills workers whose events exceed the lease."""
        while True:
            changed, now = self._changed, trio.current_time()
            if now >= self._lease_until:
                for each in list(self.live):
                    if each.page.running is not None:
                        each.kill()
            with trio.move_on_at(self._lease_until if now < self._lease_until else float("inf")):
                await changed.wait()

    async def _keep(self, place: int) -> None:
        while not self._is_stopping:
            await trio.sleep(START_SECONDS)
            self._starts += 1
            name = f"{self._owner.name}/worker{place}#{self._starts}"
            worker = SimulatedWorker(self._host, name, self._owner.name, self._lease_until)
            self.live.append(worker)
            with worker.process.entered():
                self._nursery.start_soon(self._live, worker, name=name)
            worker.is_ready = True
            self._dispatch()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._receive, worker)
                await worker.ended.wait()
                nursery.cancel_scope.cancel()
            self._take_results(worker)
            self.live.remove(worker)
            self._on_ended(worker)
            self._notify()

    async def _receive(self, worker: SimulatedWorker) -> None:
        async for outcome in worker.results:
            self._take(worker, outcome)

    def _take_results(self, worker: SimulatedWorker) -> None:
        try:
            while True:
                self._take(worker, worker.results.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel):
            pass

    def _take(self, worker: SimulatedWorker, outcome: Outcome) -> None:
        job, worker.job = worker.job, None
        worker.page.may_begin = not self._is_stopping
        assert job is not None, "only a chunk has an outcome"
        self._finish(job, outcome)
        self._dispatch()
        self._notify()

    def _on_ended(self, worker: SimulatedWorker) -> None:
        job, worker.job = worker.job, None
        if job is None:
            return
        chunk, page = job.chunk, worker.page
        failure = None
        if worker.died_by_itself and page.running is not None and trio.current_time() < self._lease_until:
            offset = page.running.offset
            failure = Failure(FailureKind.WORKER_ENDED, offset, offset + 1, "SIGKILL")
        safe = min(max(page.safe, chunk.first), chunk.end)
        if page.tenure is not None:
            self._history.lose(page.tenure, safe)
        self._finish(job, Outcome(safe, failure=failure))

    # The worker process

    async def _live(self, worker: SimulatedWorker) -> None:
        try:
            with worker.scope:
                async for chunk in worker.inbox:
                    worker.to_replica.send_nowait(await self._run(worker, chunk))
        except AssertionError as error:
            self._on_broken(str(error))
        finally:
            worker.to_replica.close()
            worker.ended.set()

    async def _run(self, worker: SimulatedWorker, chunk: Chunk) -> Outcome:
        began, page = trio.current_time(), worker.page
        page.safe = chunk.first
        page.tenure = self._history.tenure_of(chunk.shard.number)
        outputs: list[Output] = []
        events, next_offset = 0, chunk.first
        for record in _records_of(chunk):
            now = trio.current_time()
            if not page.may_begin or now >= min(page.lease_until, began + chunk.seconds_max):
                break
            failure = await self._handle(worker, chunk.shard, record, outputs)
            if failure is not None:
                return Outcome(record.offset, events, tuple(outputs), failure, trio.current_time() - began)
            events, next_offset = events + 1, record.offset + 1
            if not outputs:
                page.safe = next_offset
        else:
            next_offset = chunk.end
        await trio.lowlevel.checkpoint()
        return Outcome(next_offset, events, tuple(outputs), None, trio.current_time() - began)

    async def _handle(
        self, worker: SimulatedWorker, shard: Shard, record: Record, outputs: list[Output]
    ) -> Failure | None:
        handler, page, chance = self._handler, worker.page, self._handler.chance
        value = bytes(record.value or b"")
        seconds = handler.seconds()
        fails = handler.is_bad(value) or chance.random() < handler.fails
        dies = chance.random() < handler.dies
        page.running = running = self._history.begin(
            worker.owner, shard.number, record.offset, value, trio.current_time()
        )
        end = End.CUT
        output: bytes | None = None
        try:
            await self._spend(worker, running, seconds)
            if dies:
                end, worker.died_by_itself = End.FAILED, True
                worker.scope.cancel()
                await trio.lowlevel.checkpoint()
            if fails:
                end = End.FAILED
                return Failure(FailureKind.RAISED, record.offset, record.offset + 1, "ValueError", "no luck")
            end, output = End.HANDLED, handler.output(value)
            if output is not None:
                outputs.append(Output(handler.topic, record.key, output))
        finally:
            self._note_stop(worker, running)
            self._history.end(running, end, trio.current_time(), output)
            if end is not End.CUT and not dies:
                page.running = None
        return None

    async def _spend(self, worker: SimulatedWorker, running: Handling, seconds: float) -> None:
        """Takes the time of an event; the watchdog ends the worker if the lease is over meanwhile."""
        page = worker.page
        ends = trio.current_time() + seconds
        while (now := trio.current_time()) < ends:
            woken_at = min(ends, now + STEP_SECONDS, max(page.lease_until, now))
            await trio.sleep_until(woken_at)
            self._note_stop(worker, running)
            if trio.current_time() >= page.lease_until:
                worker.scope.cancel()
                await trio.lowlevel.checkpoint()

    def _note_stop(self, worker: SimulatedWorker, running: Handling) -> None:
        stopped_at, went_on_at = worker.process.last_stop
        if stopped_at >= running.began:
            self._history.pause(running, stopped_at, went_on_at)


def _records_of(chunk: Chunk) -> list[Record]:
    records = [record for batch in chunk.batches for record in read_records(batch)]
    wanted = None if chunk.offsets is None else set(chunk.offsets)
    return [
        each for each in records if chunk.first <= each.offset < chunk.end and (wanted is None or each.offset in wanted)
    ]
