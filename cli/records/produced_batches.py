"""What is to be sent, as batches: one at a time for each partition, in the order in which its lines came."""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct, field

from tailrace.cli.clients.log_client import ProducerName
from tailrace.cli.clients.log_facts import Partition
from tailrace.cli.clients.server_connection import RefusedError
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import SEQUENCE_END
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode

from .produced_lines import Entry

BATCH_BYTES_MAX = 512 * 1024
"""Of keys and values, so that a batch is not larger than topics take by default."""

Headers = list[tuple[str, bytes | None]]


class Written(Struct):
    """What was acknowledged in one partition."""

    records: int = 0
    first: int | None = None
    last: int | None = None
    """The offsets of the first and of the last record; None where nobody has said them."""


class ProducedBatches(Struct):
    producer: ProducerName | None
    """By whose name batches that are sent again are not taken twice."""
    compression: Compression = Compression.NONE
    headers: Headers = field(default_factory=list)
    written: dict[Partition, Written] = field(default_factory=dict)
    _waiting: dict[Partition, deque[list[Record]]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Of the records that were acknowledged."""
        return sum(each.records for each in self.written.values())

    def add(self, partition: Partition, entries: Iterable[Entry], now_ms: int) -> None:
        slices = self._waiting.setdefault(partition, deque())
        records: list[Record] = []
        size = 0
        for key, value in entries:
            added = len(key or b"") + len(value or b"")
            if not records or size + added > BATCH_BYTES_MAX:
                slices.append(records := [])
                size = 0
            records.append(Record(0, now_ms, key, value, self.headers))
            size += added

    def next(self) -> dict[Partition, bytearray]:
        """Of each partition the first that is not acknowledged; nothing when all is."""
        return {partition: self._batch(partition, slices[0]) for partition, slices in self._waiting.items() if slices}

    def _batch(self, partition: Partition, records: list[Record]) -> bytearray:
        for offset, record in enumerate(records):
            record.offset = offset
        if self.producer is None:
            return build_batch(records, compression=self.compression)
        return build_batch(
            records,
            compression=self.compression,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            base_sequence=self.written.get(partition, Written()).records % SEQUENCE_END,
        )

    def on_answer(self, partition: Partition, answer: int | RefusedError | None) -> None:
        """The offset of its first record, or that it was there already. What is too large as a whole may be taken in
        two halves; else raises the refusal."""
        records = self._waiting[partition].popleft()
        if not isinstance(answer, RefusedError):
            self._on_written(partition, len(records), answer)
            return
        if answer.code != ErrorCode.MESSAGE_TOO_LARGE or len(records) == 1:
            raise answer
        middle = len(records) // 2
        self._waiting[partition].extendleft([records[middle:], records[:middle]])

    def _on_written(self, partition: Partition, count: int, offset: int | None) -> None:
        written = self.written.setdefault(partition, Written())
        if not written.records:
            written.first = offset
        written.last = None if offset is None else offset + count - 1
        written.records += count
