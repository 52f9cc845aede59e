"""Runs a coroutine so that one seed gives one history: virtual time, and Trio's scheduler drawn from the seed.

Trio shuffles the tasks that are ready, on purpose. Its own tests make that repeatable through two private names, which
are used here and nowhere else; `test_determinism` would notice if they went away.
"""

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TypeVar

import trio
import trio.abc
from trio._core import _run as trio_internals

T = TypeVar("T")


class VirtualClock(trio.abc.Clock):
    """Time jumps to the next deadline when nobody can run: that is when Trio asks how long it should sleep.

    MockClock would do, too. It looks at all there is before each jump, and the loop goes round twice.
    """

    def __init__(self) -> None:
        self._now = 0.0

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        if deadline == math.inf:
            return math.inf  # Trio waits for itself, when it ends
        self._now = max(self._now, deadline)
        return 0.0


@contextmanager
def _seeded_scheduler(seed: int) -> Iterator[None]:
    """Puts everything back: other tests in this process keep Trio's own disorder."""
    before = trio_internals._ALLOW_DETERMINISTIC_SCHEDULING
    state = trio_internals._r.getstate()
    trio_internals._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio_internals._r.seed(seed)
    try:
        yield
    finally:
        trio_internals._ALLOW_DETERMINISTIC_SCHEDULING = before  # type: ignore[misc]
        trio_internals._r.setstate(state)


def run_seeded(seed: int, main: Callable[[], Awaitable[T]]) -> T:
    with _seeded_scheduler(seed):
        return trio.run(main, clock=VirtualClock())


def random_of(seed: int, *concern: object) -> Random:
    """A source of its own for each concern: what is left out of one leaves the others as they were."""
    return Random(":".join(map(str, (seed, *concern))))
