"""The batches of a shard that were fetched and are still needed, found by offset and counted without decoding records.

A log has gaps: compaction removes records, and control batches and aborted transactions have none to handle. A gap
counts as handled.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from msgspec import Struct

from tailrace.protocol.batches.aborted_in_fetch import AbortedInFetch
from tailrace.protocol.batches.keyed_records import record_times
from tailrace.protocol.batches.record_batch import BatchHeader, iterate
from tailrace.protocol.batches.records import Record, open_body, read_records
from tailrace.protocol.batches.transaction_markers import marker_of
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import KafkaError
from tailrace.trigger.work import Shard

from .pieces import Original


class FetchedBatch(Struct):
    """One whole batch with records of producers."""

    header: BatchHeader
    data: bytes
    arrived: float
    """When the batch was fetched."""
    arrived_ms: int
    """When the batch was fetched, by the wall clock."""
    body: bytes = b""
    """The decompressed records, if the batch was opened."""
    offset_list: Sequence[int] = ()
    """The offsets of the records, once they were needed."""

    @property
    def base(self) -> int:
        return self.header.base_offset

    @property
    def end(self) -> int:
        return self.header.next_offset

    @property
    def memory(self) -> int:
        return len(self.data) + len(self.body)

    def offsets(self) -> Sequence[int]:
        """Returns the offsets of the records. Only a batch with gaps is decoded. A batch that cannot be decoded counts
        as one without gaps: a worker will say what is wrong with it."""
        if not self.offset_list:
            every = range(self.base, self.end)
            self.offset_list = every if self.header.record_count == len(every) else self._read_offsets() or every
        return self.offset_list

    def _read_offsets(self) -> Sequence[int]:
        try:
            body = open_body(self.data, self.header)
            return [self.base + delta for delta, _ in record_times(body, self.header.record_count)]
        except KafkaError:
            return ()


class FetchedBatches:
    """The fetched batches of a shard, in the order of their offsets."""

    def __init__(self, offset: int, bytes_max: int) -> None:
        self.end = offset
        """The offset from which the next fetch reads."""
        self.has_ended = False
        """Whether no more batches come."""
        self.memory = 0
        """How many bytes the batches take."""
        self._bytes_max = bytes_max
        self._batches: list[FetchedBatch] = []
        self._bases: list[int] = []
        self._last_decoded: tuple[FetchedBatch | None, dict[int, Record]] = (None, {})

    @property
    def is_full(self) -> bool:
        """Whether no more may be fetched: the batches take more than half of the room. A fetch is thus never small."""
        return self.memory > self._bytes_max // 2

    @property
    def room(self) -> int:
        """How many bytes may be fetched."""
        return 0 if self.is_full else self._bytes_max - self.memory

    def add(self, records: Buffer, now: float, wall_ms: int, aborted: Sequence[tuple[int, int]] = ()) -> None:
        """Adds the whole batches of a fetch response. Skips control batches, and batches that are already known.

        It also skips the batches of aborted transactions: `aborted` has the producer id and the first offset of each.
        Raises KafkaError (CORRUPT_MESSAGE) at a corrupt header; the batches before it were added.
        """
        view = memoryview(records)
        transactions = AbortedInFetch(aborted) if aborted else None
        for position, header in iterate(records):
            is_aborted = transactions is not None and transactions.has(header, marker_of(header, view, position))
            if header.next_offset <= self.end:
                continue
            self.end = header.next_offset
            if header.is_control or not header.record_count or is_aborted:
                continue
            batch = FetchedBatch(header, bytes(view[position : position + header.size]), now, wall_ms)
            self._batches.append(batch)
            self._bases.append(batch.base)
            self.memory += batch.memory

    def opened(self, batch: FetchedBatch, body: bytes) -> None:
        """Keeps the decompressed records of a batch."""
        self.memory += len(body) - len(batch.body)
        batch.body = body

    def drop_before(self, offset: int) -> None:
        """Forgets the batches with no record at or after the offset."""
        count = 0
        for batch in self._batches:
            if batch.end > offset:
                break
            self.memory -= batch.memory
            count += 1
        if count:
            del self._batches[:count], self._bases[:count]
            self._last_decoded = (None, {})

    def skip_to(self, offset: int) -> None:
        """Skips the offsets before this one, because the log has no records there."""
        self.end = max(self.end, offset)

    def truncate(self, offset: int) -> int:
        """Forgets the batches with records at or after the offset. Returns where the next fetch begins."""
        while self._batches and self._batches[-1].end > offset:
            batch = self._batches.pop()
            offset = min(offset, self._bases.pop())
            self.memory -= batch.memory
        self._last_decoded = (None, {})
        self.end = min(self.end, offset)
        return self.end

    def arrived(self, offset: int) -> float:
        """Returns when the first record at or after the offset was fetched. There must be one."""
        return self._batches[self._index(offset)].arrived

    def from_offset(self, offset: int) -> Sequence[FetchedBatch]:
        """Returns the batches with records at or after the offset."""
        return self._batches[self._index(offset) :]

    def between(self, first: int, end: int) -> Sequence[FetchedBatch]:
        """Returns the batches that overlap a range of offsets."""
        return [batch for batch in self.from_offset(first) if batch.base < end]

    def after_gap(self, offset: int) -> int:
        """Returns the offset of the first record at or after `offset`; the end if there is no such record."""
        for index in range(self._index(offset), len(self._batches)):
            offsets = self._batches[index].offsets()
            place = bisect_left(offsets, offset)
            if place < len(offsets):
                return offsets[place]
        return max(offset, self.end)

    def offsets(self, first: int, end: int) -> Sequence[int]:
        """Returns the offsets of the records in a range."""
        return [offset for batch in self.between(first, end) for offset in _cut(batch.offsets(), first, end)]

    def has_records(self, first: int, end: int) -> bool:
        """Returns whether a range of offsets is not only a gap."""
        return any(_cut(batch.offsets(), first, end) for batch in self.between(first, end))

    def offset_after(self, first: int, count: int, end: int) -> tuple[int, int]:
        """Returns the end of a range with at most `count` records from `first` on, and the number of these records.

        The end is at most `end`, and lies behind gaps that follow the last of the records.
        """
        found = 0
        for batch in self.from_offset(first):
            if batch.base >= end:
                break
            offsets = _cut(batch.offsets(), first, end)
            if found + len(offsets) > count:
                return offsets[count - found], count
            found += len(offsets)
        return min(end, self.end), found

    def find(self, offset: int) -> FetchedBatch | None:
        """Returns the batch that has the offset, if it is here."""
        index = self._index(offset)
        if index < len(self._batches) and self._batches[index].base <= offset:
            return self._batches[index]
        return None

    def record(self, offset: int) -> Record | None:
        """Returns a decoded record, or None if it cannot be decoded."""
        batch = self.find(offset)
        if batch is None:
            return None
        if self._last_decoded[0] is not batch:
            try:
                records = {record.offset: record for record in read_records(batch.data)}
            except KafkaError:
                records = {}
            self._last_decoded = (batch, records)
        return self._last_decoded[1].get(offset)

    def original(self, shard: Shard, offset: int) -> Original:
        """Returns a record of the shard as it was produced."""
        record = self.record(offset)
        batch = self.find(offset) if record is None else None
        return Original(shard, offset, record, b"" if batch is None else batch.data)

    def _index(self, offset: int) -> int:
        """Returns the index of the first batch that ends after the offset."""
        index = bisect_right(self._bases, offset)
        if index and self._batches[index - 1].end > offset:
            return index - 1
        return index


def _cut(offsets: Sequence[int], first: int, end: int) -> Sequence[int]:
    if isinstance(offsets, range):
        return range(max(offsets.start, first), max(first, min(offsets.stop, end)))
    return [offset for offset in offsets if first <= offset < end]
