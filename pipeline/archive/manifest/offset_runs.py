"""Sets of offsets as runs: sorted pairs of a first and a last offset that do not touch each other."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Run = tuple[int, int]
"""The first and the last offset of a run."""
Runs = Sequence[Run]
_SHOWN_RUNS_MAX = 3


def runs_of(offsets: Any) -> list[Run]:
    """Returns the runs of sorted offsets without duplicates, which are an array of numpy."""
    if not len(offsets):
        return []
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    firsts = offsets[np.concatenate(([0], breaks + 1))]
    lasts = offsets[np.concatenate((breaks, [len(offsets) - 1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def count(runs: Runs) -> int:
    """Returns the number of offsets."""
    return sum(last - first + 1 for first, last in runs)


def merged(runs: Iterable[Run]) -> tuple[list[Run], list[Run]]:
    """Merges runs in any order. Returns the offsets that occur, and those that occur more than once."""
    found: list[Run] = []
    again: list[Run] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1]:
            again.append((first, min(last, found[-1][1])))
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found, merged(again)[0] if again else []


def without(runs: Runs, removed: Runs) -> list[Run]:
    """Returns the offsets of `runs` that `removed` does not have."""
    found: list[Run] = []
    place = 0
    for first, last in runs:
        while place < len(removed) and removed[place][1] < first:
            place += 1
        at, start = place, first
        while at < len(removed) and removed[at][0] <= last:
            if removed[at][0] > start:
                found.append((start, removed[at][0] - 1))
            start = removed[at][1] + 1
            at += 1
        if start <= last:
            found.append((start, last))
    return found


def common(runs: Runs, others: Runs) -> list[Run]:
    """Returns the offsets that both have."""
    return without(runs, without(runs, others))


def runs_text(runs: Runs) -> str:
    """Returns the first runs as text for a person, such as `offsets 3 to 7, 9 and 2 more runs`."""
    shown = [str(first) if first == last else f"{first} to {last}" for first, last in runs[:_SHOWN_RUNS_MAX]]
    more = len(runs) - len(shown)
    noun = "offset" if count(runs) == 1 else "offsets"
    return f"{noun} {', '.join(shown)}" + (f" and {more} more run{'s' if more > 1 else ''}" if more else "")
