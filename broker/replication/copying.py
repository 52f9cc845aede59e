"""Decides what a follower that lacks a lot copies from other followers instead of its leader.

This is sound because of two facts. Below a store's own high watermark its log is the committed one under every leader.
Below the high watermark that a leader announces, so is the leader's log. Whatever lies below both is what the leader
would have sent. A copy makes no promise and commits nothing.

Only batches that follow each other without a gap, and that were never compacted, are taken. In a compacted log, the
beginning of one correct log and the end of another may make a wrong one: a tombstone may be gone from the first, while
the second still has the record that the tombstone deletes.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from tailrace.protocol.ids import Epoch, SpuId

from .entries import Entry, EntryKind, end_of
from .messages import Append


class CopyLimits(Struct, frozen=True):
    """Limits of copying from other followers."""

    lacking_bytes_min: int = 8 << 20
    """A follower that lacks fewer bytes, as estimated from the leader's first message, gets everything from its leader.
    Part of it has been sent already."""
    portion_bytes_max: int = 1 << 20
    """The size of one request."""


class CopyRequest(Struct, frozen=True):
    """A request to another follower for committed entries from `offset` on."""

    source: SpuId
    epoch: Epoch
    offset: int
    bytes_max: int
    is_first: bool = False


class CopyResponse(Struct, frozen=True):
    """The response to a CopyRequest."""

    request: CopyRequest
    entries: tuple[Entry, ...] = ()
    high_watermark: int = 0
    """The source's high watermark; entries beyond it are not copied."""
    failure: str | None = None
    """The reason why the request failed; None if it succeeded, even without entries."""


class CopyOutcome(Struct, frozen=True):
    """The result of a copy that has ended. The leader sends the rest."""

    offset: int
    records: int
    size_bytes: int
    sources: tuple[SpuId, ...]
    """The followers from which entries were taken."""
    reason: str


class Copying:
    """One copy: decides which follower is asked for what, and when the copy ends."""

    __slots__ = (
        "_end",
        "_portion_bytes_max",
        "_records",
        "_request",
        "_size_bytes",
        "_untried_sources",
        "_used_sources",
        "exhausted",
        "latest_append",
    )

    def __init__(self, latest_append: Append, end: int, sources: Sequence[SpuId], portion_bytes_max: int) -> None:
        self.latest_append = latest_append
        """The leader's latest Append with the largest high watermark."""
        self._end = end
        """The end up to which the leader has said where epochs begin. What the sources' batches are stamped with does
        not matter before it."""
        self._untried_sources = list(sources)
        """The followers that can still be asked; requests go to the first one."""
        self._portion_bytes_max = portion_bytes_max
        self._request: CopyRequest | None = None
        self._records = self._size_bytes = 0
        self._used_sources: dict[SpuId, None] = {}
        self.exhausted: set[SpuId] = set()
        """The followers that did not respond, or had nothing that continues this log."""

    @property
    def end(self) -> int:
        return min(self._end, self.latest_append.high_watermark)

    def on_append(self, append: Append) -> None:
        if append.high_watermark >= self.latest_append.high_watermark:
            self.latest_append = append

    def next_request(self, matched_end: int) -> CopyRequest | None:
        """Returns the next request, or None if the copy has ended."""
        if matched_end >= self.end or not self._untried_sources:
            return None
        is_first = self._request is None
        self._request = CopyRequest(
            self._untried_sources[0], self.latest_append.epoch, matched_end, self._portion_bytes_max, is_first=is_first
        )
        return self._request

    def is_waiting_for(self, request: CopyRequest) -> bool:
        return request == self._request

    def take(self, copied: CopyResponse, matched_end: int) -> tuple[Entry, ...]:
        """Returns the entries that continue the log at the matched end. A source that has none is not asked again."""
        end = min(self.end, copied.high_watermark)
        taken: list[Entry] = []
        position = matched_end
        for entry in copied.entries:
            if entry.end <= position:
                continue  # the leader has sent it in the meantime
            if entry.base != position or entry.end > end or entry.kind is EntryKind.COMPACTED:
                break
            taken.append(entry)
            position = entry.end
        if taken:
            self._records += position - matched_end
            self._size_bytes += sum(entry.size for entry in taken)
            self._used_sources[copied.request.source] = None
        elif copied.failure is not None or matched_end == copied.request.offset:
            source = self._untried_sources.pop(0)
            if copied.failure is not None or source not in self._used_sources:
                self.exhausted.add(source)
        return tuple(taken)

    def outcome(self, matched_end: int, reason: str | None = None) -> CopyOutcome:
        """Describes the copy that ends now."""
        if reason is None:
            reason = "done" if matched_end >= self.end else "no source has more"
        return CopyOutcome(matched_end, self._records, self._size_bytes, tuple(self._used_sources), reason)


def lacking_bytes(append: Append, matched_end: int) -> int:
    """Estimates how many committed bytes the follower lacks for which the leader has said where epochs begin.

    The estimate uses the size of the entries that the leader has just sent.
    """
    sent = end_of(append.entries, append.base) - append.base
    lacking = min(append.high_watermark, append.stamped_end) - matched_end
    if sent <= 0 or lacking <= 0:
        return 0
    return lacking * sum(entry.size for entry in append.entries) // sent


def rotated(sources: Collection[SpuId], turn: int) -> list[SpuId]:
    """Returns the sources in an order that depends on `turn`, so that partitions do not all ask the same source
    first."""
    sources = sorted(sources)
    turn = turn % len(sources) if sources else 0
    return sources[turn:] + sources[:turn]
