"""Recovery: what a new leader makes of what the stores hold beyond the last high watermark that it knows.

Below the largest high watermark among the answers, the log of the store that knows it is the committed one, with its
gaps. Beyond it nobody has compacted anything, and acknowledged entries are a prefix, held by W stores, stamped with the
epoch in which they were acknowledged or a later one. So at each offset the entry of the largest epoch is the
acknowledged one, if any is; and a store that has another one there holds nothing acknowledged from there on.
"""

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from tailrace.protocol.ids import NO_EPOCH, Epoch

from .entries import Entry, EntryKind, end_of
from .messages import SealReply


class RecoveredLog(Struct, frozen=True):
    start: int
    """From here on the leader's log is to be this; all before it was committed already, or is deleted."""
    entries: tuple[Entry, ...]
    """All to be stamped with the new leader's epoch; the last one is the bridge, if there are any."""
    high_watermark: int
    """The largest that any store knows."""
    high_watermark_epoch: Epoch
    log_start: int
    """The largest that any store has: everything before it was committed, and deleted."""

    @property
    def end(self) -> int:
        return end_of(self.entries, self.start)


def recovered_log(
    own_before: Sequence[Entry], start: int, replies: Collection[SealReply], epoch: Epoch
) -> RecoveredLog:
    """The log from the leader's own high watermark (`start`) on; its entries before that are compared only.

    The first reply is the leader's own.
    """
    authority = max(replies, key=lambda reply: reply.high_watermark)
    high_watermark = authority.high_watermark
    start = _beginning(authority, start)
    entries = [entry for entry in authority.entries if start <= entry.base < high_watermark]
    committed = [*own_before, *entries]
    fitting = [
        reply.entries
        for reply in replies
        if reply.high_watermark == high_watermark or begins_like(committed, high_watermark, reply.entries)
    ]
    entries += merge(max(start, high_watermark), fitting, epoch)
    if entries:
        entries.append(bridge_entry(entries[-1].end, epoch))
    log_start = max(reply.log_start for reply in replies)
    return RecoveredLog(start, tuple(entries), high_watermark, authority.high_watermark_epoch, log_start)


def _beginning(authority: SealReply, start: int) -> int:
    """Where the recovered log begins: later than asked, if the store that knows most has deleted that by now."""
    if authority.log_start <= start:
        return start
    first = next((entry.base for entry in authority.entries if entry.end > authority.log_start), authority.log_start)
    return min(first, authority.log_start)


def merge(start: int, stores: Collection[Sequence[Entry]], epoch: Epoch) -> list[Entry]:
    """The one log from `start` on that these stores' entries make, stamped with the new leader's epoch."""
    return [entry.stamped(epoch) for entry in resolved(start, stores)]


def resolved(start: int, stores: Collection[Sequence[Entry]]) -> Iterator[Entry]:
    """The same, as it is stamped now; holes that nobody has written yet are of no epoch."""
    readers = [_Reader(entries, start) for entries in stores]
    position = start
    while True:
        readers = [reader for reader in readers if reader.entry is not None and reader.entry.base >= position]
        held = [reader.entry for reader in readers if reader.entry is not None]
        if not held:
            return
        base = min(entry.base for entry in held)
        if base > position:
            yield Entry(position, base, NO_EPOCH, kind=EntryKind.HOLE)
        taken = max((entry for entry in held if entry.base == base), key=lambda entry: entry.epoch)
        yield taken
        position = taken.end
        readers = [reader for reader in readers if reader.agrees_with(taken)]


def begins_like(committed: Sequence[Entry], start: int, entries: Sequence[Entry]) -> bool:
    """Whether a store's entries before `start` are the committed ones, so that the rest may belong to the same log.

    One that was away while others committed something else may end far beyond, with what nobody has acknowledged. Where
    the committed log has been compacted or deleted, there is nothing to compare.
    """
    position = 0
    for entry in entries:
        if entry.base >= start:
            break
        while position < len(committed) and committed[position].end <= entry.base:
            position += 1
        if position == len(committed):
            break
        other = committed[position]
        if other.base < entry.end and not (entry.is_same_as(other) or entry.may_equal(other)):
            return False
    return True


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
        if self.entry.is_same_as(taken):
            self.entry = next(self._rest, None)
            return True
        return self.entry.base >= taken.end


def bridge_entry(end: int, epoch: Epoch) -> Entry:
    """Ends what was recovered. Its content names the epoch: the bridge of another recovery is another one."""
    return Entry(end, end + 1, epoch, content=epoch, kind=EntryKind.BRIDGE)
