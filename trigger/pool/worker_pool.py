"""The worker processes of a replica: starts them, ends those that must not go on, and replaces those that have ended.

Each worker has a place. One task for each place starts the next process after the last one has ended, so that there are
never more workers than places.
"""

import os
import sys
from collections.abc import Sequence

import msgspec
import trio

from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.child_process import status_text
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.machine import memory_used_bytes
from tailrace.runtime.workers.shared_page import clock
from tailrace.runtime.workers.worker_process import start_worker
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource
from tailrace.trigger.work import Chunk, Outcome, Settled, Shard
from tailrace.trigger.worker.frames import (
    CannotStart,
    Done,
    FromWorker,
    Ready,
    SettledLater,
    Start,
    Stop,
    encode,
    work_of,
)
from tailrace.trigger.worker.worker_page import NONE, Doing

from .dispatcher import Dispatcher, Lease
from .live_worker import EndReason, LiveWorker
from .lost_chunks import Cause, ended_by_itself, timed_out, too_much_memory

FAILED_STARTS_MAX = 5
"""The pool gives up after this many workers in a row have ended with no event to blame, if no other worker is ready."""
START_SECONDS_MAX = 120.0
"""How long a worker may take to load the function."""
_PROGRAM = "tailrace.trigger.worker.worker_program"
_MEMORY_LOOK_SECONDS = 0.05
_MEMORY_HARD_FACTOR = 1.5
"""A worker that exceeds its limit by this factor within an event is killed. Otherwise it is replaced after a chunk."""
_FOREVER = float("inf")


class WorkerPoolError(Exception):
    """The pool cannot work. The message is one sentence."""


class WorkerPool:
    """Worker processes that handle chunks of records: see `Workers`."""

    def __init__(
        self,
        source: FunctionSource,
        config: TriggerConfig,
        size: int,
        logger: FilteringBoundLogger,
        chance: Chance,
        *,
        log_level: str = "info",
        log_json: bool = True,
    ) -> None:
        """Prepares a pool. `run` starts its workers, which write their logs in the given way. No worker handles an
        event before `set_lease`."""
        self.size = size
        self._source = source
        self._config = config
        self._logger = logger
        self._chance = chance
        self._log_level = log_level
        self._log_json = log_json
        self._look_seconds = config.event_timeout
        """How long after it has sent a chunk the pool looks at the worker."""
        if config.worker_memory_max is not None:
            self._look_seconds = min(config.event_timeout, _MEMORY_LOOK_SECONDS)
        self._lease = Lease()
        self._dispatcher = Dispatcher(self._lease, clock)
        self._workers = self._dispatcher.workers
        self._first_ready = trio.Event()
        self._stop_asked = trio.Event()
        self._looks_again = trio.Event()
        """Wakes the task that watches deadlines."""
        self._looks_at = 0.0
        """When that task looks next."""

    @property
    def busy(self) -> int:
        return sum(1 for worker in self._workers.values() if worker.sent)

    @property
    def pids(self) -> dict[int, int]:
        """The process ids of the live workers, by their place."""
        return {place: worker.process.pid for place, worker in self._workers.items()}

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs the workers until `stop`. The task has started when the first worker has loaded the function. Raises
        WorkerPoolError if the function cannot be loaded, or if workers end again and again."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                nursery.start_soon(self._tell_start, task_status)
                async with trio.open_nursery() as places:
                    for place in range(self.size):
                        places.start_soon(self._keep, place)
                nursery.cancel_scope.cancel()
                if not self._first_ready.is_set():
                    task_status.started()
        except BaseExceptionGroup as group:
            error = first_error(group)
            if isinstance(error, WorkerPoolError):
                raise error from None
            raise

    async def handle(self, chunk: Chunk) -> Outcome:
        """See `Workers.handle`."""
        if self._stop_asked.is_set():
            await trio.lowlevel.checkpoint()
            return Outcome(next_offset=chunk.first)
        job = self._dispatcher.submit(chunk)
        self._look_by(clock() + self._look_seconds)
        try:
            await job.done.wait()
        except trio.Cancelled:
            self._dispatcher.give_up(job)
            raise
        finally:
            self._dispatcher.seen(job)
        assert job.outcome is not None
        return job.outcome

    async def next_settled(self) -> Sequence[Settled]:
        """See `Workers.next_settled`."""
        dispatcher = self._dispatcher
        while not dispatcher.settled:
            dispatcher.has_settled = trio.Event()
            await dispatcher.has_settled.wait()
        settled, dispatcher.settled = dispatcher.settled, []
        return settled

    async def abandon(self, shard: Shard) -> None:
        """See `Workers.abandon`."""
        for worker in list(self._workers.values()):
            if worker.has_given_up_chunk or any(each == shard for each, _ in worker.opened):
                worker.end(EndReason("its events belong to a shard that was given up"))
                await worker.ended.wait()

    def set_lease(self, until: float) -> None:
        """See `Workers.set_lease`."""
        # If this process is stopped between the two looks, the lease ends too early and not too late.
        now = clock()
        self._lease.until = now + (until - trio.current_time())
        for worker in self._workers.values():
            self._dispatcher.show_lease(worker)
        self._dispatcher.dispatch()
        self._look_by(self._lease.until)

    async def stop(self, seconds: float) -> None:
        """See `Workers.stop`."""
        self._stop_asked.set()
        self._dispatcher.refuse_waiting()
        with trio.move_on_after(seconds):
            for worker in list(self._workers.values()):
                self._retire_now(worker)
            while self._workers:
                await next(iter(self._workers.values())).ended.wait()
        for worker in list(self._workers.values()):
            worker.end(EndReason("the replica stops, and the time for that is over"))
            with trio.CancelScope(shield=True):
                await worker.ended.wait()

    def _retire_now(self, worker: LiveWorker) -> None:
        if not worker.is_ready:
            worker.end(EndReason("the replica stops"))
            return
        worker.is_paused = True
        self._dispatcher.show_lease(worker)
        worker.retire(0.0)
        worker.ask_to_stop_if_idle(clock())

    # The life of the workers.

    async def _tell_start(self, task_status: trio.TaskStatus[None]) -> None:
        await self._first_ready.wait()
        task_status.started()

    async def _keep(self, place: int) -> None:
        """Keeps a worker in its place until the pool stops."""
        failures = 0
        while not self._stop_asked.is_set():
            try:
                failure = await self._live(place)
            except OSError as error:
                failure = f"a worker process cannot be started: {error}"
                self._logger.error("worker_did_not_start", worker=place, reason=str(error))
            if failure is None:
                failures = 0
                continue
            failures += 1
            if failures >= FAILED_STARTS_MAX and not any(each.is_ready for each in self._workers.values()):
                raise WorkerPoolError(f"{self._source.path}: {failures} workers in a row have ended: {failure}")
            with trio.move_on_after(spread_pause_seconds(failures, self._chance)):
                await self._stop_asked.wait()

    async def _live(self, place: int) -> str | None:
        """Runs a worker until it ends. Returns why it was of no use; None if it has worked. Raises OSError if it cannot
        be started."""
        process = start_worker([sys.executable, "-P", "-m", _PROGRAM], {**os.environ, **self._config.environment})
        worker = LiveWorker(place, process, clock())
        self._dispatcher.show_lease(worker)
        self._workers[place] = worker
        try:
            self._look_by(worker.moved_at + START_SECONDS_MAX)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, worker)
                nursery.start_soon(self._receive, worker)
                await process.wait()
                nursery.cancel_scope.cancel()
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                ending = status_text(await process.wait())
            while data := process.receive_now():
                self._take(worker, data)
            del self._workers[place]
            self._dispatcher.on_ended(worker, self._cause(worker, ending))
            process.close()
            worker.ended.set()
        self._log_end(worker, ending)
        if worker.refusal is not None:
            if not self._first_ready.is_set():
                raise WorkerPoolError(worker.refusal)
            return worker.refusal
        is_fine = worker.has_worked or worker.was_asked_to_stop or (worker.is_ready and worker.end_reason is not None)
        return None if is_fine else f"the last one ended with {ending} before it had handled an event"

    def _cause(self, worker: LiveWorker, ending: str) -> Cause | None:
        """Returns what the running event of a worker that has ended is blamed for; None if it is not to blame."""
        reason = worker.end_reason
        if reason is None:
            # The watchdog of the worker ends it when the lease is over, which is not the fault of the event.
            return ended_by_itself(ending) if clock() < self._lease.until else None
        last = worker.page.doing()
        is_same = reason.blamed is not None and _event_of(reason.blamed) == _event_of(last)
        return reason.cause if is_same else None

    def _log_end(self, worker: LiveWorker, ending: str) -> None:
        if worker.was_asked_to_stop or self._stop_asked.is_set():
            return
        reason = ending if worker.end_reason is None else worker.end_reason.text
        if worker.refusal is not None and not self._first_ready.is_set():
            return  # it is the error of the whole pool
        if worker.is_ready:
            self._logger.warning("worker_ended", worker=worker.place, pid=worker.process.pid, reason=reason)
        else:
            self._logger.error("worker_did_not_start", worker=worker.place, reason=worker.refusal or reason)

    async def _send(self, worker: LiveWorker) -> None:
        start = Start(self._source, self._config, worker.place, self._log_level, self._log_json)
        try:
            await worker.process.send([encode(start)])
            async for job in worker.to_send:
                if job is None:
                    await worker.process.send([encode(Stop())])
                else:
                    await worker.process.send([encode(work_of(job.number, job.chunk)), *job.chunk.batches])
        except BrokenPipeError:
            pass  # the worker is ending

    async def _receive(self, worker: LiveWorker) -> None:
        while data := await worker.process.receive():
            self._take(worker, data)

    def _take(self, worker: LiveWorker, data: bytes) -> None:
        try:
            for message in worker.inbox.add(data):
                self._take_message(worker, message)
        except (msgspec.DecodeError, IndexError):
            worker.end(EndReason("it sent something that is no message of a worker"))

    def _take_message(self, worker: LiveWorker, message: FromWorker) -> None:
        match message:
            case Done(number, outcome):
                self._retire_if_too_large(worker)
                self._dispatcher.on_done(worker, number, outcome)
                if worker.takes_chunk:
                    self._look_by(self._dispatcher.take_from_slow(clock()))
            case SettledLater(events):
                self._dispatcher.on_settled(worker, events)
            case Ready():
                worker.is_ready = True
                self._check_first_size(worker)
                if self._stop_asked.is_set():
                    self._retire_now(worker)
                self._first_ready.set()
                self._dispatcher.dispatch()
            case CannotStart(text):
                worker.refusal = text

    # Memory.

    def _check_first_size(self, worker: LiveWorker) -> None:
        limit = self._config.worker_memory_max
        if limit is None or self._first_ready.is_set():
            return
        used = memory_used_bytes(worker.process.pid)
        if used is not None and used > limit:
            raise WorkerPoolError(
                f"{self._source.path}: a worker uses {used >> 20} MiB after it has loaded the function, which is more "
                f"than worker_memory_max ({limit >> 20} MiB): allow more"
            )

    def _retire_if_too_large(self, worker: LiveWorker) -> None:
        limit = self._config.worker_memory_max
        if limit is None or worker.retires_by is not None:
            return
        used = memory_used_bytes(worker.process.pid)
        if used is not None and used > limit:
            self._logger.info("worker_replaced", worker=worker.place, used_bytes=used, limit_bytes=limit)
            worker.retire(clock() + self._config.acknowledgement_timeout)
            self._look_by(clock() + self._config.acknowledgement_timeout)

    # Deadlines.

    def _look_by(self, at: float) -> None:
        if at < self._looks_at:
            self._looks_again.set()

    async def _watch(self) -> None:
        """Ends workers that exceed a deadline, the lease or their memory."""
        while True:
            now = clock()
            looks = [self._look(worker, now) for worker in list(self._workers.values())]
            looks.append(self._dispatcher.take_from_slow(now))
            if self._dispatcher.has_work:
                looks.append(now + self._look_seconds)
            self._looks_at = min(looks)
            self._looks_again = trio.Event()
            with trio.move_on_after(max(0.0, self._looks_at - now)):
                await self._looks_again.wait()

    def _look(self, worker: LiveWorker, now: float) -> float:
        """Looks at one worker, ends it if it must end, and returns when to look again."""
        if worker.end_reason is not None:
            return _FOREVER
        doing = worker.look(now)
        if not worker.is_ready:
            return self._look_at_start(worker, now)
        looks: list[float] = []
        if worker.retires_by is not None:
            worker.ask_to_stop_if_idle(now)
            looks.append(_FOREVER if worker.retires_by <= now else worker.retires_by)
        if doing.running != NONE or doing.open:
            if now >= self._lease.until:
                worker.end(EndReason("the lease of the replica is over"))
                return _FOREVER
            looks.append(self._lease.until)
        if worker.sent:
            looks.append(self._look_at_event(worker, doing, now))
        return min(looks, default=_FOREVER)

    def _look_at_start(self, worker: LiveWorker, now: float) -> float:
        overdue_at = worker.moved_at + START_SECONDS_MAX
        if now < overdue_at:
            return overdue_at
        worker.end(EndReason(f"it did not load the function within {START_SECONDS_MAX:g} s"))
        return _FOREVER

    def _look_at_event(self, worker: LiveWorker, doing: Doing, now: float) -> float:
        timeout = self._config.event_timeout
        overdue_at = worker.overdue_at(doing, timeout)
        if now >= overdue_at:
            worker.end(EndReason(f"its event took longer than {timeout:g} s", timed_out(timeout), doing))
            return _FOREVER
        limit = self._config.worker_memory_max
        if limit is None:
            return overdue_at
        used = memory_used_bytes(worker.process.pid)
        if used is not None and used > limit * _MEMORY_HARD_FACTOR:
            worker.end(EndReason("its event used too much memory", too_much_memory(used, limit), doing))
            return _FOREVER
        return min(overdue_at, now + _MEMORY_LOOK_SECONDS)


def _event_of(doing: Doing) -> tuple[int, int, float]:
    return doing.chunk, doing.running, doing.started
