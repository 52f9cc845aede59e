"""Waits for sockets without passing through Trio's loop, while Trio has nothing else to do.

A pass through Trio's loop costs more than most of what sockets bring. So the task that calls back for sockets waits for
them itself, in the place of Trio's loop. It must stop as soon as another task can continue, or something has happened
that another task waits for. An instrument tells the former. For the latter, an epoll of its own watches all its sockets
and Trio's epoll. If Trio's epoll cannot be found, Trio does all the waiting: see `trio_internals`.

To fall asleep and be woken takes a core longer than a small request, and a request takes several such steps: a client
waits for its leader, which waits for its followers. So while one event soon follows another, the task busy-waits:
it polls, and yields the core between two polls to any other process that wants it.
"""

import math
import os
import select
from collections.abc import Callable
from time import perf_counter

import trio

from .cores import usable_cores
from .trio_internals import trio_epoll

WAIT_SECONDS_MAX = 0.002
"""How long to wait for the sockets before Trio's loop takes over the waiting."""
BUSY_SECONDS_MAX = 0.0002
"""How long to busy-wait, if the last event came sooner than this."""
BUSY_SECONDS_MAX_IF_EXPECTED = 0.001
"""How long to busy-wait if an event was announced. It may be a response that involves other servers."""
YIELD_SECONDS_MAX = 0.0005
"""How long another process may keep a yielded core before busy-waiting pauses.

Such a process has much to do. A task that sleeps and is woken gets the core before that process; one that busy-waits
has to wait for it.
"""
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.005, 0.64
"""How long to stop busy-waiting after losing the core. It doubles each time, until busy-waiting has paid off once."""


class DirectWait(trio.abc.Instrument):
    """The waiting of the task that makes this object, while Trio has nothing else to do."""

    def __init__(self, *, waits_awake: bool = True) -> None:
        """`waits_awake`: whether to busy-wait, if there is more than one core."""
        self._task = trio.lowlevel.current_task()
        trios = trio_epoll()
        self._trios_descriptor = -1
        self._epoll: select.epoll | None = None
        """Watches the task's sockets and Trio's epoll, and thereby everything that other tasks wait for. None if Trio's
        epoll is unknown."""
        self._others_can_continue = True
        # On a single core, a process that could do what is waited for would have to wait for this one.
        self._busy_again_at = 0.0 if waits_awake and usable_cores() > 1 else math.inf
        self._pause_seconds = PAUSE_SECONDS_MIN
        self._came_soon = False
        self._busy_seconds = BUSY_SECONDS_MAX
        """How long the next wait may busy-wait."""
        if trios is not None:
            self._trios_descriptor = trios.fileno()
            self._epoll = select.epoll()
            self._epoll.register(self._trios_descriptor, select.EPOLLIN)
            trio.lowlevel.add_instrument(self)

    def close(self) -> None:
        if self._epoll is not None:
            self._epoll.close()

    def register(self, descriptor: int) -> None:
        """Adds a socket to wait for. The task's own epoll watches it as well."""
        if self._epoll is not None:
            self._epoll.register(descriptor, select.EPOLLIN)

    def unregister(self, descriptor: int) -> None:
        if self._epoll is not None:
            self._epoll.unregister(descriptor)

    def expect_soon(self) -> None:
        """Announces that an event for the next wait is on its way."""
        self._busy_seconds = BUSY_SECONDS_MAX_IF_EXPECTED

    def wait(self, events_max: int) -> list[tuple[int, int]]:
        """Waits for the sockets. Returns no events if Trio's loop must run, or if nothing has happened for a while."""
        if self._epoll is None or self._others_can_continue:
            return []
        events = self._wait(self._epoll.poll, events_max)
        for descriptor, _ in events:
            if descriptor == self._trios_descriptor:
                return []
        return events

    def _wait(self, poll: Callable[[float, int], list[tuple[int, int]]], events_max: int) -> list[tuple[int, int]]:
        busy_seconds, self._busy_seconds = self._busy_seconds, BUSY_SECONDS_MAX
        began = now = perf_counter()
        if self._came_soon:
            while now - began < busy_seconds:
                events = poll(0, events_max)
                if events:
                    if now > began:
                        self._pause_seconds = PAUSE_SECONDS_MIN
                    return events
                yielded = now
                os.sched_yield()
                now = perf_counter()
                if now - yielded > YIELD_SECONDS_MAX:
                    self._busy_again_at = now + self._pause_seconds
                    self._pause_seconds = min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)
        events = poll(WAIT_SECONDS_MAX, events_max)
        now = perf_counter()
        self._came_soon = now - began < busy_seconds and now >= self._busy_again_at
        return events

    def seconds_to_deadline(self) -> float:
        """Returns how long it is until Trio's clock makes a task continue."""
        return trio.lowlevel.current_statistics().seconds_to_next_deadline

    # called by Trio

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        if task is not self._task:
            self._others_can_continue = True

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:  # otherwise a task can continue
            self._others_can_continue = False
