"""What a follower that lacks a lot copies from other followers: all but the rest of it, which its leader sends.

Two facts are enough. Below a store's own high watermark its log is the committed one, whoever leads; and so is the
leader's, below the high watermark that it tells. So what another store hands over of both is what the leader would have
sent. Nothing is promised for it, and nobody commits anything because of it.

Only batches that follow each other without a gap, and as they were produced, are taken: where compaction has been, two
logs that both are right may make one that is not, for a tombstone may be gone from the one while the other still has
what it deletes.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from tailrace.protocol.ids import Epoch, SpuId

from .entries import Entry, EntryKind, end_of
from .messages import Append


class CopyLimits(Struct, frozen=True):
    lacking_bytes_min: int = 8 << 20
    """Who lacks less, by what the first message shows of it, gets all of it from its leader: that has sent a part of
    this already."""
    portion_bytes_max: int = 1 << 20


class CopyRequest(Struct, frozen=True):
    """That store, for what is committed there from the offset on."""

    holder: SpuId
    epoch: Epoch
    offset: int
    bytes_max: int
    is_first: bool = False


class CopyResponse(Struct, frozen=True):
    """What it has handed over."""

    asked: CopyRequest
    entries: tuple[Entry, ...] = ()
    high_watermark: int = 0
    """There; what lies beyond is not to be copied."""
    failure: str | None = None
    """Why nothing was, if it was not for want of anything."""


class CopyOutcome(Struct, frozen=True):
    """A copy is over; the leader goes on."""

    offset: int
    records: int
    size_bytes: int
    holders: tuple[SpuId, ...]
    """Who handed over any of it."""
    reason: str


class Copying:
    """One copy: whom to ask, for what, and when it is over."""

    __slots__ = (
        "_asked",
        "_end",
        "_holders",
        "_portion_bytes_max",
        "_records",
        "_size_bytes",
        "_sources",
        "given_up",
        "told",
    )

    def __init__(self, told: Append, end: int, holders: Sequence[SpuId], portion_bytes_max: int) -> None:
        self.told = told
        """What the leader said last of its log."""
        self._end = end
        """Up to there the leader has said where epochs begin, whatever batches elsewhere are stamped with."""
        self._holders = list(holders)
        """Who is yet to be asked, the first one now."""
        self._portion_bytes_max = portion_bytes_max
        self._asked: CopyRequest | None = None
        self._records = self._size_bytes = 0
        self._sources: dict[SpuId, None] = {}
        self.given_up: set[SpuId] = set()
        """Who does not answer, or has nothing that goes on here."""

    @property
    def end(self) -> int:
        return min(self._end, self.told.high_watermark)

    def on_append(self, append: Append) -> None:
        if append.high_watermark >= self.told.high_watermark:
            self.told = append

    def next_question(self, matched_end: int) -> CopyRequest | None:
        """None: it is over."""
        if matched_end >= self.end or not self._holders:
            return None
        is_first = self._asked is None
        self._asked = CopyRequest(
            self._holders[0], self.told.epoch, matched_end, self._portion_bytes_max, is_first=is_first
        )
        return self._asked

    def is_asked(self, asked: CopyRequest) -> bool:
        return asked == self._asked

    def take(self, copied: CopyResponse, matched_end: int) -> tuple[Entry, ...]:
        """What of it goes on behind the matched end. Who has nothing that does is not asked again."""
        end = min(self.end, copied.high_watermark)
        taken: list[Entry] = []
        position = matched_end
        for entry in copied.entries:
            if entry.end <= position:
                continue  # the leader had sent it meanwhile
            if entry.base != position or entry.end > end or entry.kind is EntryKind.COMPACTED:
                break
            taken.append(entry)
            position = entry.end
        if taken:
            self._records += position - matched_end
            self._size_bytes += sum(entry.size for entry in taken)
            self._sources[copied.asked.holder] = None
        elif copied.failure is not None or matched_end == copied.asked.offset:
            holder = self._holders.pop(0)
            if copied.failure is not None or holder not in self._sources:
                self.given_up.add(holder)
        return tuple(taken)

    def over(self, matched_end: int, reason: str | None = None) -> CopyOutcome:
        if reason is None:
            reason = "done" if matched_end >= self.end else "nobody else has more"
        return CopyOutcome(matched_end, self._records, self._size_bytes, tuple(self._sources), reason)


def lacking_bytes(append: Append, matched_end: int) -> int:
    """How much is committed behind the matched end of which the leader has said where epochs begin: by the size of the
    entries that it has just sent."""
    sent = end_of(append.entries, append.base) - append.base
    lacking = min(append.high_watermark, append.stamped_end) - matched_end
    if sent <= 0 or lacking <= 0:
        return 0
    return lacking * sum(entry.size for entry in append.entries) // sent


def rotated(holders: Collection[SpuId], turn: int) -> list[SpuId]:
    """So that of many partitions not all ask the same one first."""
    holders = sorted(holders)
    turn = turn % len(holders) if holders else 0
    return holders[turn:] + holders[:turn]
