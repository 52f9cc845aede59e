"""Runs computations that take milliseconds in a thread, so that the event loop serves others meanwhile."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class HardWorker(Protocol):
    """Runs computations beside the event loop."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Returns the result of a computation, which must not touch what the event loop uses."""


class ThreadWorker:
    """Runs one computation at a time, each in a thread of Trio's pool."""

    def __init__(self, *, may_be_abandoned: bool = False) -> None:
        """`may_be_abandoned` is for what waits for others: a caller that is cancelled does not wait for its end."""
        self._limit = trio.CapacityLimiter(1)
        self._may_be_abandoned = may_be_abandoned

    async def run(self, compute: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(compute, limiter=self._limit, abandon_on_cancel=self._may_be_abandoned)
        except RuntimeError:  # the process can have no more threads: to block the loop is better than to fail
            return compute()


class DirectWorker:
    """Runs computations at once, for simulations, whose order of events must not depend on threads."""

    async def run(self, compute: Callable[[], T]) -> T:
        return compute()
