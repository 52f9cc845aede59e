"""Whether Trio has anything else to do than to wake one task, which waits for much of what happens here by itself.

A pass through Trio's loop costs more than most of what sockets bring. So the task that calls for them waits in its
place, but never when it must not: as soon as another task can go on, or something has happened that Trio waits for,
Trio's turn has come. Where the system does not tell how to hear of the latter, it always has.

To fall asleep and be woken takes a core longer than a small request, of which each takes several: a client waits for
its leader, which waits for its followers. So while one thing follows hard upon the other, the task stays awake, and
between two looks it lets any other process have the core that wants it.
"""

import math
import os
import select
from collections.abc import Callable
from time import perf_counter

import trio

from .cores import cores_for_us

WAIT_SECONDS_MAX = 0.002
"""A socket that was quiet for so long is waited for by Trio again."""
AWAKE_SECONDS_MAX = 0.0002
"""What came sooner than this the last time is waited for awake."""
EXPECTED_SECONDS_MAX = 0.001
"""The same, where somebody has said that more is to come: an answer that others take part in takes longer."""
LENT_SECONDS_MAX = 0.0005
"""Whoever keeps a core for longer than this has much to do. One who is woken gets the core before it, one who is awake
has to wait."""
ASLEEP_SECONDS_MIN, ASLEEP_SECONDS_MAX = 0.005, 0.64
"""So long nothing is waited for awake after that, and twice as long each time until it has been worth it once."""
_FACTS = "/proc/self/fdinfo"


class OtherWork(trio.abc.Instrument):
    """Than that of the task that makes it, once it was woken for `watched`: an epoll of its own."""

    def __init__(self, watched: select.epoll, *, waits_awake: bool = True) -> None:
        self._task = trio.lowlevel.current_task()
        self._trios = _epoll_that_watches(watched.fileno())
        self._everything: select.epoll | None = None
        """Watches what the task's own does, and Trio's, and with that whatever other tasks wait for."""
        self._others_can_go_on = True
        self._awake_again_at = 0.0 if waits_awake and cores_for_us() > 1 else math.inf
        """On a single one, everybody who could do what is waited for would wait for us."""
        self._asleep_seconds = ASLEEP_SECONDS_MIN
        self._came_soon = False
        self._awake_seconds = AWAKE_SECONDS_MAX
        """Of the next wait."""
        if self._trios is not None:
            self._everything = select.epoll()
            self._everything.register(self._trios, select.EPOLLIN)
            trio.lowlevel.add_instrument(self)

    def close(self) -> None:
        if self._everything is not None:
            self._everything.close()

    def register(self, descriptor: int) -> None:
        """As with the task's own."""
        if self._everything is not None:
            self._everything.register(descriptor, select.EPOLLIN)

    def unregister(self, descriptor: int) -> None:
        if self._everything is not None:
            self._everything.unregister(descriptor)

    def expect_soon(self) -> None:
        """What the next wait is for is on its way."""
        self._awake_seconds = EXPECTED_SECONDS_MAX

    def wait(self, events_max: int) -> list[tuple[int, int]]:
        """For what the task alone waits for. None of it: something else comes first, or nothing has come for a while,
        and Trio is to wait."""
        if self._everything is None or self._others_can_go_on:
            return []
        events = self._wait(self._everything.poll, events_max)
        for descriptor, _ in events:
            if descriptor == self._trios:
                return []
        return events

    def _wait(self, poll: Callable[[float, int], list[tuple[int, int]]], events_max: int) -> list[tuple[int, int]]:
        awake_seconds, self._awake_seconds = self._awake_seconds, AWAKE_SECONDS_MAX
        began = now = perf_counter()
        if self._came_soon:
            while now - began < awake_seconds:
                events = poll(0, events_max)
                if events:
                    if now > began:
                        self._asleep_seconds = ASLEEP_SECONDS_MIN
                    return events
                looked = now
                os.sched_yield()
                now = perf_counter()
                if now - looked > LENT_SECONDS_MAX:
                    self._awake_again_at = now + self._asleep_seconds
                    self._asleep_seconds = min(2 * self._asleep_seconds, ASLEEP_SECONDS_MAX)
        events = poll(WAIT_SECONDS_MAX, events_max)
        now = perf_counter()
        self._came_soon = now - began < awake_seconds and now >= self._awake_again_at
        return events

    def seconds_to_spare(self) -> float:
        """Until Trio does something by its clock."""
        return trio.lowlevel.current_statistics().seconds_to_next_deadline

    # what Trio calls

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        if task is not self._task:
            self._others_can_go_on = True

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:  # otherwise somebody can go on
            self._others_can_go_on = False


def _epoll_that_watches(descriptor: int) -> int | None:
    """Trio keeps its own to itself; the system says who watches what."""
    try:
        for name in sorted(os.listdir(_FACTS), key=int):  # made when Trio's run began, it is among the first
            with open(f"{_FACTS}/{name}") as facts:
                if any(line.split()[:2] == ["tfd:", str(descriptor)] for line in facts):
                    return int(name)
    except OSError:
        pass
    return None
