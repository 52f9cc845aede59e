"""Calls back when a socket can be read: one task and one epoll for all of them.

To wake a task for each request costs more than a small request does: two system calls to wait, and Trio's way through
a task. Here sockets stay registered, and whoever waits sleeps on while calls do what is to be done. As long as there is
nothing else to do, the one task waits for sockets itself, and Trio rests as well.
"""

import select
from collections.abc import Callable, Sequence
from time import perf_counter

import trio

from .other_work import OtherWork

CALLS_PER_TURN = 32
"""Then other tasks get theirs; the kernel keeps the order of those that are left."""
TURN_SECONDS_MAX = 0.002
STAY_SECONDS_MAX = 0.005
"""So late may come what Trio does by its clock: it is looked at so often."""


class _Waiting:
    __slots__ = ("error", "on_readable", "task", "turn_ended")

    def __init__(
        self, task: trio.lowlevel.Task, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None
    ) -> None:
        self.task = task
        self.on_readable = on_readable
        self.turn_ended = turn_ended
        self.error: Exception | None = None


class Readiness:
    """Of the sockets of one network, for as long as Trio runs."""

    def __init__(self, *, waits_awake: bool = True) -> None:
        self._waits_awake = waits_awake
        self._epoll: select.epoll | None = None
        self._other_work: OtherWork | None = None
        self._waiting: dict[int, _Waiting] = {}

    async def call_when_readable(
        self, descriptor: int, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None = None
    ) -> None:
        """Returns when a call has returned False, or raises what it has raised. `turn_ended` is called when all that
        can be read now have been called, once for those who gave the same."""
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
                del error  # its traceback holds this call: with it, all that was there would wait for the collector

    def _register(self, descriptor: int, epoll: select.epoll) -> None:
        """With all or with none. OSError: the system watches no more."""
        epoll.register(descriptor, select.EPOLLIN)
        if self._other_work is not None:
            try:
                self._other_work.register(descriptor)
            except OSError:
                epoll.unregister(descriptor)
                raise

    def on_closing(self, descriptor: int) -> None:
        """The socket is about to be closed: whoever waits for it gets an error."""
        waiting = self._waiting.get(descriptor)
        if waiting is not None:
            waiting.error = trio.ClosedResourceError("the connection was closed here")
            self._wake(descriptor, waiting)

    def expect_soon(self) -> None:
        """More is to come on one of the sockets, and worth waiting for awake."""
        if self._other_work is not None:
            self._other_work.expect_soon()

    async def _call_all(self, epoll: select.epoll) -> None:
        """Belongs to no nursery: it ends with Trio's run."""
        other_work: OtherWork | None = None
        try:
            while True:
                await trio.lowlevel.wait_readable(epoll.fileno())
                if other_work is None:
                    other_work = self._other_work = OtherWork(epoll, waits_awake=self._waits_awake)
                    for descriptor in self._waiting:
                        other_work.register(descriptor)
                leave_at = perf_counter() + STAY_SECONDS_MAX
                ready = epoll.poll(0, CALLS_PER_TURN)
                while ready:
                    now = self._take_turn(ready)
                    if now >= leave_at:
                        seconds = other_work.seconds_to_spare()
                        if seconds <= 0:
                            break
                        leave_at = now + min(seconds, STAY_SECONDS_MAX)
                    ready = other_work.wait(CALLS_PER_TURN)
        finally:
            self._epoll = self._other_work = None
            if other_work is not None:
                other_work.close()
            epoll.close()

    def _take_turn(self, ready: Sequence[tuple[int, int]]) -> float:
        """Returns when it ended."""
        now = perf_counter()
        end = now + TURN_SECONDS_MAX
        ending: dict[Callable[[], None], tuple[int, _Waiting]] = {}
        for descriptor, _ in ready:
            waiting = self._waiting.get(descriptor)
            if waiting is None:
                continue  # an earlier call of this turn has ended it
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
        """What is wrong with it is raised where that one waits, which goes on as well if it returns False."""
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
        if self._other_work is not None:
            self._other_work.unregister(descriptor)
