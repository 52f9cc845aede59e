"""Divides records into batches, which are sent one at a time for each partition, in the order of the input."""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct, field

from tailrace.cli.records.formats.produced_lines import Entry, Headers
from tailrace.client.log_client import ProducerName
from tailrace.client.log_facts import Partition
from tailrace.client.outgoing_line import BATCH_BYTES_MAX, record_bytes
from tailrace.client.server_connection import RefusedError
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import SEQUENCE_END
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode


class Written(Struct):
    """The records that were acknowledged in one partition."""

    records: int = 0
    first: int | None = None
    last: int | None = None
    """The offset of the last record; `first` and `last` are None if the leader did not tell them."""


class ProducedBatches(Struct):
    """The batches that are waiting to be sent, and the counts of those that were acknowledged."""

    producer: ProducerName | None
    """The producer id, by which leaders recognize batches that are sent again; None without idempotence."""
    compression: Compression = Compression.NONE
    headers: Headers = ()
    """The headers that every record gets, after its own."""
    written: dict[Partition, Written] = field(default_factory=dict)
    _waiting: dict[Partition, deque[list[Record]]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of records that were acknowledged."""
        return sum(each.records for each in self.written.values())

    @property
    def waiting_count(self) -> int:
        """The number of records that were not acknowledged."""
        return sum(len(records) for slices in self._waiting.values() for records in slices)

    def add(self, partition: Partition, entries: Iterable[Entry], now_ms: int) -> None:
        """Adds entries to the batches that wait for a partition."""
        slices = self._waiting.setdefault(partition, deque())
        records: list[Record] = []
        size = 0
        for entry in entries:
            headers = [*entry.headers, *self.headers]
            added = record_bytes(entry.key, entry.value, headers)
            if not records or size + added > BATCH_BYTES_MAX:
                slices.append(records := [])
                size = 0
            timestamp = now_ms if entry.timestamp is None else entry.timestamp
            records.append(Record(0, timestamp, entry.key, entry.value, headers))
            size += added

    def next(self) -> dict[Partition, bytearray]:
        """Returns the first unacknowledged batch of each partition; empty if all are acknowledged."""
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
        """Takes the response for the first batch of a partition: the offset of its first record, or None if the leader
        had it already and does not know the offset.

        A batch that is too large is divided in two. Any other refusal is raised.
        """
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
