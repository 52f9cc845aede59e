"""One worker of a pool while its process lives: what was sent to it, what it has open, and why it is being ended."""

from collections import deque

import trio
from msgspec import Struct

from tailrace.runtime.workers.worker_process import WorkerProcess
from tailrace.trigger.work import Chunk, Outcome, Settled, Shard
from tailrace.trigger.worker.frames import FrameInbox
from tailrace.trigger.worker.worker_page import NONE, Doing, WorkerPage

from .lost_chunks import Cause

QUEUED_MAX = 2
"""How many chunks a worker has at most: the one that it handles, and the next one, so that it never waits for it."""
FAST_SECONDS = 0.001
"""Only a worker whose events take less than this has a chunk in advance. For others the wait makes no difference."""


class Job(Struct, eq=False):
    """A chunk whose outcome a task waits for."""

    number: int
    chunk: Chunk
    done: trio.Event
    outcome: Outcome | None = None
    worker: "LiveWorker | None" = None
    """The worker that made the outcome."""
    is_given_up: bool = False
    """Whether the task has stopped waiting."""
    sent_at: float = 0.0


class EndReason(Struct, frozen=True):
    """Why the pool ends a worker."""

    text: str
    """What the log says."""
    cause: Cause | None = None
    """What the event is blamed for; None if it is not to blame."""
    blamed: Doing | None = None
    """What the worker was doing when the pool decided. An event that began after that is not to blame."""


class LiveWorker:
    """A worker process and what the pool knows about it."""

    def __init__(self, place: int, process: WorkerProcess, now: float) -> None:
        self.place = place
        self.process = process
        self.page = WorkerPage(process.page)
        self.inbox = FrameInbox()
        self.outbox: trio.MemorySendChannel[Job | None]
        self.to_send: trio.MemoryReceiveChannel[Job | None]
        # Besides the chunks there is one message that asks the worker to stop.
        self.outbox, self.to_send = trio.open_memory_channel(QUEUED_MAX + 1)
        self.is_ready = False
        self.refusal: str | None = None
        """Why the worker cannot start, in its own words."""
        self.retires_by: float | None = None
        """When to ask the worker to stop, even if it still has open events. It gets no more chunks. None if the worker
        goes on."""
        self.was_asked_to_stop = False
        self.is_paused = False
        """Whether the worker was asked to report early."""
        self.sent: deque[Job | None] = deque()
        """The chunks that were sent and not reported, in order; None for one that was revoked."""
        self.opened: set[tuple[Shard, int]] = set()
        self.held: list[Settled] = []
        """Settled events that wait until `undelivered` outcomes are seen."""
        self.undelivered = 0
        """How many outcomes the waiting tasks have not seen yet."""
        self.end_reason: EndReason | None = None
        self.ended = trio.Event()
        self.has_worked = False
        """Whether the worker has handled an event, or has ended because of one."""
        self.seconds_per_event: float | None = None
        self.seen: Doing | None = None
        self.moved_at = now
        """When the worker was last seen to make progress."""

    @property
    def takes_chunk(self) -> bool:
        """Whether the worker is free."""
        return self._takes_any and not self.sent

    @property
    def takes_chunk_in_advance(self) -> bool:
        """Whether the worker is busy and may get its next chunk already."""
        return (
            self._takes_any
            and len(self.sent) < QUEUED_MAX
            and None not in self.sent
            and self.seconds_per_event is not None
            and self.seconds_per_event < FAST_SECONDS
        )

    @property
    def _takes_any(self) -> bool:
        return self.is_ready and self.retires_by is None and not self.is_paused and self.end_reason is None

    @property
    def in_advance(self) -> Job | None:
        """The chunk that waits behind another one in this worker."""
        return self.sent[-1] if len(self.sent) == QUEUED_MAX else None

    @property
    def has_given_up_chunk(self) -> bool:
        """Whether the worker has begun, or is about to begin, a chunk whose task no longer waits."""
        return any(job is not None and job.is_given_up for job in self.sent)

    def end(self, reason: EndReason) -> None:
        """Kills the process. The first reason counts."""
        if self.end_reason is None:
            self.end_reason = reason
            self.process.kill()

    def look(self, now: float) -> Doing:
        """Looks at what the worker is doing, and remembers when that has changed."""
        doing = self.page.doing()
        if doing != self.seen:
            self.seen = doing
            self.moved_at = now
        return doing

    def overdue_at(self, doing: Doing, event_timeout: float) -> float:
        """Returns by when the worker must have moved on: from the running event, or from what it does between two."""
        return (doing.started if doing.running != NONE else self.moved_at) + event_timeout

    def retire(self, by: float) -> None:
        """Gives the worker no more chunks. It is asked to stop when it has nothing open, at the latest at `by`."""
        if self.retires_by is None or by < self.retires_by:
            self.retires_by = by

    def ask_to_stop_if_idle(self, now: float) -> None:
        """Asks a retiring worker to stop if it has nothing more to do."""
        if self.retires_by is None or self.sent or self.was_asked_to_stop:
            return
        if not self.opened or now >= self.retires_by:
            self.was_asked_to_stop = True
            self.outbox.send_nowait(None)
