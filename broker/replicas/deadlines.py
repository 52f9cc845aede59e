"""Deadlines of requests that wait: one heap and one sweeper for all of them, instead of a cancel scope each.

A waiting request is woken by the event that it waits for; the sweeper only handles the requests that time out first.
`handlers/records/fetch.py` lists everything that wakes a waiting fetch.
"""

import heapq
import itertools
import math
from collections.abc import Callable
from typing import Protocol

import trio

_STALE_MIN = 1024
EXPIRED_PER_TURN = 20
"""Thousands of replicas may have the same deadline. After this many, other tasks run."""
SECONDS_PER_TURN = 0.001
"""Dozens of coordinators may go on with long work at the same time. After this time, other tasks run."""


class Waiter(Protocol):
    """Something with a deadline in `Deadlines`."""

    @property
    def done(self) -> bool:
        """Whether the request was answered or abandoned, so that its deadline does not matter any more."""

    def on_deadline(self) -> None: ...


class Timer:
    """A deadline that can be cancelled. When it is, the heap keeps only this object and not what it refers to."""

    __slots__ = ("deadline", "on_expired")

    def __init__(self, deadline: float, on_expired: Callable[[], None]) -> None:
        self.deadline = deadline
        self.on_expired: Callable[[], None] | None = on_expired
        """What to call at the deadline; None if the timer was cancelled."""

    @property
    def done(self) -> bool:
        return self.on_expired is None

    def on_deadline(self) -> None:
        if self.on_expired is not None:
            self.on_expired()


class Deadlines:
    """A heap of deadlines, and the task that waits for the earliest one."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Waiter]] = []
        self._sequence = itertools.count()
        self._sleep = trio.CancelScope()
        self._rebuild_at = _STALE_MIN

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline: float, waiter: Waiter) -> None:
        """Calls the waiter's `on_deadline` at the deadline by Trio's clock, unless the waiter is done by then."""
        heap = self._heap
        heapq.heappush(heap, (deadline, next(self._sequence), waiter))
        if heap[0][2] is waiter:
            self._sleep.deadline = deadline
        if len(heap) > self._rebuild_at:
            # Most waiters are done long before their deadline. Without this, a client could grow the heap without
            # limit.
            heap[:] = [entry for entry in heap if not entry[2].done]
            heapq.heapify(heap)
            self._rebuild_at = max(_STALE_MIN, 2 * len(heap))

    async def run(self) -> None:
        """Calls the waiters whose deadlines have come. Runs until cancelled."""
        heap = self._heap
        while True:
            with trio.CancelScope() as self._sleep:
                self._sleep.deadline = heap[0][0] if heap else math.inf
                await trio.sleep_forever()
            now = trio.current_time()
            due = []
            while heap and heap[0][0] <= now:
                due.append(heapq.heappop(heap)[2])
            # A waiter that is added again during the calls comes after all others, and after other tasks.
            handled = 0
            for waiter in due:
                if not waiter.done:
                    waiter.on_deadline()
                handled += 1
                if handled == EXPIRED_PER_TURN or trio.current_time() - now >= SECONDS_PER_TURN:
                    await trio.lowlevel.checkpoint()
                    handled, now = 0, trio.current_time()
