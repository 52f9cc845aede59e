"""Makes one log go on as another does, and keeps all that is the same: followers, and leaders that have recovered.

Where one log has been compacted and the other has not, nobody can tell whether they were the same: unless an entry
behind that is the same in both and of one epoch, or a bridge, which names its epoch whoever has stamped it since. For
the leader of that epoch had one log before it, and so had both of these.
"""

from collections.abc import Iterable, Iterator, Sequence

from tailrace.protocol.ids import Epoch

from .entries import Entry, EntryKind
from .ready import AdvanceLogStart, AppendEntries, Persist, Restamp, Truncate


def rewritten(
    own: Sequence[Entry],
    log_end: int,
    wanted: Sequence[Entry],
    *,
    epoch: Epoch | None = None,
    begin_at: int | None = None,
    producers: bytes = b"",
) -> Iterator[Persist]:
    """What makes a log that goes on with `own`, and ends there, one that goes on with `wanted`.

    `epoch`: stamp it with that. `begin_at`: the log is to begin there, and may end before; `producers` had appended
    what it lacks.
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
    """Runs of entries whose epoch is to become another one."""
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
