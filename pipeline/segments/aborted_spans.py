"""Tells which batches of a range belong to transactions that were aborted. Pure."""

from bisect import bisect_right
from collections.abc import Iterable

from tailrace.protocol.batches.record_batch import TRANSACTIONAL, BatchHeader

AbortedSpan = tuple[int, int, int]
"""An aborted transaction: the id of its producer, its first offset, and the offset of its marker or another offset
before which the producer has no other transaction."""


class AbortedBatches:
    """The batches of some aborted transactions."""

    def __init__(self, spans: Iterable[AbortedSpan]) -> None:
        self._spans: dict[int, list[tuple[int, int]]] = {}
        """The first offset and the end of each transaction, in order, by producer. Transactions of a producer follow
        one another."""
        for producer_id, first, end in spans:
            self._spans.setdefault(producer_id, []).append((first, end))
        for of_producer in self._spans.values():
            of_producer.sort()

    def __contains__(self, header: BatchHeader) -> bool:
        if not header.attributes & TRANSACTIONAL or header.is_control:
            return False
        spans = self._spans.get(header.producer_id)
        if spans is None:
            return False
        offset = header.base_offset
        place = bisect_right(spans, offset, key=lambda span: span[0]) - 1
        return place >= 0 and offset < spans[place][1]
