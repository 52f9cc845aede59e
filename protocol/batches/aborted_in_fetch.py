"""Tells which fetched batches belong to aborted transactions, for readers of committed records. Pure."""

from collections.abc import Iterable

from .record_batch import BatchHeader
from .transaction_markers import Marker


class AbortedInFetch:
    """The aborted transactions that a leader names in one response to a reader of committed records.

    It takes the batches of the response in order. All of them are before the last stable offset, so none belongs to an
    open transaction.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """Takes the producer id and the first offset of each aborted transaction."""
        self._waiting = sorted(((first_offset, producer_id) for producer_id, first_offset in aborted), reverse=True)
        self._producers: set[int] = set()
        """The producers whose transaction at the last batch was aborted."""

    def has(self, header: BatchHeader, marker: Marker | None) -> bool:
        """Takes the next batch; returns whether it has records of an aborted transaction.

        `marker` is None if the batch ends no transaction.
        """
        while self._waiting and self._waiting[-1][0] <= header.last_offset:
            self._producers.add(self._waiting.pop()[1])
        if marker is not None and not marker.is_commit:
            self._producers.discard(header.producer_id)
        return header.is_transactional and not header.is_control and header.producer_id in self._producers
