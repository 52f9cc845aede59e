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

    def __init__(self) -> None:
        self._limit = trio.CapacityLimiter(1)

    async def run(self, compute: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(compute, limiter=self._limit)
        except RuntimeError:  # the process can have no more threads: to block the loop is better than to fail
            return compute()


class DirectWorker:
    """Runs computations at once, for simulations, whose order of events must not depend on threads."""

    async def run(self, compute: Callable[[], T]) -> T:
        return compute()
