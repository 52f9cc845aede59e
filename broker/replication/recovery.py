"""Recovery: the log that a new leader makes of what the sealed stores hold beyond its high watermark.

Below the largest high watermark among the replies, the log of the store that knows it is the committed one, including
its gaps. Beyond it, no store has compacted anything. The acknowledged entries there are a prefix of the log. W stores
hold them, stamped with the epoch in which they were acknowledged or a later one. So at each offset, the entry of the
largest epoch is the acknowledged one, if any is. A store with a different entry there holds nothing acknowledged from
that offset on.
"""

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from tailrace.protocol.ids import NO_EPOCH, Epoch

from .entries import Entry, EntryKind, end_of
from .messages import SealReply


class RecoveredLog(Struct, frozen=True):
    """The result of recovery."""

    start: int
    """The offset from which the leader's log becomes `entries`. Everything before it was already committed, or is
    deleted."""
    entries: tuple[Entry, ...]
    """The recovered entries, all stamped with the new leader's epoch. The last one is the bridge, unless there are
    none."""
    high_watermark: int
    """The largest high watermark of any store."""
    high_watermark_epoch: Epoch
    log_start: int
    """The largest log start of any store: everything before it was committed and then deleted."""

    @property
    def end(self) -> int:
        return end_of(self.entries, self.start)


def recovered_log(
    own_before: Sequence[Entry], start: int, replies: Collection[SealReply], epoch: Epoch
) -> RecoveredLog:
    """Returns the log from the leader's own high watermark (`start`) on.

    The first reply is the leader's own. `own_before` are the leader's entries before `start`, which are only compared.
    """
    authority = max(replies, key=lambda reply: reply.high_watermark)
    high_watermark = authority.high_watermark
    start = _recovered_start(authority, start)
    entries = [entry for entry in authority.entries if start <= entry.base < high_watermark]
    committed = [*own_before, *entries]
    fitting = [
        reply.entries
        for reply in replies
        if reply.high_watermark == high_watermark or has_committed_prefix(committed, high_watermark, reply.entries)
    ]
    entries += merge_stamped(max(start, high_watermark), fitting, epoch)
    if entries:
        entries.append(bridge_entry(entries[-1].end, epoch))
    log_start = max(reply.log_start for reply in replies)
    return RecoveredLog(start, tuple(entries), high_watermark, authority.high_watermark_epoch, log_start)


def _recovered_start(authority: SealReply, start: int) -> int:
    """Returns where the recovered log begins. It is later than `start` if the authority has deleted that part."""
    if authority.log_start <= start:
        return start
    first = next((entry.base for entry in authority.entries if entry.end > authority.log_start), authority.log_start)
    return min(first, authority.log_start)


def merge_stamped(start: int, stores: Collection[Sequence[Entry]], epoch: Epoch) -> list[Entry]:
    """Merges the stores' entries from `start` on into one log, stamped with the new leader's epoch."""
    return [entry.stamped(epoch) for entry in merged_entries(start, stores)]


def merged_entries(start: int, stores: Collection[Sequence[Entry]]) -> Iterator[Entry]:
    """Merges the stores' entries from `start` on into one log, with their present stamps. A hole that is not written
    yet has NO_EPOCH."""
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


def has_committed_prefix(committed: Sequence[Entry], start: int, entries: Sequence[Entry]) -> bool:
    """Returns whether a store's entries before `start` are the committed ones, so that the rest may belong to the same
    log.

    A store that was away while other entries were committed may have a long log whose end was never acknowledged. Where
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
    """Reads the entries of one store as far as they may be part of the merged log."""

    __slots__ = ("_rest", "entry")

    def __init__(self, entries: Sequence[Entry], start: int) -> None:
        self._rest = iter([entry for entry in entries if entry.end > start])
        self.entry: Entry | None = next(self._rest, None)
        """The next entry; None at the end."""

    def agrees_with(self, taken: Entry) -> bool:
        """Moves on if the store has the taken entry or lacks it; returns False if the store has a different one."""
        assert self.entry is not None
        if self.entry.is_same_as(taken):
            self.entry = next(self._rest, None)
            return True
        return self.entry.base >= taken.end


def bridge_entry(end: int, epoch: Epoch) -> Entry:
    """Makes the bridge that ends what was recovered. Its content is the epoch, so bridges of two recoveries differ."""
    return Entry(end, end + 1, epoch, content=epoch, kind=EntryKind.BRIDGE)
