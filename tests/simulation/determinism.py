"""Runs a coroutine so that each seed has exactly one history, with virtual time and a seeded Trio scheduler.

Trio shuffles the tasks that are ready on purpose. Its own tests make that repeatable through two private names, which
only this module uses. `test_determinism` fails if they disappear. (`virtual_clock` uses two other private names.)
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
    """A random source that draws nothing if only one task is ready, which is the most frequent case."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        if len(x) > 1:
            super().shuffle(x)


@contextmanager
def _seeded_scheduler(seed: int) -> Iterator[None]:
    """Seeds Trio's scheduler, and restores it at the end, because other tests in this process need a random order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trio_internals, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
        patch.setattr(trio_internals, "_r", _Order(seed))
        yield


def run_seeded(seed: int, main: Callable[[], Awaitable[T]]) -> T:
    with _seeded_scheduler(seed), cheap_sleep():
        return trio.run(main, clock=VirtualClock())


def random_of(seed: int, *concern: object) -> Random:
    """Returns a random source for one concern, so that a change of one concern does not change the others."""
    return Random(":".join(map(str, (seed, *concern))))
