"""What a log consists of, as far as replication cares: batches with their epoch and the identity of their content.

The identity covers neither offsets nor epoch, as a batch's own checksum does not. So the epoch of an entry can be
stamped anew in place, and two stores can find out that they have the same without looking at the bytes.

Entries follow each other without gaps, and each is as it was produced, until compaction takes records away. It does so
below the high watermark only: so a gap, or an entry that has lost something, tells that all before was committed.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from operator import attrgetter
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tailrace.protocol.ids import Epoch

from .epoch_starts import EpochStart

_by_base = attrgetter("base")


def _always(entry: "Entry") -> bool:
    return True


class EntryKind(Enum):
    EVENT = 0
    HOLE = 1
    """Offsets that no store holds; written by recovery."""
    BRIDGE = 2
    """Ends what was recovered; one offset."""
    COMPACTED = 3
    """Events of which some are gone: fewer records than offsets."""


_COMPACTED = EntryKind.COMPACTED
"""An enum is slow to look up, and this is asked of each entry."""


class Entry(Struct, frozen=True, gc=False):  # it refers to nothing that could refer to it
    base: int
    end: int
    """Exclusive."""
    epoch: Epoch
    """Of the leader that replicated it last."""
    content: int = 0
    """The batch's checksum; of a bridge the epoch that it names, of a hole 0."""
    kind: EntryKind = EntryKind.EVENT
    size: int = 1
    """In bytes."""

    def is_same_as(self, other: "Entry") -> bool:
        """It is the same for sure: of one content, or of one epoch, which has but one content at an offset."""
        if self.base != other.base or self.end != other.end:
            return False
        if self.epoch == other.epoch or self.kind is EntryKind.HOLE is other.kind:
            return True
        return self.content == other.content and self.kind is other.kind

    def may_equal(self, other: "Entry") -> bool:
        """Nobody can tell from the content, because one of them has lost some of it."""
        return (
            self.base == other.base
            and self.end == other.end
            and EntryKind.COMPACTED in (self.kind, other.kind)
            and {self.kind, other.kind} <= {EntryKind.EVENT, EntryKind.COMPACTED}
        )

    def stamped(self, epoch: Epoch) -> "Entry":
        return self if self.epoch == epoch else replace(self, epoch=epoch)


class EntryLog(Protocol):
    """A replica's own log, read only: what is to change in it is asked for with effects."""

    @property
    def log_start(self) -> int:
        """Whatever is before it was committed, and has been deleted. A batch may begin before it and end after it."""
        ...

    @property
    def log_end(self) -> int: ...

    @property
    def epochs(self) -> Sequence[EpochStart]:
        """In order. Entries that a recovery has stamped anew belong to the epochs in which they were produced."""
        ...

    @property
    def stamped_end(self) -> int:
        """Before it recovery has stamped entries: not they say where epochs begin, but `epochs`."""
        ...

    @property
    def is_end_sure(self) -> bool:
        """Not if nothing but the offset of the last entry says where it ends, and that lies behind a gap: no checksum
        covers it."""
        ...

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """In order, those that reach beyond `start` and begin before `end`."""
        ...

    def producers_before(self, offset: int) -> bytes:
        """Who had appended before it, and what: a log that begins there cannot tell."""
        ...

    def is_sound(self, entry: Entry) -> bool:
        """Whether it has its checksum: a header alone may be damaged."""
        ...


def end_of(entries: Sequence[Entry], otherwise: int) -> int:
    return entries[-1].end if entries else otherwise


def entry_at(entries: Sequence[Entry], base: int) -> Entry | None:
    """Of entries in order the one that begins there."""
    at = bisect_left(entries, base, key=_by_base)
    return entries[at] if at < len(entries) and entries[at].base == base else None


def portions(entries: Sequence[Entry], bytes_max: int, count_max: int) -> Iterator[tuple[Entry, ...]]:
    """As many entries in each as fit into it, and at least one."""
    first = size = 0
    for at, entry in enumerate(entries):
        size += entry.size
        if at > first and (size > bytes_max or at - first == count_max):
            yield tuple(entries[first:at])
            first, size = at, entry.size
    if first < len(entries):
        yield tuple(entries[first:])


def compacted_end(
    entries: Sequence[Entry], start: int, follows: int | None, is_sound: Callable[[Entry], bool] = _always
) -> int:
    """Up to where compaction has been here for sure: where the last gap or compacted entry from `start` on ends.

    0 if there is none. A bit that has flipped looks like one as well, so each is believed only as far as its neighbours
    and its checksum agree: `follows` is where the log goes on behind the last entry; None: nobody knows for sure.
    """
    if not _has_gap(entries, start):
        return 0
    for at in range(len(entries) - 1, -1, -1):
        entry, before = entries[at], entries[at - 1] if at else None
        position = start if before is None else before.end
        if entry.kind is not EntryKind.COMPACTED and entry.base <= position:
            continue
        next_base = entries[at + 1].base if at + 1 < len(entries) else follows
        if next_base is None or not position <= entry.base < entry.end <= next_base:
            continue
        if entry.kind is EntryKind.COMPACTED and is_sound(entry):
            return entry.end
        if entry.base > position and (before is None or (_goes_on(entries, at - 1, start) and is_sound(before))):
            return entry.base
    return 0


def _has_gap(entries: Sequence[Entry], start: int) -> bool:
    """Whether anything looks as if compaction had been here: hardly ever, and this is asked of all that is appended."""
    for entry in entries:
        if entry.base > start or entry.kind is _COMPACTED:
            return True
        start = entry.end
    return False


def _goes_on(entries: Sequence[Entry], at: int, start: int) -> bool:
    """Whether the entry does not overlap the one before it; the first one reaches beyond `start`."""
    return entries[at].base >= entries[at - 1].end if at else entries[at].end > start
