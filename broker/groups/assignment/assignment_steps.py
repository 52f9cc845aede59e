"""Work on large assignments in small steps, so that other tasks can run in between.

Such work is a generator. It yields how many items it has handled since its last step, and returns its result.
"""

import heapq
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[int, None, T]

SORTED_PER_STEP = 2_000


def sort_in_steps(items: Iterable[T], key: Callable[[T], Any]) -> Steps[list[T]]:
    """Sorts as `sorted` does. Equal items keep their order."""
    rest = iter(items)
    runs = []
    while run := list(islice(rest, SORTED_PER_STEP)):
        run.sort(key=key)
        runs.append(run)
        yield len(run)
    if len(runs) <= 1:
        return runs[0] if runs else []
    in_order = []
    for item in heapq.merge(*runs, key=key):
        in_order.append(item)
        yield 1
    return in_order
