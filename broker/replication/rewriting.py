"""Computes the changes that make one log continue as another does, and keep all entries that are the same.

Followers use it, and leaders after recovery. If one log has been compacted and the other has not, their entries alone
do not show whether they were the same. But an entry behind them may show it: one that is the same and of the same epoch
in both logs, or a bridge, which names its epoch whatever it is stamped with. The leader of that epoch had one log
before this entry, so both logs have had that log.
"""

from collections.abc import Iterable, Iterator, Sequence

from tailrace.protocol.ids import Epoch

from .entries import Entry, EntryKind
from .ready import AdvanceLogStart, AppendEntries, Persist, Restamp, Truncate


def changes_to_match(
    own: Sequence[Entry],
    log_end: int,
    wanted: Sequence[Entry],
    *,
    epoch: Epoch | None = None,
    begin_at: int | None = None,
    producers: bytes = b"",
) -> Iterator[Persist]:
    """Yields the changes that turn a log with the entries `own` up to `log_end` into one that continues with `wanted`.

    If `epoch` is given, the entries are stamped with it. If `begin_at` is given, the log is to begin there although it
    may end before; `producers` is the producer state that it lacks.
    """
    pairs = []
    kept = done = at = 0
    for next_one, entry in enumerate(wanted):
        while at < len(own) and own[at].end <= entry.base:
            at += 1
        if at == len(own):
            break
        mine = own[at]
        is_of_one_epoch = mine.epoch == entry.epoch or mine.kind is EntryKind.BRIDGE
        is_certain = is_of_one_epoch or (at, next_one) == (kept, done)
        if is_certain and mine.is_same_as(entry):
            pairs.append((mine, entry if epoch is None else entry.stamped(epoch)))
            kept, done = at + 1, next_one + 1
        elif not (mine.is_same_as(entry) or mine.may_equal(entry)):
            break
        at += 1
    yield from restamps(pairs)
    rest = wanted[done:]
    if kept < len(own) or (rest and rest[0].base < log_end):
        yield Truncate(min(entry.base for entry in (*own[kept : kept + 1], *rest[:1])))
    if begin_at is not None:
        yield AdvanceLogStart(begin_at, producers)
    if rest:
        yield AppendEntries(tuple(rest if epoch is None else (entry.stamped(epoch) for entry in rest)))


def restamps(pairs: Iterable[tuple[Entry, Entry]]) -> Iterator[Restamp]:
    """Yields a Restamp for each run of entries whose epoch changes to the same one."""
    run: Restamp | None = None
    for mine, theirs in pairs:
        if mine.epoch == theirs.epoch:
            continue
        if run is not None and run.end == mine.base and run.epoch == theirs.epoch:
            run = Restamp(run.base, mine.end, run.epoch)
        else:
            if run is not None:
                yield run
            run = Restamp(mine.base, mine.end, theirs.epoch)
    if run is not None:
        yield run
