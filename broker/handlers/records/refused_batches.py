"""Batches of idempotent producers that were refused for now, so that those sent right behind them are refused as well.

A producer has several batches in flight. If the first finds no leader yet and the second does, the second's sequence
has a gap before it. Told that, librdkafka gives up its epoch and sends whatever is not acknowledged, in all partitions,
under a new one: what is stored already is stored twice. Told what the first one was told, it sends both again in order.
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
"""Producers of which something is remembered. The oldest is forgotten then, and learns of a gap."""
BATCHES_MAX = 10
"""Of one producer; clients have five in flight."""
BEHIND_SECONDS_MAX = 10.0
"""What is in flight behind a batch has arrived by then. A producer that has lost the batch is told of the gap again."""
_FOR_NOW = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""The client sends the same batch again."""


class _Refused(Struct, frozen=True):
    code: ErrorCode
    message: str
    until: float


class _OfProducer(Struct):
    epoch: int
    batches: dict[int, _Refused]
    """By their first sequences, those that have not come again; at most BATCHES_MAX."""

    def missing_before(self, sequence: int, expected: int | None, now: float) -> _Refused | None:
        """What the log waits for, if that is one of these and was sent before the batch with this sequence; of a
        producer that the log does not know, any of them."""
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
    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: OrderedDict[tuple[str | UUID, int, int], _OfProducer] = OrderedDict()
        """By topic as the client names it, partition and producer."""

    def __bool__(self) -> bool:
        return bool(self._refused)

    def on_refused(
        self, topic: str | UUID, partition: int, records: Buffer | None, error: KafkaError, now: float
    ) -> None:
        if error.code not in _FOR_NOW or records is None or not may_be_topic(topic):
            return
        try:
            header = read_header(records)
        except KafkaError:
            return
        if header.producer_id < 0:
            return
        key = topic, partition, header.producer_id
        mine = self._refused.get(key)
        if mine is None or mine.epoch != header.producer_epoch:
            mine = self._refused[key] = _OfProducer(header.producer_epoch, {})
        mine.batches[header.base_sequence] = _Refused(error.code, error.message, now + BEHIND_SECONDS_MAX)
        if len(mine.batches) > BATCHES_MAX:
            mine.forget_last()
        self._refused.move_to_end(key)
        if len(self._refused) > REMEMBERED_MAX:
            self._refused.popitem(last=False)

    def check(
        self, topic: str | UUID, partition: int, header: BatchHeader, producers: ProducerStates, now: float
    ) -> bool:
        """Whether the batch was refused before, and comes again. Raises the KafkaError again if what is missing before
        it is one that was refused, and has not come again."""
        key = topic, partition, header.producer_id
        mine = self._refused.get(key)
        if mine is None:
            return False
        if mine.epoch != header.producer_epoch:
            del self._refused[key]
            return False
        expected = producers.expected(header.producer_id, header.producer_epoch)
        missing = mine.missing_before(header.base_sequence, expected, now)
        if missing is not None:
            raise KafkaError(missing.code, missing.message)
        comes_again = header.base_sequence in mine.batches
        if expected in (None, header.base_sequence):
            mine.forget_up_to(header.base_sequence, now)
            if not mine.batches:
                del self._refused[key]
        return comes_again
