"""Decides what compaction keeps: the last record of each key, tombstones, markers, and the last batches of producers.

Compaction reads a log twice. The survey reads what was appended since the last compaction and notes the last offset of
each key. Then everything up to the end of the survey is rewritten without the records that the survey knows to be
superseded. Offsets and sequence numbers never change: a batch keeps its place and its numbers, and only loses records.

A tombstone carries no mark of its age. When a compaction is done, no older record of a key lies before a tombstone
below the compaction's end; `compaction_history` stores this time beside the end. A reader who saw an older record saw
it before that time. So a tombstone is of no use `delete.retention.ms` after that time, and the next compaction drops
it.

Only transactions that are decided are compacted. The records of committed ones count like those of no transaction, in
the order of the log. The records of aborted ones are dropped, and supersede nothing. A marker has no mark of its age
either. It is of no use when nothing of its transaction is left and a tombstone in its place would be dropped.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from tailrace.protocol.batches.compression import compress
from tailrace.protocol.batches.keyed_records import KeyedRecord
from tailrace.protocol.batches.record_batch import COMPRESSION_MASK, TRANSACTIONAL, BatchHeader, assemble
from tailrace.storage.transactions.aborted_transactions import AbortedTransaction

BATCHES_REPEATED = 5
"""The number of batches that a producer has in flight at most, and repeats until they are acknowledged."""
KEYS_MAX = 500_000
"""The number of keys in one survey, which takes some 80 MB. The next compaction continues behind them."""
_DIGEST_BYTES = 16


class AbortedRanges:
    """The offsets of aborted transactions, by producer."""

    __slots__ = ("_ranges",)

    def __init__(self, transactions: Iterable[AbortedTransaction] = ()) -> None:
        """`transactions` are all aborted ones in the part of a log that is compacted."""
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        """The first offset and the offset of the marker, in order."""
        for each in sorted(transactions, key=lambda each: each.first_offset):
            self._ranges.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))

    def has(self, header: BatchHeader) -> bool:
        """Returns whether the batch belongs to an aborted transaction."""
        if not header.is_transactional or header.is_control:
            return False
        ranges = self._ranges.get(header.producer_id, ())
        before = bisect_right(ranges, header.base_offset, key=lambda each: each[0])
        return before > 0 and header.base_offset < ranges[before - 1][1]


_NOTHING_ABORTED = AbortedRanges()


class Survey:
    """The last offset of each key, and the last batches and markers of each producer, from `start` to `end`."""

    __slots__ = (
        "_keys_max",
        "_last_batches",
        "_last_markers",
        "_last_offsets",
        "aborted",
        "end",
        "has_ended",
        "start",
    )

    def __init__(self, start: int, keys_max: int = KEYS_MAX, aborted: AbortedRanges = _NOTHING_ABORTED) -> None:
        """Begins a survey. No transaction may be open in the part of the log that it reads."""
        self.start = start
        self.aborted = aborted
        self.end = start
        """The offset up to which records are judged. Later records stay as they are."""
        self.has_ended = False
        """Whether the survey must end here, because it has no room for more keys or cannot judge what follows."""
        self._keys_max = keys_max
        self._last_offsets: dict[bytes, int] = {}
        self._last_batches: dict[int, list[int]] = {}
        """The base offsets of the last batches, by producer id."""
        self._last_markers: dict[int, int] = {}
        """The offset of the last marker, by producer id."""

    def __len__(self) -> int:
        return len(self._last_offsets)

    def begin(self, header: BatchHeader) -> bool:
        """Begins the next batch, and returns whether its records are to be noted."""
        if header.has_producer and not self.has_ended:
            if header.is_control:
                self._last_markers[header.producer_id] = header.base_offset
            else:
                batches = self._last_batches.setdefault(header.producer_id, [])
                batches.append(header.base_offset)
                del batches[:-BATCHES_REPEATED]
            self.has_ended = len(self._last_batches) + len(self._last_markers) > self._keys_max
        return not self.has_ended and not header.is_control and not self.aborted.has(header)

    def note(self, header: BatchHeader, records: Iterable[KeyedRecord]) -> None:
        """Notes records of the batch."""
        last_offsets, base_offset = self._last_offsets, header.base_offset
        for record in records:
            offset = base_offset + record.offset_delta
            if offset < self.start:
                continue
            if record.key is not None:
                fingerprint = _fingerprint(record.key)
                if len(last_offsets) >= self._keys_max and fingerprint not in last_offsets:
                    self.has_ended = True
                    return
                last_offsets[fingerprint] = offset
            self.end = offset + 1

    def finish(self, header: BatchHeader) -> None:
        """Ends a batch whose records were all noted."""
        if not self.has_ended:
            self.end = header.next_offset

    def supersedes(self, offset: int, key: bytes) -> bool:
        """Returns whether a later record has the same key."""
        last_offset = self._last_offsets.get(_fingerprint(key))
        return last_offset is not None and offset < last_offset

    def is_among_last_of_producer(self, header: BatchHeader, count: int) -> bool:
        """Returns whether the batch may be among the last `count` of its producer.

        Batches before the survey are unknown.
        """
        batches = self._last_batches.get(header.producer_id, ())
        return len(batches) < count or batches[-count] <= header.base_offset

    def is_last_marker_of_producer(self, header: BatchHeader) -> bool:
        """Returns whether the marker may be the last one of its producer. Markers before the survey are unknown."""
        return self._last_markers.get(header.producer_id, header.base_offset) <= header.base_offset


def _fingerprint(key: bytes) -> bytes:
    """Returns the key itself if it is short, otherwise its digest.

    Two keys with equal digests occur neither by chance nor by intent.
    """
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


class Rules:
    """Decides what becomes of records and batches when a log is rewritten, from its start on."""

    __slots__ = (
        "_begun",
        "_ended",
        "_left",
        "_open_before",
        "_producers_since_ms",
        "_repeated_since_ms",
        "_survey",
        "_tombstones_end",
    )

    def __init__(self, survey: Survey, *, tombstones_end: int, producers_since_ms: int, repeated_since_ms: int) -> None:
        self._survey = survey
        self._tombstones_end = tombstones_end
        self._producers_since_ms = producers_since_ms
        self._repeated_since_ms = repeated_since_ms
        self._left: set[int] = set()
        """The producers that have left records of a transaction, with no marker after them so far."""
        self._begun: set[int] = set()
        """The producers with an open transaction in a snapshot, with no marker after it so far."""
        self._open_before: Callable[[], Iterable[int] | None] | None = None
        self._ended: set[int] = set()
        """The producers with a marker in the segment so far, until it is known which were open before it."""

    def begin_segment(self, open_before: Callable[[], Iterable[int] | None]) -> None:
        """Begins the next segment that is written.

        `open_before` returns the producers with an open transaction in the snapshot of producer states before it. A log
        that is opened with this snapshot must find the marker. None means that there is no such snapshot. It is called
        only if the segment has a marker that may be dropped.
        """
        self._open_before = open_before
        self._ended.clear()

    def _is_begun(self, producer_id: int) -> bool:
        """Returns whether a snapshot has an open transaction of the producer, which the next marker must end."""
        if self._open_before is not None:
            begun, self._open_before = self._open_before(), None
            if begun is not None:
                self._begun = set(begun) - self._ended
        return producer_id in self._begun

    def looks_into(self, header: BatchHeader) -> bool:
        """Returns whether the batch could lose records. Control batches have none that readers see."""
        return header.record_count > 0 and not header.is_control and header.base_offset < self._survey.end

    def is_aborted(self, header: BatchHeader) -> bool:
        """Returns whether all records of the batch are dropped because their transaction was aborted."""
        return self._survey.aborted.has(header)

    def keeps(self, offset: int, record: KeyedRecord) -> bool:
        """Returns whether the record stays."""
        if offset >= self._survey.end:
            return True
        # Nothing can supersede a record without a key, so it is dropped. Producers must not send any.
        if record.key is None or (not record.has_value and offset < self._tombstones_end):
            return False
        return not self._survey.supersedes(offset, record.key)

    def on_kept(self, header: BatchHeader) -> None:
        """Notes a batch with records, which are no marker, that stays."""
        if header.is_transactional:
            self._left.add(header.producer_id)

    def keeps_marker(self, header: BatchHeader) -> bool:
        """Returns whether a marker stays. A log without it must not look as if its transaction were still open."""
        producer_id = header.producer_id
        has_records = producer_id in self._left
        self._left.discard(producer_id)
        keeps = (
            has_records
            or header.base_offset >= min(self._tombstones_end, self._survey.end)
            or (header.max_timestamp >= self._producers_since_ms and self._survey.is_last_marker_of_producer(header))
            or self._is_begun(producer_id)
        )
        self._begun.discard(producer_id)
        self._ended.add(producer_id)
        return keeps

    def keeps_empty(self, header: BatchHeader) -> bool:
        """Returns whether a batch without records stays for its sequence numbers.

        A producer's next batch must follow its last one, and a repeated batch must be recognised, even by a replica
        that knows the producer only from this log.
        """
        if header.base_sequence < 0 or not header.has_producer or header.max_timestamp < self._producers_since_ms:
            return False
        count = BATCHES_REPEATED if header.max_timestamp >= self._repeated_since_ms else 1
        return self._survey.is_among_last_of_producer(header, count)


class KeptRecords:
    """The records of one batch that stay, byte for byte. There may be millions, so nothing else is kept of them."""

    __slots__ = ("_content", "_header", "_max_timestamp", "count")

    def __init__(self, header: BatchHeader) -> None:
        self.count = 0
        self._header = header
        self._content = bytearray()
        self._max_timestamp = header.max_timestamp

    def add(self, body: bytes, records: Sequence[KeyedRecord]) -> None:
        """Adds the next records, which come from the batch's unpacked body."""
        if not records:
            return
        header = self._header
        if not header.is_log_append_time:
            largest = max(header.timestamp_at(record.timestamp_delta) for record in records)
            self._max_timestamp = max(self._max_timestamp, largest) if self.count else largest
        self._content += b"".join([body[record.start : record.end] for record in records])
        self.count += len(records)

    def batch(self) -> bytearray:
        """Returns a batch with only these records. Changes the header accordingly."""
        header, compression = self._header, self._header.compression
        header.max_timestamp, header.record_count = self._max_timestamp, self.count
        return assemble(header, compress(compression, self._content) if compression else self._content)


def emptied(header: BatchHeader) -> bytearray:
    """Returns the batch without records. It keeps its numbers, and its largest timestamp, so that it can age.

    It is part of no transaction any more, because the marker may go before it.
    """
    header.attributes &= ~(COMPRESSION_MASK | TRANSACTIONAL)
    header.record_count = 0
    return assemble(header, b"")
