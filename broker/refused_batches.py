"""Batches of idempotent producers that were refused for now, so that those sent right behind them are refused as well.

A producer has several batches in flight. If the first finds no leader yet and the second does, the second's sequence
has a gap before it. Told that, librdkafka gives up its epoch and sends whatever is not acknowledged, in all partitions,
under a new one: what is stored already is stored twice. Told what the first one was told, it sends both again in order.
"""

from collections import OrderedDict
from uuid import UUID

from msgspec import Struct

from tailrace.cluster.topic_names import may_be_topic
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.primitives import Buffer
from tailrace.protocol.record_batch import BatchHeader, read_header
from tailrace.storage.producer_state import ProducerStates, sequences_between

REMEMBERED_MAX = 10_000
"""The oldest is forgotten then, and whoever sent it learns of a gap."""
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


class _Refused(Struct):
    producer_epoch: int
    sequence: int
    code: ErrorCode
    message: str
    until: float

    def has_behind(self, header: BatchHeader, now: float) -> bool:
        """Whether the batch may have been sent before the refusal was known."""
        return (
            now < self.until
            and header.producer_epoch == self.producer_epoch
            and sequences_between(self.sequence, header.base_sequence) > 0
        )


class RefusedBatches:
    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: OrderedDict[tuple[str | UUID, int, int], _Refused] = OrderedDict()
        """By topic as the client names it, partition and producer; the first of those that nobody has sent again."""

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
        before = self._refused.get(key)
        if before is not None and before.has_behind(header, now):
            return
        until = now + BEHIND_SECONDS_MAX
        self._refused[key] = _Refused(header.producer_epoch, header.base_sequence, error.code, error.message, until)
        self._refused.move_to_end(key)
        if len(self._refused) > REMEMBERED_MAX:
            self._refused.popitem(last=False)

    def check(
        self, topic: str | UUID, partition: int, header: BatchHeader, producers: ProducerStates, now: float
    ) -> bool:
        """Whether the batch was refused before, and comes again. Raises the KafkaError again if what is missing before
        it is the one that was refused with it."""
        key = topic, partition, header.producer_id
        refused = self._refused.get(key)
        if refused is None:
            return False
        if refused.has_behind(header, now):
            expected = producers.expected(header.producer_id, header.producer_epoch)
            if expected is None or expected == refused.sequence:
                raise KafkaError(refused.code, refused.message)
        del self._refused[key]
        return header.base_sequence == refused.sequence and header.producer_epoch == refused.producer_epoch
