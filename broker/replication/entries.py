"""Entries: the batches of a log as replication sees them, with their epoch and the identity of their content.

The identity covers neither offsets nor epoch, because a batch's own checksum does not. So the epoch of an entry can be
stamped in place, and two stores can find out that they hold the same entry without comparing bytes.

Entries follow each other without gaps, and each holds what was produced, until compaction removes records. Compaction
only happens below the high watermark. So a gap, or an entry that has lost records, shows that everything before it was
committed.
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
    """The kind of an entry."""

    EVENT = 0
    """Records of producers."""
    HOLE = 1
    """Offsets for which no store has a record; only recovery writes it."""
    BRIDGE = 2
    """The end of what was recovered; it covers one offset."""
    COMPACTED = 3
    """An event that has lost records to compaction: it has fewer records than offsets."""


_COMPACTED = EntryKind.COMPACTED
"""A module constant, because looking up an enum member is slow and each entry is checked."""


class Entry(Struct, frozen=True, gc=False):  # an entry refers to nothing that could refer back to it
    """One batch in a log, as replication sees it."""

    base: int
    """The entry's first offset."""
    end: int
    """The offset after the entry's last offset."""
    epoch: Epoch
    """The epoch of the leader that replicated the entry last."""
    content: int = 0
    """The checksum of the batch; for a bridge the epoch that it names, for a hole 0."""
    kind: EntryKind = EntryKind.EVENT
    size: int = 1
    """The size of the batch in bytes."""

    def is_same_as(self, other: "Entry") -> bool:
        """Returns whether both are certainly the same entry.

        They are if their content is equal, or if their epoch is: an epoch has only one content at an offset.
        """
        if self.base != other.base or self.end != other.end:
            return False
        if self.epoch == other.epoch or self.kind is EntryKind.HOLE is other.kind:
            return True
        return self.content == other.content and self.kind is other.kind

    def may_equal(self, other: "Entry") -> bool:
        """Returns whether compaction of one of the entries makes it impossible to tell if they were the same."""
        return (
            self.base == other.base
            and self.end == other.end
            and EntryKind.COMPACTED in (self.kind, other.kind)
            and {self.kind, other.kind} <= {EntryKind.EVENT, EntryKind.COMPACTED}
        )

    def stamped(self, epoch: Epoch) -> "Entry":
        """Returns the entry with this epoch."""
        return self if self.epoch == epoch else replace(self, epoch=epoch)


class EntryLog(Protocol):
    """A replica's log for reading. Changes are requested as effects; see `ready`."""

    @property
    def log_start(self) -> int:
        """The first offset of the log. Everything before it was committed and then deleted. A batch may begin before it
        and end after it."""
        ...

    @property
    def log_end(self) -> int:
        """The offset after the last entry."""

    @property
    def epochs(self) -> Sequence[EpochStart]:
        """The epochs of the log in order. Entries that recovery has stamped belong to the epochs in which they were
        produced."""
        ...

    @property
    def stamped_end(self) -> int:
        """The end before which recovery has stamped entries, so that `epochs` and not the stamps say where epochs
        begin."""
        ...

    @property
    def is_end_sure(self) -> bool:
        """Whether the end of the log can be trusted. It cannot if only the offset of the last entry shows it and this
        entry follows a gap: no checksum covers the offset."""
        ...

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """Iterates in order over the entries that reach beyond `start` and begin before `end`."""
        ...

    def producers_before(self, offset: int) -> bytes:
        """Returns the state of all producers before this offset, for a log that is to begin there."""
        ...

    def has_valid_checksum(self, entry: Entry) -> bool:
        """Reads the entry and returns whether it matches its checksum. The header alone may be damaged."""
        ...


def end_of(entries: Sequence[Entry], otherwise: int) -> int:
    """Returns the end of the last entry, or `otherwise` if there are no entries."""
    return entries[-1].end if entries else otherwise


def entry_at(entries: Sequence[Entry], base: int) -> Entry | None:
    """Returns the entry that begins at `base`, from entries in order."""
    at = bisect_left(entries, base, key=_by_base)
    return entries[at] if at < len(entries) and entries[at].base == base else None


def portions(entries: Sequence[Entry], bytes_max: int, count_max: int) -> Iterator[tuple[Entry, ...]]:
    """Splits entries into portions that respect both limits; each has at least one entry."""
    first = size = 0
    for at, entry in enumerate(entries):
        size += entry.size
        if at > first and (size > bytes_max or at - first == count_max):
            yield tuple(entries[first:at])
            first, size = at, entry.size
    if first < len(entries):
        yield tuple(entries[first:])


def compacted_end(
    entries: Sequence[Entry],
    start: int,
    continues_at: int | None,
    has_valid_checksum: Callable[[Entry], bool] = _always,
) -> int:
    """Returns the end up to which the log has certainly been compacted, or 0 if nothing shows that it has.

    This is the end of the last gap or of the last compacted entry from `start` on. A flipped bit can look like either,
    so each sign is believed only as far as its neighbours and its checksum confirm it. `continues_at` is the offset at
    which the log continues after the last entry; None if this is not known for sure.
    """
    if not _has_gap(entries, start):
        return 0
    for at in range(len(entries) - 1, -1, -1):
        entry, before = entries[at], entries[at - 1] if at else None
        position = start if before is None else before.end
        if entry.kind is not EntryKind.COMPACTED and entry.base <= position:
            continue
        next_base = entries[at + 1].base if at + 1 < len(entries) else continues_at
        if next_base is None or not position <= entry.base < entry.end <= next_base:
            continue
        if entry.kind is EntryKind.COMPACTED and has_valid_checksum(entry):
            return entry.end
        if entry.base > position and (
            before is None or (_follows_previous(entries, at - 1, start) and has_valid_checksum(before))
        ):
            return entry.base
    return 0


def _has_gap(entries: Sequence[Entry], start: int) -> bool:
    """Returns whether anything looks like compaction. It hardly ever does, and all appended entries are checked."""
    for entry in entries:
        if entry.base > start or entry.kind is _COMPACTED:
            return True
        start = entry.end
    return False


def _follows_previous(entries: Sequence[Entry], at: int, start: int) -> bool:
    """Returns whether the entry does not overlap the one before it; the first entry must reach beyond `start`."""
    return entries[at].base >= entries[at - 1].end if at else entries[at].end > start
