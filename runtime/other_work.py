"""Whether Trio has anything else to do than to wake one task, which waits for much of what happens here by itself.

A pass through Trio's loop costs more than most of what sockets bring. So the task that calls for them waits in its
place, but never when it must not: as soon as another task can go on, or something has happened that Trio waits for,
Trio's turn has come. Where the system does not tell how to hear of the latter, it always has.
"""

import os
import select

import trio

WAIT_SECONDS_MAX = 0.002
"""A socket that was quiet for so long is waited for by Trio again."""
_FACTS = "/proc/self/fdinfo"


class OtherWork(trio.abc.Instrument):
    """Than that of the task that makes it, which waits for this epoll."""

    def __init__(self, descriptor: int) -> None:
        self._task = trio.lowlevel.current_task()
        self._descriptor = descriptor
        self._has_looked = False
        self._everything: select.epoll | None = None
        """Watches what the task waits for, and all that Trio does."""
        self._others_can_go_on = True
        trio.lowlevel.add_instrument(self)

    def close(self) -> None:
        if self._everything is not None:
            self._everything.close()

    def comes_first(self) -> bool:
        """Waits until there is something for the task alone (False), or for others; or for a while, and Trio is to
        wait then."""
        if not self._has_looked:
            self._has_looked = True
            self._everything = _epoll_of_everything(self._descriptor)
        if self._everything is None or self._others_can_go_on:
            return True
        events = self._everything.poll(WAIT_SECONDS_MAX)
        return len(events) != 1 or events[0][0] != self._descriptor

    # what Trio calls

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        if task is not self._task:
            self._others_can_go_on = True

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:  # otherwise somebody can go on
            self._others_can_go_on = False


def _epoll_of_everything(descriptor: int) -> select.epoll | None:
    """Of the one that the task waits for, and Trio's own, which watches that and whatever other tasks wait for."""
    trios = _epoll_that_watches(descriptor)
    if trios is None:
        return None
    epoll = select.epoll()
    epoll.register(descriptor, select.EPOLLIN)
    epoll.register(trios, select.EPOLLIN)
    return epoll


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
