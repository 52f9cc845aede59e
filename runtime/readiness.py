"""Calls back when sockets become readable, with one task and one epoll for all sockets.

Waking a task for each request costs more than a small request: two system calls to wait, and a pass through Trio's
loop. Here sockets stay registered, and waiting tasks sleep on while callbacks do the work. While there is nothing else
to do, the one task waits for sockets itself and Trio's loop does not run: see `direct_wait`.
"""

import select
from collections.abc import Callable, Sequence
from time import perf_counter

import trio

from .direct_wait import DirectWait

CALLS_PER_TURN = 32
"""The number of callbacks after which other tasks run. The kernel keeps the order of the remaining sockets."""
TURN_SECONDS_MAX = 0.002
"""The time after which other tasks run."""
STAY_SECONDS_MAX = 0.005
"""How late Trio's deadlines may be noticed."""


class _Waiting:
    """A task that waits for a socket, and its callbacks."""

    __slots__ = ("error", "on_readable", "task", "turn_ended")

    def __init__(
        self, task: trio.lowlevel.Task, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None
    ) -> None:
        self.task = task
        self.on_readable = on_readable
        self.turn_ended = turn_ended
        self.error: Exception | None = None


class Readiness:
    """The callbacks for the sockets of one network, while Trio runs."""

    def __init__(self, *, waits_awake: bool = True) -> None:
        self._waits_awake = waits_awake
        self._epoll: select.epoll | None = None
        self._direct_wait: DirectWait | None = None
        self._waiting: dict[int, _Waiting] = {}

    async def call_when_readable(
        self, descriptor: int, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None = None
    ) -> None:
        """Calls `on_readable` when the socket is readable, until it returns False. Raises what a callback raises.

        `turn_ended` is called after all readable sockets of a turn have been called, once for all callers that pass the
        same function.
        """
        if self._epoll is None:
            self._epoll = select.epoll()
            trio.lowlevel.spawn_system_task(self._call_all, self._epoll)
        assert descriptor not in self._waiting, "a socket has one reader"
        self._register(descriptor, self._epoll)
        waiting = self._waiting[descriptor] = _Waiting(trio.lowlevel.current_task(), on_readable, turn_ended)

        def abort(_: object) -> trio.lowlevel.Abort:
            self._forget(descriptor)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        error, waiting.error = waiting.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # the traceback refers to this frame; without this, both would stay until the collector runs

    def _register(self, descriptor: int, epoll: select.epoll) -> None:
        """Registers the socket with both epolls, or with none. Raises OSError if the system can watch no more."""
        epoll.register(descriptor, select.EPOLLIN)
        if self._direct_wait is not None:
            try:
                self._direct_wait.register(descriptor)
            except OSError:
                epoll.unregister(descriptor)
                raise

    def on_closing(self, descriptor: int) -> None:
        """Makes the task that waits for the socket raise an error, before the socket is closed."""
        waiting = self._waiting.get(descriptor)
        if waiting is not None:
            waiting.error = trio.ClosedResourceError("the connection was closed here")
            self._wake(descriptor, waiting)

    def expect_soon(self) -> None:
        """Announces that more is about to arrive on one of the sockets, so that busy-waiting is worth it."""
        if self._direct_wait is not None:
            self._direct_wait.expect_soon()

    async def _call_all(self, epoll: select.epoll) -> None:
        """Waits for sockets and calls back, in a system task that ends with Trio's run."""
        direct_wait: DirectWait | None = None
        try:
            while True:
                await trio.lowlevel.wait_readable(epoll.fileno())
                if direct_wait is None:
                    direct_wait = self._direct_wait = DirectWait(waits_awake=self._waits_awake)
                    for descriptor in self._waiting:
                        direct_wait.register(descriptor)
                leave_at = perf_counter() + STAY_SECONDS_MAX
                ready = epoll.poll(0, CALLS_PER_TURN)
                while ready:
                    now = self._take_turn(ready)
                    if now >= leave_at:
                        seconds = direct_wait.seconds_to_deadline()
                        if seconds <= 0:
                            break
                        leave_at = now + min(seconds, STAY_SECONDS_MAX)
                    ready = direct_wait.wait(CALLS_PER_TURN)
        finally:
            self._epoll = self._direct_wait = None
            if direct_wait is not None:
                direct_wait.close()
            epoll.close()

    def _take_turn(self, ready: Sequence[tuple[int, int]]) -> float:
        """Calls back for these sockets, and returns when it ended."""
        now = perf_counter()
        end = now + TURN_SECONDS_MAX
        ending: dict[Callable[[], None], tuple[int, _Waiting]] = {}
        for descriptor, _ in ready:
            waiting = self._waiting.get(descriptor)
            if waiting is None:
                continue  # an earlier callback of this turn has ended the wait
            self._call(descriptor, waiting, waiting.on_readable)
            if waiting.turn_ended is not None:
                ending[waiting.turn_ended] = descriptor, waiting
            now = perf_counter()
            if now >= end:
                break
        for turn_ended, (descriptor, waiting) in ending.items():
            self._call(descriptor, waiting, turn_ended)
        return now

    def _call(self, descriptor: int, waiting: _Waiting, what: Callable[[], bool | None]) -> None:
        """Calls back, and wakes the waiting task if the callback raises or returns False."""
        try:
            goes_on = what()
        except Exception as error:
            waiting.error = error
            goes_on = False
        if goes_on is False and self._waiting.get(descriptor) is waiting:
            self._wake(descriptor, waiting)

    def _wake(self, descriptor: int, waiting: _Waiting) -> None:
        self._forget(descriptor)
        trio.lowlevel.reschedule(waiting.task)

    def _forget(self, descriptor: int) -> None:
        del self._waiting[descriptor]
        if self._epoll is not None:
            self._epoll.unregister(descriptor)
        if self._direct_wait is not None:
            self._direct_wait.unregister(descriptor)
