"""What the handlers of a trigger did, as they recorded it, and the rules that it must obey.

- Every record is handled.
- A shard is handled by one worker of one replica at a time, so that two events of a shard never overlap.
- One owner of a shard handles it without a gap. It repeats an event only if the worker that handled it ended, or if it
  has lost the shard and got it again.
- An owner begins at or after every offset that was committed before, and leaves out nothing.
- An offset is committed only after everything before it was handled.
- Between two owners lies a pause, because a shard is taken only from a stale member, or from one that has just lost its
  lease. A replica that left needs none, and nothing that it handled is repeated.

All processes run on one machine and share its monotonic clock.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

Freezes = Mapping[int, Sequence[tuple[float, float]]]
"""From when to when each process was stopped by SIGSTOP, by process id."""


class Handled(Struct, frozen=True):
    """An event that a handler has begun."""

    shard: int
    offset: int
    start: float
    end: float | None
    """When the handler ended, or None if its process ended first."""
    owner: int
    """The process id of the replica."""
    worker: int
    """The process id of the worker."""

    def __str__(self) -> str:
        until = "an unknown end" if self.end is None else f"{self.end:.6f}"
        return f"offset {self.offset} from {self.start:.6f} to {until} by worker {self.worker} of {self.owner}"


class Commit(Struct, frozen=True):
    """An offset of a shard that was seen committed."""

    shard: int
    at: float
    """When the response with the offset had arrived."""
    offset: int


def read_handled(directory: Path) -> list[Handled]:
    """Reads what the workers wrote: a line when an event begins, and a line when it ends.

    A line is `begin|end SHARD OFFSET SECONDS OWNER WORKER`. A worker handles one event after the other, and each has a
    file of its own.
    """
    return [each for path in sorted(directory.glob("*.events")) for each in _events(path.read_text().splitlines())]


def _events(lines: Iterable[str]) -> Iterator[Handled]:
    open_event: Handled | None = None
    for line in lines:
        what, shard, offset, at, owner, worker = line.split()
        if what == "begin":
            if open_event is not None:
                yield open_event  # its handler raised
            open_event = Handled(int(shard), int(offset), float(at), None, int(owner), int(worker))
        else:
            assert open_event is not None and open_event.offset == int(offset), f"no event begins before: {line}"
            yield Handled(int(shard), int(offset), open_event.start, float(at), int(owner), int(worker))
            open_event = None
    if open_event is not None:
        yield open_event


def violations(
    handled: Iterable[Handled],
    records: Mapping[int, Sequence[int]],
    commits: Sequence[Commit] = (),
    freezes: Freezes | None = None,
    left: Mapping[int, float] | None = None,
    pause_seconds: float = 0,
) -> list[str]:
    """Returns each broken rule.

    `records` has the offsets of the records of each shard, in order. `left` says when each replica that left was asked
    to do so. A process that is frozen inside an event continues it later, and no lease can prevent that. Such an event
    counts only until its process was frozen.
    """
    found = []
    by_shard = _by_shard(handled)
    for shard, offsets in records.items():
        events = by_shard.pop(shard, [])
        of_shard = [each for each in commits if each.shard == shard]
        found += [f"shard {shard}: {each}" for each in _lost(events, offsets)]
        found += [f"shard {shard}: {each}" for each in _overlaps(events, freezes or {})]
        for tenure in tenures(events):
            found += [f"shard {shard}: {each}" for each in _out_of_order(tenure, offsets)]
        found += [f"shard {shard}: {each}" for each in _wrong_begins(events, offsets, of_shard)]
        found += [f"shard {shard}: {each}" for each in _committed_early(events, offsets, of_shard)]
        found += [f"shard {shard}: {each}" for each in _hasty(events, freezes or {}, left or {}, pause_seconds)]
    return [*found, *(f"shard {shard} does not exist, and was handled" for shard in by_shard)]


def repeats(handled: Iterable[Handled]) -> list[tuple[int, int]]:
    """Returns the shard and offset of each event that ended more than once, once for each repetition."""
    found = []
    for shard, events in _by_shard(handled).items():
        ended = sorted(each.offset for each in events if each.end is not None)
        found += [(shard, after) for before, after in pairwise(ended) if before == after]
    return found


def tenures(events: Sequence[Handled]) -> list[list[Handled]]:
    """Divides the events of a shard, in order of time, by who owned the shard.

    An owner that goes back has lost the shard and got it again, unless its worker ended within the last event.
    """
    last_of_worker = {each.worker: each.start for each in events}
    found: list[list[Handled]] = []
    for event in events:
        before = found[-1][-1] if found else None
        if before is None or before.owner != event.owner or _goes_back(before, event, last_of_worker):
            found.append([])
        found[-1].append(event)
    return found


def _goes_back(before: Handled, after: Handled, last_of_worker: Mapping[int, float]) -> bool:
    is_again = after.offset == before.offset and last_of_worker[before.worker] == before.start
    return after.offset <= before.offset and not is_again


def _by_shard(handled: Iterable[Handled]) -> dict[int, list[Handled]]:
    """Returns the events of each shard in the order of their starts."""
    by_shard: dict[int, list[Handled]] = {}
    for each in sorted(handled, key=lambda each: each.start):
        by_shard.setdefault(each.shard, []).append(each)
    return by_shard


def _lost(events: Sequence[Handled], offsets: Sequence[int]) -> Iterator[str]:
    done = {each.offset for each in events if each.end is not None}
    if missing := sorted(set(offsets) - done):
        yield f"{len(missing)} records were never handled: {missing[:5]}"
    if unknown := sorted({each.offset for each in events} - set(offsets)):
        yield f"{len(unknown)} records that do not exist were handled: {unknown[:5]}"


def _overlaps(events: Sequence[Handled], freezes: Freezes) -> Iterator[str]:
    latest: Handled | None = None
    latest_end = 0.0
    for each in events:
        if latest is not None and each.start < latest_end:
            who = "workers of one replica" if each.owner == latest.owner else "replicas"
            yield f"two {who} at once: {latest}, and {each}"
        end = _end(each, freezes)
        if latest is None or end > latest_end:
            latest, latest_end = each, end


def _end(event: Handled, freezes: Freezes) -> float:
    """Returns until when the event counts."""
    if event.end is None:
        return event.start
    inside = [since for since, until in freezes.get(event.worker, ()) if event.start <= since and until <= event.end]
    return min([event.end, *inside])


def _out_of_order(tenure: Sequence[Handled], offsets: Sequence[int]) -> Iterator[str]:
    next_after = dict(pairwise(offsets))
    for before, after in pairwise(tenure):
        is_next = after.offset == next_after.get(before.offset) and before.end is not None
        if not is_next and after.offset != before.offset:
            yield f"out of order: {before}, and then {after}"


def _wrong_begins(events: Sequence[Handled], offsets: Sequence[int], commits: Sequence[Commit]) -> Iterator[str]:
    first_unhandled = 0
    for tenure in tenures(events):
        first = tenure[0]
        committed = max((each.offset for each in commits if each.at < first.start), default=0)
        if first.offset < committed:
            yield f"{committed} was committed, and then an owner began at {first}"
        if any(first_unhandled <= offset < first.offset for offset in offsets):
            yield f"everything before {first_unhandled} was handled, and then an owner began at {first}"
        done = [each.offset + 1 for each in tenure if each.end is not None]
        first_unhandled = max([first_unhandled, *done])


def _committed_early(events: Sequence[Handled], offsets: Sequence[int], commits: Sequence[Commit]) -> Iterator[str]:
    first_ends: dict[int, float] = {}
    for each in events:
        if each.end is not None:
            first_ends[each.offset] = min(each.end, first_ends.get(each.offset, math.inf))
    handled_at, remaining = 0.0, deque(offsets)
    for commit in sorted(commits, key=lambda each: each.offset):
        while remaining and remaining[0] < commit.offset:
            handled_at = max(handled_at, first_ends.get(remaining.popleft(), math.inf))
        if handled_at > commit.at:
            yield f"{commit.offset} was committed at {commit.at:.6f}, and only handled at {handled_at:.6f}"


def _hasty(
    events: Sequence[Handled], freezes: Freezes, left: Mapping[int, float], pause_seconds: float
) -> Iterator[str]:
    for before, after in pairwise(tenures(events)):
        last, first = before[-1], after[0]
        pause = first.start - _end(last, freezes)
        if first.start > left.get(last.owner, math.inf):
            if first.offset <= last.offset and last.end is not None:
                yield f"the replica that left had handled more: {last}, and then {first}"
        elif pause < pause_seconds:
            yield f"begun again after only {pause:.3f} s: {last}, and then {first}"
