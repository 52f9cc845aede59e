"""Virtual time, and sleep that costs little: a scope that is cancelled each time would be most of what a seed takes."""

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
    """Time jumps to the next deadline when nobody can run: that is when Trio asks how long it should sleep.

    MockClock would do, too. It looks at all there is before each jump, and the loop goes round twice.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: list[tuple[float, int, Sleeper]] = []
        """A heap; who does not sleep until then any more is still in it."""
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
            return math.inf  # Trio waits for itself, when it ends
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
    """A place where one task sleeps, until its time has come, which may be moved, or somebody wakes it.

    It runs again when it would have run with a scope of Trio's around `sleep_forever`, and if it was cancelled since,
    it hears that at once, as it would there: a seed has the history that it would have with those. To
    know and to say so, two private names of Trio's are used, here and nowhere else.
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
        """To another time; nothing happens if nobody sleeps."""
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
    """While this lasts, whoever asks Trio to sleep does so here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trio, "sleep", _sleep)
        patch.setattr(trio, "sleep_until", _sleep_until)
        yield


def _clock() -> VirtualClock:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, VirtualClock)
    return clock
