"""What a log knows about idempotent producers: the sequences of their last batches, to recognise repeated ones.

The state is a function of the log alone: reading the batches again, from the start or from a snapshot, gives the same
state.
"""

import struct
from collections.abc import Iterator
from itertools import islice

import crc32c
from msgspec import Struct

from tailrace.protocol.batches.record_batch import BatchHeader
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
had expired."""
NO_SEQUENCE = -1
_SEQUENCE_MASK = 0x7FFFFFFF

SNAPSHOT_MAGIC = b"TRPS\x00\x01"
_PRODUCER = struct.Struct("<qhqB")
_BATCH = struct.Struct("<iiqi")
_CHECKSUM = struct.Struct("<I")
CHECKSUM_BYTES = _CHECKSUM.size
"""The size of the checksum at the end of a snapshot."""


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

    __slots__ = ("appended_lately", "batches", "epoch", "newest_ms")

    def __init__(self, epoch: int, newest_ms: int, batches: list[AppendedBatch]) -> None:
        self.epoch = epoch
        self.newest_ms = newest_ms
        """The timestamp of its newest batch. A log that is read again knows no other time."""
        self.batches = batches
        """The last batches of this epoch, the newest last; at most BATCHES_KEPT."""
        self.appended_lately = True
        """Whether the producer has appended since silent producers were last looked for."""


class ProducerStates:
    """The states of all producers of one log."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        """The producers by id, in the order of their last append."""

    # state

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._producers.items())

    def newest(self, producer_id: int) -> AppendedBatch | None:
        """Returns the batch that the producer appended last; None if the producer is unknown."""
        producer = self._producers.get(producer_id)
        return None if producer is None else producer.batches[-1]

    def expected(self, producer_id: int, epoch: int) -> int | None:
        """Returns the next sequence in this epoch of the producer; NO_SEQUENCE if the epoch is over, None if the
        producer is unknown."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if epoch < producer.epoch:
            return NO_SEQUENCE
        return _next(producer.batches[-1].last_sequence) if epoch == producer.epoch else 0

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Returns None if the batch may be appended, or the earlier batch that it repeats. Raises KafkaError otherwise.

        An unknown producer may begin with any sequence: its earlier batches may have expired.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        if header.producer_epoch != producer.epoch:
            if header.producer_epoch < producer.epoch:
                raise KafkaError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"producer {header.producer_id} is at epoch {producer.epoch}, and {header.producer_epoch} is over",
                )
            if header.base_sequence != 0:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} begins a new epoch at sequence {header.base_sequence}, not at 0",
                )
            return None
        expected = _next(producer.batches[-1].last_sequence)
        if header.base_sequence == expected:
            return None
        for batch in producer.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sent sequence {header.base_sequence}; {expected} comes next",
        )

    # changes

    def on_appended(self, header: BatchHeader) -> None:
        """Notes a batch of the log. It was checked before, or was in the log when the log was opened."""
        batch = AppendedBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset_delta)
        producer = self._producers.pop(header.producer_id, None)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = Producer(header.producer_epoch, header.max_timestamp, [batch])
        else:
            producer.batches.append(batch)
            del producer.batches[:-BATCHES_KEPT]
            producer.newest_ms = header.max_timestamp
            producer.appended_lately = True
        self._producers[header.producer_id] = producer
        if len(self._producers) > PRODUCERS_MAX:
            del self._producers[next(iter(self._producers))]

    def truncate(self, log_end: int) -> bool:
        """Forgets batches from `log_end` on. Returns False if the remaining state is known only from the log."""
        # Producers are in the order of their last append.
        for producer_id, producer in reversed(list(self._producers.items())):
            batches = producer.batches
            if batches[-1].base_offset < log_end:
                break
            kept = [batch for batch in batches if batch.base_offset < log_end]
            if kept:
                producer.batches = kept
            elif producer.epoch == 0 and batches[0].base_sequence == 0:
                del self._producers[producer_id]
            else:
                return False
        self._producers = dict(sorted(self._producers.items(), key=lambda each: each[1].batches[-1].base_offset))
        return True

    def expire(self, before_ms: int) -> None:
        """Forgets producers whose newest record is older than `before_ms`.

        A producer that appended recently may repeat that batch, however old the timestamps in its records are. So it
        stays until the next call at least.
        """
        silent = []
        for producer_id, producer in self:
            if producer.newest_ms < before_ms and not producer.appended_lately:
                silent.append(producer_id)
            producer.appended_lately = False
        for producer_id in silent:
            del self._producers[producer_id]

    def before(self, offset: int) -> "ProducerStates":
        """Returns the states as of `offset`, for a log that begins there and cannot derive them."""
        states = type(self)()
        for producer_id, producer in islice(reversed(self._producers.items()), INHERITED_PRODUCERS_MAX):
            if batches := [batch for batch in producer.batches if batch.base_offset < offset]:
                states._producers[producer_id] = Producer(producer.epoch, producer.newest_ms, batches)
        states._producers = dict(reversed(states._producers.items()))
        return states

    # snapshots

    def snapshot(self) -> bytes:
        """Encodes the states."""
        data = bytearray(SNAPSHOT_MAGIC)
        for producer_id, producer in self._producers.items():
            data += _PRODUCER.pack(producer_id, producer.epoch, producer.newest_ms, len(producer.batches))
            for batch in producer.batches:
                data += _BATCH.pack(
                    batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset_delta
                )
        return bytes(data) + _CHECKSUM.pack(crc32c.crc32c(bytes(data)))

    @classmethod
    def restore(cls, snapshot: bytes) -> "ProducerStates | None":
        """Decodes a snapshot. Returns None if it is damaged; then the log has to be read instead."""
        content, checksum = snapshot[: -_CHECKSUM.size], snapshot[-_CHECKSUM.size :]
        if not content.startswith(SNAPSHOT_MAGIC) or checksum != _CHECKSUM.pack(crc32c.crc32c(content)):
            return None
        states = cls()
        position = len(SNAPSHOT_MAGIC)
        while position < len(content):
            producer_id, epoch, newest_ms, count = _PRODUCER.unpack_from(content, position)
            position += _PRODUCER.size
            end = position + count * _BATCH.size
            batches = [AppendedBatch(*fields) for fields in _BATCH.iter_unpack(content[position:end])]
            states._producers[producer_id] = Producer(epoch, newest_ms, batches)
            position = end
        return states


def sequences_between(first: int, other: int) -> int:
    """Returns how far `other` is ahead of `first`; negative if it is behind."""
    half = (_SEQUENCE_MASK + 1) // 2
    return (other - first + half & _SEQUENCE_MASK) - half


def _next(sequence: int) -> int:
    """Returns the sequence after this one. Sequences count up to 2^31 - 1 and start again at 0."""
    return (sequence + 1) & _SEQUENCE_MASK
