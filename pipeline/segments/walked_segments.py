"""Remembers what one plan has read of open segments, so that the next plan reads only what follows."""

from msgspec import Struct
from msgspec.structs import replace

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.storage.transactions.aborted_transactions import AbortedTransaction


class WalkedSegment(Struct):
    """The batches of a segment up to some offset, as far as transactions matter."""

    opened_before: dict[int, int]
    """The first offsets of the transactions that were open where the segment begins, by producer."""
    opened: dict[int, int]
    """The first offsets of the transactions that are open at the end, by producer."""
    aborted: list[AbortedTransaction]
    """The aborted transactions that end here."""
    end: int
    """The offset after the last batch that was read."""
    position: int = 0
    """The position of the last batch that was read."""
    header: BatchHeader | None = None
    """The header of that batch; None before the first one."""

    def copy(self) -> "WalkedSegment":
        """Returns a copy that can go on."""
        return replace(self, opened=dict(self.opened), aborted=list(self.aborted))


class WalkedSegments:
    """What is known of segments after a plan. It has as many segments as the plan has read."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, int], WalkedSegment] = {}
        self._now: dict[tuple[str, int], WalkedSegment] = {}

    def begin_plan(self) -> None:
        """Forgets the segments that the last plan has not read."""
        self._before, self._now = self._now, {}

    def get(self, directory: str, base: int) -> WalkedSegment | None:
        """Returns what is known of a segment."""
        return self._now.get((directory, base)) or self._before.get((directory, base))

    def put(self, directory: str, base: int, walked: WalkedSegment) -> None:
        """Remembers a segment."""
        self._now[directory, base] = walked
