"""What a log knows about its producers: the sequences of their last batches, and their open transactions.

The sequences tell which batches are repeated. The open transactions tell how far committed readers may read, and which
markers belong where. The state is a function of the log alone: reading the batches again, from the start or from a
snapshot, gives the same state.
"""

import struct
from collections.abc import Iterator, Mapping
from itertools import islice

import crc32c
from msgspec import Struct

from tailrace.protocol.batches.record_batch import TRANSACTIONAL, BatchHeader
from tailrace.protocol.batches.transaction_markers import Marker
from tailrace.protocol.error_codes import ErrorCode, KafkaError

BATCHES_KEPT = 10
"""The number of batches that are remembered per producer. A producer has at most five requests in flight, so it
repeats no older batch. A truncation can remove these five unacknowledged batches; the five before them then tell
which sequence comes next."""
INHERITED_PRODUCERS_MAX = 10_000
"""The number of producers that a log inherits from the log before it, for example on a shelf or a new follower. Only
producers that appended recently may repeat a batch."""
PRODUCERS_MAX = 100_000
"""The number of producers in one log. Beyond it, the producer that has been silent for longest is forgotten as if it
had expired, unless its transaction is open."""
NO_SEQUENCE = -1
NO_OFFSET = -1
NO_COORDINATOR = -1
"""The coordinator epoch of a producer for which no marker was written."""
EPOCH_BUMPED_FROM = 2
"""The transaction version from which each transaction of a producer has an epoch of its own (KIP-890)."""
_SEQUENCE_MASK = 0x7FFFFFFF

SNAPSHOT_MAGIC = b"TRPS\x00\x01"
TRANSACTIONS_MAGIC = b"TRPS\x00\x02"
"""The magic of a snapshot with the state of transactions. A log without transactions writes the first format."""
_PRODUCER = struct.Struct("<qhqB")
_TRANSACTIONAL_PRODUCER = struct.Struct("<qhqBiqqq")
_BATCH = struct.Struct("<iiqi")
_CHECKSUM = struct.Struct("<I")
CHECKSUM_BYTES = _CHECKSUM.size
"""The size of the checksum at the end of a snapshot."""


class CompletedTransaction(Struct, frozen=True):
    """A transaction that a marker has ended in this log."""

    producer_id: int
    first_offset: int
    """The first offset of the first batch."""
    last_offset: int
    """The offset of the marker."""
    is_commit: bool
    stable_offset: int
    """The offset up to which every transaction was decided as of the marker: that of the next open transaction, or the
    offset after the marker."""


class AppendedBatch(Struct, frozen=True):
    """One of a producer's last batches."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset_delta: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


class Producer:
    """The state of one producer."""

    __slots__ = (
        "appended_lately",
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_offset",
        "marker_offset",
        "newest_ms",
    )

    def __init__(self, epoch: int, newest_ms: int, batches: list[AppendedBatch]) -> None:
        self.epoch = epoch
        self.newest_ms = newest_ms
        """The timestamp of its newest batch or marker. A log that is read again knows no other time."""
        self.batches = batches
        """The last batches of this epoch with sequences, the newest last; at most BATCHES_KEPT. There are none if a
        marker began the epoch, or if only group offsets were written."""
        self.appended_lately = True
        """Whether the producer has appended since silent producers were last looked for."""
        self.coordinator_epoch = NO_COORDINATOR
        """The epoch of the coordinator that wrote the last marker."""
        self.marker_offset = NO_OFFSET
        """The offset of the last marker."""
        self.last_offset = batches[-1].base_offset if batches else NO_OFFSET
        """The base offset of the producer's last batch or marker."""

    @property
    def next_sequence(self) -> int:
        """The sequence that the next batch of this epoch must have."""
        return _next(self.batches[-1].last_sequence) if self.batches else 0


class ProducerStates:
    """The states of all producers of one log."""

    __slots__ = ("_open", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        """The producers by id, in the order of their last append."""
        self._open: dict[int, int] = {}
        """The first offsets of the open transactions by producer id, in the order of these offsets."""

    # state

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._producers.items())

    def knows(self, producer_id: int) -> bool:
        """Returns whether the log has a state of the producer."""
        return producer_id in self._producers

    def newest(self, producer_id: int) -> AppendedBatch | None:
        """Returns the batch with a sequence that the producer appended last in its epoch; None if there is none."""
        producer = self._producers.get(producer_id)
        return None if producer is None or not producer.batches else producer.batches[-1]

    def expected(self, producer_id: int, epoch: int) -> int | None:
        """Returns the next sequence in this epoch of the producer; NO_SEQUENCE if the epoch is over, None if the
        producer is unknown."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if epoch < producer.epoch:
            return NO_SEQUENCE
        return producer.next_sequence if epoch == producer.epoch else 0

    @property
    def open_transactions(self) -> Mapping[int, int]:
        """The first offsets of the open transactions by producer id, in the order of these offsets."""
        return self._open

    def open_transaction(self, producer_id: int) -> int | None:
        """Returns the first offset of the producer's open transaction; None if it has none."""
        return self._open.get(producer_id)

    def epoch(self, producer_id: int) -> int | None:
        """Returns the epoch of the producer; None if the producer is unknown."""
        producer = self._producers.get(producer_id)
        return None if producer is None else producer.epoch

    def marker_offset(self, producer_id: int) -> int:
        """Returns the offset of the producer's last marker; NO_OFFSET if there is none."""
        producer = self._producers.get(producer_id)
        return NO_OFFSET if producer is None else producer.marker_offset

    def has_markers_from(self, offset: int) -> bool:
        """Returns whether a producer's last marker is at this offset or behind it."""
        return any(producer.marker_offset >= offset for producer in self._producers.values())

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Returns None if the batch may be appended, or the earlier batch that it repeats. Raises KafkaError otherwise.

        An unknown producer may begin with any sequence: its earlier batches may have expired. A batch of group offsets
        has no sequence.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        if header.producer_epoch != producer.epoch:
            self._check_epoch(producer, header.producer_id, header.producer_epoch)
            if header.base_sequence > 0:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} begins a new epoch at sequence {header.base_sequence}, not at 0",
                )
        elif header.base_sequence >= 0:
            batches = producer.batches  # without a call: each idempotent batch comes here
            expected = (batches[-1].last_sequence + 1) & _SEQUENCE_MASK if batches else 0
            if header.base_sequence != expected:
                for batch in batches:
                    if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                        return batch
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} sent sequence {header.base_sequence}; {expected} comes next",
                )
        if self._open and not header.attributes & TRANSACTIONAL and header.producer_id in self._open:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction, and the batch does not belong to one",
            )
        return None

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> bool:
        """Returns whether a marker must be appended: False if it was appended already. Raises KafkaError if the
        producer has a newer epoch, or a newer coordinator has written markers for it.

        From transaction version 2 on, the marker has an epoch of its own, which is larger than that of the batches.
        So a marker of the producer's epoch is a repeated one if no transaction is open, and too late otherwise.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return True
        self._check_epoch(producer, producer_id, producer_epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {producer.coordinator_epoch} has ended a transaction of producer {producer_id}, and"
                f" {coordinator_epoch} is over",
            )
        if transaction_version < EPOCH_BUMPED_FROM or producer_epoch > producer.epoch:
            return True
        if producer_id in self._open:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the open transaction of producer {producer_id} has epoch {producer.epoch}, and a marker of that epoch"
                " does not end it",
            )
        return False

    def _check_epoch(self, producer: Producer, producer_id: int, epoch: int) -> None:
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} is at epoch {producer.epoch}, and {epoch} is over",
            )

    # changes

    def on_appended(self, header: BatchHeader) -> None:
        """Notes a batch of the log with a sequence. It was checked before, or was in the log when the log was
        opened."""
        batch = AppendedBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset_delta)
        producer = self._producers.pop(header.producer_id, None)
        if producer is None:
            producer = Producer(header.producer_epoch, header.max_timestamp, [batch])
        else:
            if producer.epoch != header.producer_epoch:
                producer.epoch, producer.batches = header.producer_epoch, [batch]
            else:
                producer.batches.append(batch)
                del producer.batches[:-BATCHES_KEPT]
            producer.newest_ms = header.max_timestamp
            producer.appended_lately = True
            producer.last_offset = header.base_offset
        self._producers[header.producer_id] = producer
        if len(self._producers) > PRODUCERS_MAX:
            self._forget_one(header.producer_id)

    def on_transactional(self, header: BatchHeader) -> bool:
        """Notes a batch of a transaction, which is no marker. Returns whether a transaction begins with it."""
        if header.base_sequence >= 0:
            self.on_appended(header)
        else:
            self._touch(header)
        if header.producer_id in self._open:
            return False
        self._open[header.producer_id] = header.base_offset
        return True

    def on_marker(self, header: BatchHeader, marker: Marker) -> CompletedTransaction | None:
        """Notes a marker. Returns the transaction that it ends, if one was open."""
        producer = self._touch(header)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.marker_offset = header.base_offset
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is None:
            return None
        stable_offset = next(iter(self._open.values()), header.next_offset)
        return CompletedTransaction(
            header.producer_id, first_offset, header.base_offset, marker.is_commit, stable_offset
        )

    def _touch(self, header: BatchHeader) -> Producer:
        """Notes a batch without a sequence, and returns its producer."""
        producer = self._producers.pop(header.producer_id, None)
        if producer is None:
            producer = Producer(header.producer_epoch, header.max_timestamp, [])
        if producer.epoch != header.producer_epoch:
            producer.epoch, producer.batches = header.producer_epoch, []
        producer.newest_ms = header.max_timestamp
        producer.appended_lately = True
        producer.last_offset = header.base_offset
        self._producers[header.producer_id] = producer
        if len(self._producers) > PRODUCERS_MAX:
            self._forget_one(header.producer_id)
        return producer

    def _forget_one(self, newest: int) -> None:
        """Forgets the producer that has been silent for longest and has no open transaction."""
        forgotten = next((each for each in self._producers if each != newest and each not in self._open), None)
        if forgotten is not None:
            del self._producers[forgotten]

    def truncate(self, log_end: int) -> bool:
        """Forgets batches from `log_end` on. Returns False if the remaining state is known only from the log.

        What a transaction was before a removed batch or marker is not remembered.
        """
        # Producers are in the order of their last append.
        for producer_id, producer in reversed(list(self._producers.items())):
            if producer.last_offset < log_end:
                break
            if producer.coordinator_epoch != NO_COORDINATOR or producer_id in self._open or not producer.batches:
                return False
            batches = producer.batches
            kept = [batch for batch in batches if batch.base_offset < log_end]
            if kept:
                producer.batches = kept
                producer.last_offset = kept[-1].base_offset
            elif producer.epoch == 0 and batches[0].base_sequence == 0:
                del self._producers[producer_id]
            else:
                return False
        self._producers = dict(sorted(self._producers.items(), key=lambda each: each[1].last_offset))
        return True

    def expire(self, before_ms: int) -> None:
        """Forgets producers whose newest record is older than `before_ms`.

        A producer that appended recently may repeat that batch, however old the timestamps in its records are. So it
        stays until the next call at least. A producer stays while its transaction is open.
        """
        silent = []
        for producer_id, producer in self:
            if producer.newest_ms < before_ms and not producer.appended_lately and producer_id not in self._open:
                silent.append(producer_id)
            producer.appended_lately = False
        for producer_id in silent:
            del self._producers[producer_id]

    def before(self, offset: int) -> "ProducerStates":
        """Returns the states as of `offset`, for a log that begins there and cannot derive them.

        A transaction that has ended since counts as ended. Its batches from `offset` on, if any, open it again.
        """
        recent = dict(islice(reversed(self._producers.items()), INHERITED_PRODUCERS_MAX))
        opened = {each: first for each, first in self._open.items() if first < offset}
        inherited = {}
        for producer_id, producer in (*((each, self._producers[each]) for each in opened), *recent.items()):
            if (found := _as_of(producer, opened.get(producer_id, NO_OFFSET), offset)) is not None:
                inherited[producer_id] = found
        states = type(self)()
        states._producers = dict(sorted(inherited.items(), key=lambda each: each[1].last_offset))
        states._open = opened
        return states

    # snapshots

    @property
    def _is_plain(self) -> bool:
        """Whether no producer has ever written to a transaction."""
        return not self._open and all(
            producer.batches and producer.coordinator_epoch == NO_COORDINATOR for producer in self._producers.values()
        )

    def snapshot(self) -> bytes:
        """Encodes the states."""
        is_plain = self._is_plain
        data = bytearray(SNAPSHOT_MAGIC if is_plain else TRANSACTIONS_MAGIC)
        for producer_id, producer in self._producers.items():
            fields = producer_id, producer.epoch, producer.newest_ms, len(producer.batches)
            if is_plain:
                data += _PRODUCER.pack(*fields)
            else:
                data += _TRANSACTIONAL_PRODUCER.pack(
                    *fields,
                    producer.coordinator_epoch,
                    producer.marker_offset,
                    producer.last_offset,
                    self._open.get(producer_id, NO_OFFSET),
                )
            for batch in producer.batches:
                data += _BATCH.pack(
                    batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset_delta
                )
        return bytes(data) + _CHECKSUM.pack(crc32c.crc32c(bytes(data)))

    @classmethod
    def restore(cls, snapshot: bytes) -> "ProducerStates | None":
        """Decodes a snapshot. Returns None if it is damaged; then the log has to be read instead."""
        content, checksum = snapshot[: -_CHECKSUM.size], snapshot[-_CHECKSUM.size :]
        if not is_snapshot(content) or checksum != _CHECKSUM.pack(crc32c.crc32c(content)):
            return None
        is_plain = content.startswith(SNAPSHOT_MAGIC)
        layout = _PRODUCER if is_plain else _TRANSACTIONAL_PRODUCER
        states = cls()
        opened = []
        position = len(SNAPSHOT_MAGIC)
        while position < len(content):
            producer_id, epoch, newest_ms, count, *rest = layout.unpack_from(content, position)
            position += layout.size
            end = position + count * _BATCH.size
            batches = [AppendedBatch(*fields) for fields in _BATCH.iter_unpack(content[position:end])]
            producer = states._producers[producer_id] = Producer(epoch, newest_ms, batches)
            if not is_plain:
                producer.coordinator_epoch, producer.marker_offset, producer.last_offset, first_open_offset = rest
                if first_open_offset != NO_OFFSET:
                    opened.append((first_open_offset, producer_id))
            position = end
        states._open = {producer_id: first for first, producer_id in sorted(opened)}
        return states


def is_snapshot(data: bytes) -> bool:
    """Returns whether the data begins like a snapshot of producer states."""
    return data.startswith((SNAPSHOT_MAGIC, TRANSACTIONS_MAGIC))


def _as_of(producer: Producer, first_open_offset: int, offset: int) -> Producer | None:
    """Returns the state of a producer as of `offset`; None if nothing before it is known.

    `first_open_offset` is that of a transaction that is open, and was open there.
    """
    batches = [batch for batch in producer.batches if batch.base_offset < offset]
    had_marker = NO_OFFSET < producer.marker_offset < offset
    if not (batches or had_marker or first_open_offset != NO_OFFSET):
        return None
    found = Producer(producer.epoch, producer.newest_ms, batches)
    if had_marker:
        found.marker_offset, found.coordinator_epoch = producer.marker_offset, producer.coordinator_epoch
    if producer.last_offset < offset:
        found.last_offset = producer.last_offset
    else:
        found.last_offset = max(found.last_offset, found.marker_offset, first_open_offset)
    return found


def sequences_between(first: int, other: int) -> int:
    """Returns how far `other` is ahead of `first`; negative if it is behind."""
    half = (_SEQUENCE_MASK + 1) // 2
    return (other - first + half & _SEQUENCE_MASK) - half


def _next(sequence: int) -> int:
    """Returns the sequence after this one. Sequences count up to 2^31 - 1 and start again at 0."""
    return (sequence + 1) & _SEQUENCE_MASK
