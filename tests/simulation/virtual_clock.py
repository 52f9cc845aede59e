"""Virtual time with cheap sleep, because a cancel scope for each sleep would cost most of a seed's time."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest
import trio
import trio.abc
from trio.lowlevel import Abort, Task


class VirtualClock(trio.abc.Clock):
    """A clock that jumps to the next deadline when no task can run, which is when Trio asks how long to sleep.

    MockClock would work, too, but it examines all tasks before each jump, and needs two rounds of the loop.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: list[tuple[float, int, Sleeper]] = []
        """A heap of sleepers, including some that no longer sleep until that time."""
        self._numbers = count()

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        sleepers = self._sleepers
        while sleepers and sleepers[0][2].until != sleepers[0][0]:
            heappop(sleepers)
        if sleepers:
            deadline = min(deadline, sleepers[0][0])
        if deadline == math.inf:
            return math.inf  # Trio waits for itself when it ends
        self._now = max(self._now, deadline)
        while sleepers and sleepers[0][0] <= self._now:
            until, _, sleeper = heappop(sleepers)
            if sleeper.until == until:
                sleeper.wake()
        return 0.0

    def expect(self, sleeper: "Sleeper") -> None:
        if sleeper.until < math.inf:
            heappush(self._sleepers, (sleeper.until, next(self._numbers), sleeper))


class Sleeper:
    """A place where one task sleeps until its time has come, which may be moved, or until another task wakes it.

    The task runs again at the same moment as with one of Trio's scopes around `sleep_forever`, and learns at once if it
    was cancelled meanwhile. A seed thus has the same history as with Trio's scopes. This needs two private names of
    Trio, which only this class uses.
    """

    def __init__(self) -> None:
        self.until = math.inf
        self._task: Task | None = None

    async def sleep(self, until: float) -> None:
        task, clock = trio.lowlevel.current_task(), _clock()
        if until <= clock.current_time():
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            self._task, self.until = task, until
            clock.expect(self)
            await trio.lowlevel.wait_task_rescheduled(self._on_cancelled)
        if task._cancel_status.effectively_cancelled:
            raise trio.Cancelled._create(source="unknown", reason="while it was about to wake up")

    def move(self, until: float) -> None:
        """Moves the sleeper to another time; does nothing if no task sleeps."""
        if self._task is None or until == self.until:
            return
        self.until = until
        clock = _clock()
        if until <= clock.current_time():
            self.wake()
        else:
            clock.expect(self)

    def wake(self) -> None:
        task, self._task, self.until = self._task, None, math.inf
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _on_cancelled(self, _: Callable[[], Any]) -> Abort:
        self._task, self.until = None, math.inf
        return Abort.SUCCEEDED


async def _sleep_until(deadline: float) -> None:
    await Sleeper().sleep(deadline)


async def _sleep(seconds: float) -> None:
    assert seconds >= 0
    if seconds == 0:
        await trio.lowlevel.checkpoint()
    else:
        await _sleep_until(trio.current_time() + seconds)


@contextmanager
def cheap_sleep() -> Iterator[None]:
    """Replaces Trio's sleep functions by those of this module, within the `with` block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trio, "sleep", _sleep)
        patch.setattr(trio, "sleep_until", _sleep_until)
        yield


def _clock() -> VirtualClock:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, VirtualClock)
    return clock
