"""Which records compaction keeps: of each key the last one, and tombstones until every reader could have seen them.

Compaction looks at a log twice. The survey reads what is new since the last time and notes the last offset of each key.
Then everything up to the end of the survey is written again without the records that the survey knows to be superseded.
Offsets and sequence numbers never change: a batch keeps its place and its numbers, and loses records only.

Tombstones need no mark in their batches. When a compaction is done, no older record of a key lies before a tombstone
below its end; that moment is remembered beside the end. A reader who saw an older record saw it earlier than that, so
from `delete.retention.ms` after that moment on the tombstone tells nobody anything, and the next compaction drops it.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from tailrace.protocol.batches.compression import compress
from tailrace.protocol.batches.keyed_records import KeyedRecord
from tailrace.protocol.batches.record_batch import COMPRESSION_MASK, BatchHeader, assemble
from tailrace.storage.manifest.manifest import Compacted

BATCHES_REPEATED = 5
"""So many batches a producer has under way at most, and sends again as long as it has not heard that they are here."""
KEYS_MAX = 500_000
"""Of one survey: some 80 MB. What lies beyond is left to the next one."""
_DIGEST_BYTES = 16
_TIME_STEPS = 16
"""Moments are rounded up to this part of `delete.retention.ms`, so that there are never many to remember."""


def compacted_end(history: Sequence[Compacted]) -> int:
    return max((each.end for each in history), default=0)


def tombstones_end(history: Sequence[Compacted], now_ms: int, delete_retention_ms: int) -> int:
    """Tombstones below this offset may go."""
    return max((each.end for each in history if each.at_ms + delete_retention_ms <= now_ms), default=0)


def with_compaction(
    history: Sequence[Compacted], end: int, now_ms: int, delete_retention_ms: int
) -> tuple[list[Compacted], Compacted]:
    """The history with one more compaction, without what it no longer tells, and its new last entry."""
    step_ms = max(1, delete_retention_ms // _TIME_STEPS)
    newest = Compacted(end, -(-now_ms // step_ms) * step_ms)
    droppable = tombstones_end(history, now_ms, delete_retention_ms)
    kept = [each for each in history if each.end >= droppable and each.at_ms != newest.at_ms]
    return [*kept, newest], newest


def cut_history(history: Sequence[Compacted], log_end: int) -> list[Compacted]:
    """The log was truncated: what comes in place of the records that are gone is new."""
    return [Compacted(min(each.end, log_end), each.at_ms) for each in history]


class Survey:
    """The last offset of each key, and the last batches of each producer, from one offset up to another."""

    __slots__ = ("_keys_max", "_last_batches", "_last_offsets", "end", "is_over", "start")

    def __init__(self, start: int, keys_max: int = KEYS_MAX) -> None:
        self.start = start
        self.end = start
        """Exclusive. Records from here on are not judged: they stay as they are."""
        self.is_over = False
        """It has to end here: no more keys fit in, or what follows cannot be judged yet."""
        self._keys_max = keys_max
        self._last_offsets: dict[bytes, int] = {}
        self._last_batches: dict[int, list[int]] = {}
        """By producer id, the base offsets."""

    def __len__(self) -> int:
        return len(self._last_offsets)

    def begin(self, header: BatchHeader) -> bool:
        """The next batch. Says whether its records are to be noted."""
        # Whether a transaction's records count is not decided here, so nothing may be superseded by them.
        if header.is_transactional and not header.is_control:
            self.is_over = True
        if header.has_producer and not self.is_over:
            batches = self._last_batches.setdefault(header.producer_id, [])
            batches.append(header.base_offset)
            del batches[:-BATCHES_REPEATED]
            self.is_over = len(self._last_batches) > self._keys_max
        return not self.is_over and not header.is_control

    def note(self, header: BatchHeader, records: Iterable[KeyedRecord]) -> None:
        last_offsets, base_offset = self._last_offsets, header.base_offset
        for record in records:
            offset = base_offset + record.offset_delta
            if offset < self.start:
                continue
            if record.key is not None:
                fingerprint = _fingerprint(record.key)
                if len(last_offsets) >= self._keys_max and fingerprint not in last_offsets:
                    self.is_over = True
                    return
                last_offsets[fingerprint] = offset
            self.end = offset + 1

    def finish(self, header: BatchHeader) -> None:
        """All records of the batch were noted."""
        if not self.is_over:
            self.end = header.next_offset

    def supersedes(self, offset: int, key: bytes) -> bool:
        last_offset = self._last_offsets.get(_fingerprint(key))
        return last_offset is not None and offset < last_offset

    def is_among_last_of_producer(self, header: BatchHeader, count: int) -> bool:
        """As far as is known: what lies before the survey may be among them."""
        batches = self._last_batches.get(header.producer_id, ())
        return len(batches) < count or batches[-count] <= header.base_offset


def _fingerprint(key: bytes) -> bytes:
    """Shorter than a digest a key stands for itself; two keys with one digest are not found by chance nor by force."""
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


class Rules:
    """What becomes of records and batches when a log is written again."""

    __slots__ = ("_producers_since_ms", "_repeated_since_ms", "_survey", "_tombstones_end")

    def __init__(self, survey: Survey, *, tombstones_end: int, producers_since_ms: int, repeated_since_ms: int) -> None:
        self._survey = survey
        self._tombstones_end = tombstones_end
        self._producers_since_ms = producers_since_ms
        self._repeated_since_ms = repeated_since_ms

    def looks_into(self, header: BatchHeader) -> bool:
        """Whether the batch could lose records. Control batches tell of the log itself, and stay."""
        return header.record_count > 0 and not header.is_control and header.base_offset < self._survey.end

    def keeps(self, offset: int, record: KeyedRecord) -> bool:
        if offset >= self._survey.end:
            return True
        # A record without a key is nobody's last one. Producers are not allowed to send any.
        if record.key is None or (not record.has_value and offset < self._tombstones_end):
            return False
        return not self._survey.supersedes(offset, record.key)

    def keeps_empty(self, header: BatchHeader) -> bool:
        """Whether a batch without records stays for its numbers: a producer's next batch must follow its last, and what
        it sends again must be known for a repetition, also by whoever gets to know the producer from this log alone."""
        if not header.has_producer or header.max_timestamp < self._producers_since_ms:
            return False
        count = BATCHES_REPEATED if header.max_timestamp >= self._repeated_since_ms else 1
        return self._survey.is_among_last_of_producer(header, count)


class KeptRecords:
    """Those of one batch that stay, byte for byte as they were: there may be millions, and no more is held of them."""

    __slots__ = ("_content", "_header", "_max_timestamp", "count")

    def __init__(self, header: BatchHeader) -> None:
        self.count = 0
        self._header = header
        self._content = bytearray()
        self._max_timestamp = header.max_timestamp

    def add(self, body: bytes, records: Sequence[KeyedRecord]) -> None:
        """The next ones, of the batch's unpacked body."""
        if not records:
            return
        header = self._header
        if not header.is_log_append_time:
            largest = max(header.timestamp_at(record.timestamp_delta) for record in records)
            self._max_timestamp = max(self._max_timestamp, largest) if self.count else largest
        self._content += b"".join([body[record.start : record.end] for record in records])
        self.count += len(records)

    def batch(self) -> bytearray:
        """With these records alone. Changes the header along."""
        header, compression = self._header, self._header.compression
        header.max_timestamp, header.record_count = self._max_timestamp, self.count
        return assemble(header, compress(compression, self._content) if compression else self._content)


def emptied(header: BatchHeader) -> bytearray:
    """The batch without a record, only with its numbers. Its largest timestamp stays, so that it can age."""
    header.attributes &= ~COMPRESSION_MASK
    header.record_count = 0
    return assemble(header, b"")
