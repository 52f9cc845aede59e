"""Decides which worker gets which chunk, and takes outcomes back to the tasks that wait for them. It never waits.

The free worker takes the chunk that waits longest. A busy worker with quick events gets its next chunk in advance. If
its events turn out slow, a worker that has become free gets that chunk instead.
"""

from collections import deque
from collections.abc import Callable

import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.trigger.work import Chunk, Outcome, Settled, Shard
from tailrace.trigger.worker.unsent_outputs import kept_outputs

from .live_worker import Job, LiveWorker
from .lost_chunks import Cause, outcome_of_lost

PATIENCE_SECONDS = 0.01
"""How long a chunk waits behind another one while a worker is free."""
LOSSES_MAX = 3
"""The first event of a chunk is to blame after this many workers in a row have ended with the chunk before it."""


class Lease(Struct):
    """The time up to which workers may handle events, by the clock of shared pages."""

    until: float = 0.0


class Dispatcher:
    """The chunks of a pool: those that wait, and those that workers have."""

    def __init__(self, lease: Lease, clock: Callable[[], float]) -> None:
        self._lease = lease
        self._clock = clock
        self.workers: dict[int, LiveWorker] = {}
        """The live workers by their place."""
        self._waiting: deque[Job] = deque()
        """The chunks that no worker has, one for each task that waits for one."""
        self._last_number = 0
        self._losses: dict[Shard, tuple[int, int]] = {}
        """For each shard, the offset of the chunk with which workers have ended before its first event, and how many in
        a row."""
        self.settled: list[Settled] = []
        """Settled events that the replica has not taken yet: at most as many as can be open."""
        self.has_settled = trio.Event()

    def submit(self, chunk: Chunk) -> Job:
        """Takes a chunk."""
        self._last_number += 1
        job = Job(self._last_number, chunk, trio.Event())
        self._waiting.append(job)
        self.dispatch()
        return job

    def dispatch(self) -> None:
        """Sends waiting chunks to the workers that may take them."""
        now = self._clock()
        while self._waiting and now < self._lease.until:
            worker = self._taker()
            if worker is None:
                return
            job = self._waiting.popleft()
            if not worker.sent:
                worker.moved_at = now
            job.sent_at = now
            worker.sent.append(job)
            worker.process.grant()
            worker.outbox.send_nowait(job)

    def _taker(self) -> LiveWorker | None:
        in_advance = None
        for worker in self.workers.values():
            if worker.takes_chunk:
                return worker
            if in_advance is None and worker.takes_chunk_in_advance:
                in_advance = worker
        return in_advance

    def on_done(self, worker: LiveWorker, number: int, outcome: Outcome | None) -> None:
        """Takes the outcome of the oldest chunk that the worker has; None if the chunk was revoked."""
        now = self._clock()
        worker.moved_at = now
        job = worker.sent.popleft()
        if worker.is_paused and worker.retires_by is None:
            worker.is_paused = False
            self.show_lease(worker)
        if job is not None and outcome is not None:
            assert job.number == number
            if outcome.events:
                worker.has_worked = True
                worker.seconds_per_event = outcome.handler_seconds / outcome.events
            worker.opened.update((job.chunk.shard, offset) for offset in outcome.opened)
            if outcome.next_offset > job.chunk.first:
                self._losses.pop(job.chunk.shard, None)
            self._finish(job, outcome, worker)
        worker.ask_to_stop_if_idle(now)
        self.dispatch()

    def on_settled(self, worker: LiveWorker, events: tuple[Settled, ...]) -> None:
        """Takes events that were acknowledged after their chunk."""
        worker.opened.difference_update((each.shard, each.offset) for each in events)
        worker.held += events
        self._release(worker)
        worker.ask_to_stop_if_idle(self._clock())

    def on_ended(self, worker: LiveWorker, cause: Cause | None) -> None:
        """Takes back the chunks and the open events of a worker that has ended. `cause` is what its running event is
        blamed for; None if the event is not to blame."""
        last = worker.page.doing()
        for job in reversed(worker.sent):
            if job is None or job.is_given_up:
                continue
            if job.number == last.chunk:
                outputs = kept_outputs(worker.process.page)
                outcome = self._outcome_of_lost(job.chunk, outcome_of_lost(job.chunk, last, outputs, cause), cause)
                worker.has_worked |= outcome.failure is not None
                self._finish(job, outcome, worker)
            else:
                self._waiting.appendleft(job)
        worker.sent.clear()
        worker.held += [Settled(shard, offset, False) for shard, offset in sorted(worker.opened)]
        worker.opened.clear()
        self._release(worker)
        self.dispatch()

    def _outcome_of_lost(self, chunk: Chunk, outcome: Outcome, cause: Cause | None) -> Outcome:
        """Returns the outcome of a chunk whose worker has ended. Blames the first event if that happened too often."""
        if cause is None or outcome.failure is not None or outcome.next_offset > chunk.first:
            return outcome
        first, count = self._losses.pop(chunk.shard, (chunk.first, 0))
        count = count + 1 if first == chunk.first else 1
        if count == LOSSES_MAX:
            return replace(outcome, failure=cause.blames(chunk.first, chunk.first + 1))
        self._losses[chunk.shard] = (chunk.first, count)
        return outcome

    def give_up(self, job: Job) -> None:
        """Forgets a chunk whose task no longer waits. A worker that has begun it takes no further event of it."""
        job.is_given_up = True
        if job in self._waiting:
            self._waiting.remove(job)
            return
        for worker in self.workers.values():
            if job in worker.sent:
                if worker.sent[-1] is job and worker.process.revoke():
                    worker.sent[-1] = None
                elif not worker.is_paused:
                    worker.is_paused = True
                    self.show_lease(worker)

    def show_lease(self, worker: LiveWorker) -> None:
        """Tells a worker up to when it may handle events."""
        worker.page.set_lease(self._lease.until, may_begin=not worker.is_paused)

    @property
    def has_work(self) -> bool:
        """Whether some chunk has no outcome yet."""
        return bool(self._waiting) or any(worker.sent for worker in self.workers.values())

    def seen(self, job: Job) -> None:
        """Lets the replica hear of what happened after an outcome, because the task has got this outcome."""
        if job.worker is not None:
            job.worker.undelivered -= 1
            self._release(job.worker)

    def take_from_slow(self, now: float) -> float:
        """Takes chunks that wait behind another one and gives them to free workers. Returns when to look again."""
        look_at = float("inf")
        if self._waiting or now >= self._lease.until or not any(each.takes_chunk for each in self.workers.values()):
            return look_at
        for worker in self.workers.values():
            job = worker.in_advance
            if job is None or job.is_given_up:
                continue
            if now < job.sent_at + PATIENCE_SECONDS:
                look_at = min(look_at, job.sent_at + PATIENCE_SECONDS)
            elif worker.process.revoke():
                worker.sent[-1] = None
                self._waiting.append(job)
                self.dispatch()
                return now
        return look_at

    def refuse_waiting(self) -> None:
        """Returns all chunks that wait for a worker, with nothing handled."""
        while self._waiting:
            job = self._waiting.popleft()
            self._finish(job, Outcome(next_offset=job.chunk.first), None)

    def _finish(self, job: Job, outcome: Outcome, worker: LiveWorker | None) -> None:
        if job.is_given_up:
            return
        job.outcome = outcome
        if worker is not None:
            job.worker = worker
            worker.undelivered += 1
        job.done.set()

    def _release(self, worker: LiveWorker) -> None:
        if worker.held and not worker.undelivered:
            self.settled += worker.held
            worker.held.clear()
            self.has_settled.set()
