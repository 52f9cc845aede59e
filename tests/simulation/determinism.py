"""Runs a coroutine so that one seed gives one history: virtual time, and Trio's scheduler drawn from the seed.

Trio shuffles the tasks that are ready, on purpose. Its own tests make that repeatable through two private names, which
are used here and nowhere else; `test_determinism` would notice if they went away. (`virtual_clock` uses two more.)
"""

from collections.abc import Awaitable, Callable, Iterator, MutableSequence
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

import pytest
import trio
from trio._core import _run as trio_internals

from .virtual_clock import VirtualClock, cheap_sleep

T = TypeVar("T")


class _Order(Random):
    """Most often one task alone is ready: there is nothing to draw then."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        if len(x) > 1:
            super().shuffle(x)


@contextmanager
def _seeded_scheduler(seed: int) -> Iterator[None]:
    """Puts everything back: other tests in this process keep Trio's own disorder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trio_internals, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
        patch.setattr(trio_internals, "_r", _Order(seed))
        yield


def run_seeded(seed: int, main: Callable[[], Awaitable[T]]) -> T:
    with _seeded_scheduler(seed), cheap_sleep():
        return trio.run(main, clock=VirtualClock())


def random_of(seed: int, *concern: object) -> Random:
    """A source of its own for each concern: what is left out of one leaves the others as they were."""
    return Random(":".join(map(str, (seed, *concern))))
