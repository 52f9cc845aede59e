"""Tells how the transactions of fetched batches ended: from the aborted ones in a response, or from later markers."""

from bisect import bisect_right
from collections.abc import Sequence

from tailrace.protocol.batches.aborted_in_fetch import AbortedInFetch
from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.batches.transaction_markers import Marker

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"


class AbortedInResponse:
    """The aborted transactions that a leader names in one response to a reader with `read_committed`.

    Takes the batches of the response in order. All of them are before the last stable offset, so none is open.
    """

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        """Takes the producer id and the first offset of each aborted transaction."""
        self._aborted = AbortedInFetch(aborted)

    def state_of(self, header: BatchHeader, marker: Marker | None) -> str | None:
        """Returns how the transaction of the next batch ended; None if the batch is in no transaction."""
        is_aborted = self._aborted.has(header, marker)
        if header.is_control or not header.is_transactional:
            return None
        return ABORTED if is_aborted else COMMITTED


class EndsBehind:
    """The markers in a part of a log behind the last stable offset, where transactions may be open."""

    def __init__(self, start: int) -> None:
        self.scanned_to = start
        """The offset up to which the markers are known."""
        self._ends: dict[int, list[tuple[int, bool]]] = {}
        """The offset of each marker, and whether it commits, by producer id."""

    def note(self, header: BatchHeader, marker: Marker | None) -> None:
        """Takes the next batch of the log."""
        if header.next_offset <= self.scanned_to:
            return
        self.scanned_to = header.next_offset
        if marker is not None:
            self._ends.setdefault(header.producer_id, []).append((header.base_offset, marker.is_commit))

    def state_of(self, header: BatchHeader, marker: Marker | None) -> str | None:
        """Returns how the transaction of a batch ended, or OPEN; None if the batch is in no transaction."""
        if header.is_control or not header.is_transactional:
            return None
        ends = self._ends.get(header.producer_id, [])
        following = bisect_right(ends, (header.last_offset, True))
        if following == len(ends):
            return OPEN
        return COMMITTED if ends[following][1] else ABORTED
