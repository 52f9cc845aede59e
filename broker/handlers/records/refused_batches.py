"""Remembers idempotent producers' batches that were refused for now, so that the batches behind them are refused as
well.

A producer has several batches in flight. If the first one finds no leader yet and the second one does, there is a gap
in the sequence numbers before the second. If librdkafka is told of the gap, it gives up its epoch, and sends everything
that is not acknowledged under a new epoch, in all partitions: what is stored already is stored twice. If it gets the
error of the first batch for the second one as well, it sends both again in order.
"""

from collections import OrderedDict
from uuid import UUID

from msgspec import Struct

from tailrace.cluster.topic_names import may_be_topic
from tailrace.protocol.batches.record_batch import BatchHeader, read_header
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.storage.producers.producer_state import ProducerStates, sequences_between

REMEMBERED_MAX = 10_000
"""How many producers are remembered. Beyond that the oldest one is forgotten, and may be told of a gap."""
BATCHES_MAX = 10
"""How many batches of one producer are remembered. Clients have five in flight."""
BEHIND_SECONDS_MAX = 10.0
"""How long a batch is remembered: by then, everything in flight behind it has arrived. After that, a producer that has
lost the batch is told of the gap."""
_RETRIABLE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""The errors after which a client sends the same batch again."""


class _Refused(Struct, frozen=True):
    """The error for one batch, and until when it is remembered."""

    code: ErrorCode
    message: str
    until: float


class _ProducerEpoch(Struct):
    """The refused batches of one producer in one of its epochs."""

    epoch: int
    batches: dict[int, _Refused]
    """The batches that the producer has not sent again, by their first sequence number; at most BATCHES_MAX."""

    def missing_before(self, sequence: int, expected: int | None, now: float) -> _Refused | None:
        """Returns the refused batch that the log expects next, if it was sent before the batch with this sequence. If
        the log does not know the producer (`expected` is None), any refused batch before the sequence will do."""
        for missing, refused in self.batches.items():
            if expected in (None, missing) and now < refused.until and sequences_between(missing, sequence) > 0:
                return refused
        return None

    def forget_last(self) -> None:
        first = next(iter(self.batches))
        del self.batches[max(self.batches, key=lambda sequence: sequences_between(first, sequence))]

    def forget_up_to(self, sequence: int, now: float) -> None:
        self.batches = {
            later: refused
            for later, refused in self.batches.items()
            if now < refused.until and sequences_between(sequence, later) > 0
        }


class RefusedBatches:
    """All refused batches of an SPU that it remembers."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: OrderedDict[tuple[str | UUID, int, int], _ProducerEpoch] = OrderedDict()
        """The producers, by topic (name or id, as the client names it), partition and producer id."""

    def __bool__(self) -> bool:
        return bool(self._refused)

    def on_refused(
        self, topic: str | UUID, partition: int, records: Buffer | None, error: KafkaError, now: float
    ) -> None:
        if error.code not in _RETRIABLE or records is None or not may_be_topic(topic):
            return
        try:
            header = read_header(records)
        except KafkaError:
            return
        if header.producer_id < 0:
            return
        key = topic, partition, header.producer_id
        producer = self._refused.get(key)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self._refused[key] = _ProducerEpoch(header.producer_epoch, {})
        producer.batches[header.base_sequence] = _Refused(error.code, error.message, now + BEHIND_SECONDS_MAX)
        if len(producer.batches) > BATCHES_MAX:
            producer.forget_last()
        self._refused.move_to_end(key)
        if len(self._refused) > REMEMBERED_MAX:
            self._refused.popitem(last=False)

    def check(
        self, topic: str | UUID, partition: int, header: BatchHeader, producers: ProducerStates, now: float
    ) -> bool:
        """Returns whether the batch was refused before. Raises the KafkaError of an earlier batch if that one was
        refused, was not sent again, and is missing before this batch."""
        key = topic, partition, header.producer_id
        producer = self._refused.get(key)
        if producer is None:
            return False
        if producer.epoch != header.producer_epoch:
            del self._refused[key]
            return False
        expected = producers.expected(header.producer_id, header.producer_epoch)
        missing = producer.missing_before(header.base_sequence, expected, now)
        if missing is not None:
            raise KafkaError(missing.code, missing.message)
        was_refused = header.base_sequence in producer.batches
        if expected in (None, header.base_sequence):
            producer.forget_up_to(header.base_sequence, now)
            if not producer.batches:
                del self._refused[key]
        return was_refused
