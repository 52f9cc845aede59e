"""Decides what compaction keeps: the last record of each key, tombstones, and the last batches of producers.

Compaction reads a log twice. The survey reads what was appended since the last compaction and notes the last offset of
each key. Then everything up to the end of the survey is rewritten without the records that the survey knows to be
superseded. Offsets and sequence numbers never change: a batch keeps its place and its numbers, and only loses records.

A tombstone carries no mark of its age. When a compaction is done, no older record of a key lies before a tombstone
below the compaction's end; `compaction_history` stores this time beside the end. A reader who saw an older record saw
it before that time. So a tombstone is of no use `delete.retention.ms` after that time, and the next compaction drops
it.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from tailrace.protocol.batches.compression import compress
from tailrace.protocol.batches.keyed_records import KeyedRecord
from tailrace.protocol.batches.record_batch import COMPRESSION_MASK, BatchHeader, assemble

BATCHES_REPEATED = 5
"""The number of batches that a producer has in flight at most, and repeats until they are acknowledged."""
KEYS_MAX = 500_000
"""The number of keys in one survey, which takes some 80 MB. The next compaction continues behind them."""
_DIGEST_BYTES = 16


class Survey:
    """The last offset of each key and the last batches of each producer, from `start` to `end`."""

    __slots__ = ("_keys_max", "_last_batches", "_last_offsets", "end", "has_ended", "start")

    def __init__(self, start: int, keys_max: int = KEYS_MAX) -> None:
        self.start = start
        self.end = start
        """The offset up to which records are judged. Later records stay as they are."""
        self.has_ended = False
        """Whether the survey must end here, because it has no room for more keys or cannot judge what follows."""
        self._keys_max = keys_max
        self._last_offsets: dict[bytes, int] = {}
        self._last_batches: dict[int, list[int]] = {}
        """The base offsets of the last batches, by producer id."""

    def __len__(self) -> int:
        return len(self._last_offsets)

    def begin(self, header: BatchHeader) -> bool:
        """Begins the next batch, and returns whether its records are to be noted."""
        # Whether a transaction was committed is unknown here, so its records must not supersede others.
        if header.is_transactional and not header.is_control:
            self.has_ended = True
        if header.has_producer and not self.has_ended:
            batches = self._last_batches.setdefault(header.producer_id, [])
            batches.append(header.base_offset)
            del batches[:-BATCHES_REPEATED]
            self.has_ended = len(self._last_batches) > self._keys_max
        return not self.has_ended and not header.is_control

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


def _fingerprint(key: bytes) -> bytes:
    """Returns the key itself if it is short, otherwise its digest.

    Two keys with equal digests occur neither by chance nor by intent.
    """
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


class Rules:
    """Decides what becomes of records and batches when a log is rewritten."""

    __slots__ = ("_producers_since_ms", "_repeated_since_ms", "_survey", "_tombstones_end")

    def __init__(self, survey: Survey, *, tombstones_end: int, producers_since_ms: int, repeated_since_ms: int) -> None:
        self._survey = survey
        self._tombstones_end = tombstones_end
        self._producers_since_ms = producers_since_ms
        self._repeated_since_ms = repeated_since_ms

    def looks_into(self, header: BatchHeader) -> bool:
        """Returns whether the batch could lose records. Control batches stay, since they describe the log itself."""
        return header.record_count > 0 and not header.is_control and header.base_offset < self._survey.end

    def keeps(self, offset: int, record: KeyedRecord) -> bool:
        """Returns whether the record stays."""
        if offset >= self._survey.end:
            return True
        # Nothing can supersede a record without a key, so it is dropped. Producers must not send any.
        if record.key is None or (not record.has_value and offset < self._tombstones_end):
            return False
        return not self._survey.supersedes(offset, record.key)

    def keeps_empty(self, header: BatchHeader) -> bool:
        """Returns whether a batch without records stays for its sequence numbers.

        A producer's next batch must follow its last one, and a repeated batch must be recognised, even by a replica
        that knows the producer only from this log.
        """
        if not header.has_producer or header.max_timestamp < self._producers_since_ms:
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
    """Returns the batch without records. It keeps its numbers, and its largest timestamp, so that it can age."""
    header.attributes &= ~COMPRESSION_MASK
    header.record_count = 0
    return assemble(header, b"")
