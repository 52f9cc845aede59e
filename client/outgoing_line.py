"""The records that wait for one partition, in order, and the batch of them that is under way. Decides; does not wait.

At most one batch of a partition is under way. It keeps its bytes, and so its sequence numbers, until the leader has
appended or refused it. So the leader recognizes a batch that is sent again, and stores it once.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import SEQUENCE_END
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode

from .log_client import ProducerName
from .log_facts import Partition
from .server_connection import RefusedError, UnreachableError

BATCH_BYTES_MAX = 512 * 1024
"""The size of the keys, values and headers in a batch, so that topics accept the batch by default."""

_DIVIDED = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})
"""Refusals for which one record of the batch may be the reason. The others are sent without it."""
_FORGOTTEN = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""Refusals of a leader that has lost earlier batches of the producer. A new producer begins again at sequence 0."""


class Receipt(Protocol):
    """What has to learn what became of a record."""

    def on_appended(self) -> None:
        """Notes that the leader, and the replicas that it needs, have stored a record."""

    def on_refused(self, number: int, error: RefusedError | UnreachableError) -> None:
        """Notes that the record with this number will not be sent again."""


class Waiting(NamedTuple):
    """A record that is not acknowledged."""

    record: Record
    size: int
    receipt: Receipt
    number: int
    """The position of the record among those of the receipt."""


class OutgoingLine:
    """The records for one partition. Methods that end the waiting of records return how many bytes that were."""

    def __init__(
        self, partition: Partition, compression: Compression = Compression.NONE, *, is_transactional: bool = False
    ) -> None:
        self.partition = partition
        self.name: ProducerName | None = None
        """The producer id of all batches; None if the line needs a new one before it can send a batch."""
        self.failing_since: float | None = None
        """When the first attempt since the last appended batch failed; None if none has failed."""
        self._compression = compression
        self._is_transactional = is_transactional
        self._waiting: deque[Waiting] = deque()
        self._under_way: list[Waiting] = []
        self._batch: bytearray | None = None
        """The batch of the records that are under way; None if it must be built."""
        self._sequence = 0

    @property
    def has_records(self) -> bool:
        return bool(self._under_way or self._waiting)

    def add(self, waiting: Waiting) -> None:
        """Adds a record after all others."""
        self._waiting.append(waiting)

    def batch(self) -> bytearray:
        """Returns the batch to send now. It stays the same until the leader has appended or refused it."""
        assert self.name is not None, "a line has a producer id before it sends"
        if not self._under_way:
            self._take()
        if self._batch is None:
            for offset, waiting in enumerate(self._under_way):
                waiting.record.offset = offset
            self._batch = build_batch(
                [waiting.record for waiting in self._under_way],
                compression=self._compression,
                producer_id=self.name.id,
                producer_epoch=self.name.epoch,
                base_sequence=self._sequence,
                is_transactional=self._is_transactional,
            )
        return self._batch

    def _take(self) -> None:
        total = 0
        while self._waiting and (not self._under_way or total + self._waiting[0].size <= BATCH_BYTES_MAX):
            total += self._waiting[0].size
            self._under_way.append(self._waiting.popleft())

    def on_appended(self) -> int:
        """Ends the waiting of the records that were under way."""
        self.failing_since = None
        done, self._under_way, self._batch = self._under_way, [], None
        self._sequence = (self._sequence + len(done)) % SEQUENCE_END
        for each in done:
            each.receipt.on_appended()
        return _bytes_of(done)

    def on_refused(self, error: RefusedError) -> int:
        """Decides about the batch that the leader has refused: to divide it, to send it as a new producer, or to refuse
        its records. A refused batch takes no sequence numbers."""
        self._batch = None
        if error.code in _FORGOTTEN:
            self._forget()
            return 0
        if error.code in _DIVIDED and len(self._under_way) > 1:
            middle = len(self._under_way) // 2
            self._waiting.extendleft(reversed(self._under_way[middle:]))
            del self._under_way[middle:]
            return 0
        refused, self._under_way = self._under_way, []
        return _refuse(refused, error)

    def on_failed(self, now: float) -> None:
        """Notes that it is unknown whether the leader has appended the batch."""
        if self.failing_since is None:
            self.failing_since = now

    def give_up(self, error: RefusedError | UnreachableError) -> int:
        """Refuses all records. The leader may have appended those under way, so a new producer goes on."""
        freed = self.refuse(error)
        self.failing_since = None
        self._forget()
        return freed

    def refuse(self, error: RefusedError | UnreachableError) -> int:
        """Refuses all records."""
        refused = [*self._under_way, *self._waiting]
        self._under_way, self._batch = [], None
        self._waiting.clear()
        return _refuse(refused, error)

    def withdraw(self, receipt: Receipt) -> int:
        """Removes the records of a receipt that are not under way."""
        withdrawn = [each for each in self._waiting if each.receipt is receipt]
        if withdrawn:
            self._waiting = deque(each for each in self._waiting if each.receipt is not receipt)
        return _bytes_of(withdrawn)

    def _forget(self) -> None:
        self.name = None
        self._batch = None
        self._sequence = 0


def record_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Returns the size of the content of a record."""
    size = len(key or b"") + len(value or b"")
    for name, content in headers:
        size += len(name) + len(content or b"")
    return size


def _refuse(records: Sequence[Waiting], error: RefusedError | UnreachableError) -> int:
    for each in records:
        each.receipt.on_refused(each.number, error)
    return _bytes_of(records)


def _bytes_of(records: Sequence[Waiting]) -> int:
    return sum(each.size for each in records)
