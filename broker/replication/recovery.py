"""Recovery: what a new leader makes of what the stores hold beyond the last high watermark that it knows.

Acknowledged entries are a prefix, held gaplessly by W stores, stamped with the epoch in which they were acknowledged or
a later one. So at each offset the entry of the largest epoch is the acknowledged one, if any is; and a store that has
another one there holds nothing acknowledged from there on.
"""

from collections.abc import Collection, Iterator, Sequence

from tailrace.protocol.ids import Epoch

from .entries import Entry, EntryKind, end_of
from .ready import AppendEntries, Cut, Persist, Restamp


def merge(start: int, stores: Collection[Sequence[Entry]], epoch: Epoch) -> list[Entry]:
    """The one log from `start` on that these stores' entries make, stamped with the new leader's epoch."""
    merged: list[Entry] = []
    readers = [_Reader(entries, start) for entries in stores]
    position = start
    while True:
        readers = [reader for reader in readers if reader.entry is not None and reader.entry.base >= position]
        held = [reader.entry for reader in readers if reader.entry is not None]
        if not held:
            return merged
        base = min(entry.base for entry in held)
        if base > position:
            merged.append(Entry(position, base, epoch, kind=EntryKind.HOLE))
        taken = max((entry for entry in held if entry.base == base), key=lambda entry: entry.epoch)
        merged.append(taken.stamped(epoch))
        position = taken.end
        readers = [reader for reader in readers if reader.agrees_with(taken)]


def begins_like(committed: Sequence[Entry], start: int, entries: Sequence[Entry]) -> bool:
    """Whether a store's entries before `start` are the committed ones, so that the rest may belong to the same log.

    One that was away while others committed something else may end far beyond, with what nobody has acknowledged.
    """
    by_base = {entry.base: entry for entry in committed}
    return all(entry.base in by_base and entry.same_as(by_base[entry.base]) for entry in entries if entry.base < start)


class _Reader:
    """One store's entries, as far as they may be part of the log."""

    __slots__ = ("_rest", "entry")

    def __init__(self, entries: Sequence[Entry], start: int) -> None:
        self._rest = iter([entry for entry in entries if entry.end > start])
        self.entry: Entry | None = next(self._rest, None)
        """The next one."""

    def agrees_with(self, taken: Entry) -> bool:
        """Goes on if the store has this entry, or misses it; no more of a store that has another one."""
        assert self.entry is not None
        if self.entry.same_as(taken):
            self.entry = next(self._rest, None)
            return True
        return self.entry.base >= taken.end


def rewritten(own: Sequence[Entry], wanted: Sequence[Entry]) -> Iterator[Persist]:
    """What makes a log that ends with `own` one that ends with `wanted`; it keeps all that is the same."""
    same = 0
    while same < min(len(own), len(wanted)) and own[same].same_as(wanted[same]):
        same += 1
    yield from restamps(own[:same], wanted[:same])
    if same < len(own):
        yield Cut(own[same].base)
    if same < len(wanted):
        yield AppendEntries(tuple(wanted[same:]))


def restamps(own: Sequence[Entry], wanted: Sequence[Entry]) -> Iterator[Restamp]:
    """Runs of entries whose epoch is to become another one."""
    run: Restamp | None = None
    for mine, theirs in zip(own, wanted, strict=True):
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


def bridge(after: Sequence[Entry], epoch: Epoch) -> Entry:
    """Ends what was recovered. Its content names the epoch: the bridge of another recovery is another one."""
    end = end_of(after, 0)
    return Entry(end, end + 1, epoch, content=epoch, kind=EntryKind.BRIDGE)
