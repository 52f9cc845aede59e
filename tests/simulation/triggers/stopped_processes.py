"""Simulated processes that can be stopped as SIGSTOP does: while they are stopped, none of their tasks runs.

Their timers expire late, and what arrives meanwhile waits, so that a stopped process learns of everything at once when
it goes on. What has arrived counts before timers that have expired, as in Trio's own loop.

This needs three private names of Trio's loop, which only this module uses; `test_stopped_processes` fails if they
disappear. A task belongs to the process in whose context it was started.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import heappop
from random import Random
from typing import Any

import pytest
import trio
from trio._core import _run as trio_internals
from trio.lowlevel import Task

_PROCESS: ContextVar["StoppableProcess | None"] = ContextVar("process", default=None)
_Deadline = tuple[float, trio.CancelScope]


class StoppableProcess:
    """A process: the tasks that were started within `entered`, and all that these have started."""

    def __init__(self, host: "ProcessHost", name: str) -> None:
        self.name = name
        self.stopped_at: float | None = None
        """Since when the process is stopped; None if it runs."""
        self.last_stop = (-1.0, -1.0)
        """When the process was last stopped, and when it went on."""
        self._host = host
        self._tasks: list[Task] = []
        """Tasks that would run now."""
        self._deadlines: list[_Deadline] = []
        """Cancel scopes that would be cancelled now."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Makes tasks that are started within the `with` block belong to the process."""
        token = _PROCESS.set(self)
        try:
            yield
        finally:
            _PROCESS.reset(token)

    def stop(self) -> None:
        """Stops the process like SIGSTOP."""
        if self.stopped_at is None:
            self.stopped_at = trio.current_time()
            self._host.stopped.append(self)

    def resume(self) -> None:
        """Lets the process go on like SIGCONT."""
        if self.stopped_at is None:
            return
        self.last_stop = self.stopped_at, trio.current_time()
        self.stopped_at = None
        self._host.stopped.remove(self)
        runner = trio_internals.GLOBAL_RUN_CONTEXT.runner
        runner.runq.extend(self._tasks)
        for deadline, scope in self._deadlines:
            runner.deadlines.add(deadline, scope)
        self._tasks.clear()
        self._deadlines.clear()

    def hold_task(self, task: Task) -> None:
        """Keeps a task from running until the process goes on."""
        self._tasks.append(task)

    def hold_deadline(self, deadline: float, scope: trio.CancelScope) -> None:
        """Keeps a cancel scope from expiring until the process goes on."""
        self._deadlines.append((deadline, scope))


def current_process() -> StoppableProcess:
    """Returns the process of the task that runs."""
    process = _PROCESS.get()
    assert process is not None, "the task belongs to no process"
    return process


class ProcessHost:
    """Where processes run that can be stopped; `installed` makes Trio's loop respect that."""

    def __init__(self) -> None:
        self.stopped: list[StoppableProcess] = []
        """The processes that are stopped now."""
        self.root: trio.CancelScope | None = None
        """The scope of the whole simulation. If it is cancelled, all processes go on, so that they end."""

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Puts the host between Trio's loop and its tasks, within the `with` block."""
        expire = trio_internals.Deadlines.expire

        def expire_some(deadlines: Any, now: float) -> bool:
            if self.stopped:
                self._hold_deadlines(deadlines, now)
            return expire(deadlines, now)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trio_internals, "_r", _Order(trio_internals._r, self))
            patch.setattr(trio_internals.Deadlines, "expire", expire_some)
            yield

    def hold_tasks(self, batch: list[Task]) -> None:
        """Removes the tasks of stopped processes from those that run next."""
        if self.root is not None and self.root.cancel_called:
            for each in list(self.stopped):
                each.resume()
            return
        running = []
        for task in batch:
            process = task.context.get(_PROCESS)
            if process is None or process.stopped_at is None:
                running.append(task)
            else:
                process.hold_task(task)
        batch[:] = running

    def _hold_deadlines(self, deadlines: Any, now: float) -> None:
        others = []
        while deadlines.next_deadline() <= now:
            deadline, _, scope = heappop(deadlines._heap)
            deadlines.remove(deadline, scope)
            process = _process_of(scope)
            if process is None or process.stopped_at is None:
                others.append((deadline, scope))
            else:
                process.hold_deadline(deadline, scope)
        for deadline, scope in others:
            deadlines.add(deadline, scope)


class _Order(Random):
    """The random order of tasks that are ready, without those of stopped processes."""

    def __new__(cls, order: Random, host: ProcessHost) -> "_Order":
        return super().__new__(cls)

    def __init__(self, order: Random, host: ProcessHost) -> None:
        super().__init__()
        self._order = order
        self._host = host

    def shuffle(self, x: Any) -> None:
        if self._host.stopped:
            self._host.hold_tasks(x)
        self._order.shuffle(x)


def _process_of(scope: Any) -> StoppableProcess | None:
    """Returns the process to whose tasks a cancel scope belongs."""
    statuses = [scope._cancel_status]
    while statuses:
        status = statuses.pop()
        for task in status._tasks:
            found: StoppableProcess | None = task.context.get(_PROCESS)
            return found
        statuses.extend(status._children)
    return None
