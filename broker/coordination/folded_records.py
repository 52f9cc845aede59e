"""The last record of each key, computed from the batches of a log in their order."""

from tailrace.protocol.batches.keyed_records import keep_last
from tailrace.protocol.batches.record_batch import TRANSACTIONAL, BatchHeader, crc_of
from tailrace.protocol.batches.records import open_body
from tailrace.protocol.batches.transaction_markers import is_marker, marker_of
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .pending_records import PendingRecords


class FoldedRecords:
    def __init__(self) -> None:
        self.by_key: dict[bytes, bytes | None] = {}
        """The last record of each key, in the order in which they took effect. `None` as a value is a tombstone."""
        self.pending: PendingRecords[bytes, bytes] = PendingRecords()
        """The last records of the transactions that are open at the end of the log."""
        self.count = 0
        """How many records the log has."""

    def take(self, batch: Buffer, header: BatchHeader) -> None:
        """Adds the next batch of the log. Raises KafkaError (CORRUPT_MESSAGE)."""
        if header.is_control and not is_marker(header):
            return
        if crc_of(batch, 0, header.size) != header.crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "its checksum is wrong")
        if header.is_control:
            self._end_transaction(batch, header)
        else:
            self._keep_last(open_body(batch, header), header)
            self.count += header.record_count

    def _keep_last(self, body: bytes, header: BatchHeader) -> None:
        is_transactional = header.attributes & TRANSACTIONAL and header.producer_id >= 0
        if not is_transactional and not len(self.pending):
            keep_last(body, header.record_count, self.by_key)
            return
        kept: dict[bytes, bytes | None] = {}
        keep_last(body, header.record_count, kept)
        for key, value in kept.items():
            if value is None:
                self.pending.discard(key)
                self._put(key, None)
            elif is_transactional:
                self.pending.put(header.producer_id, key, value)
            else:
                self.pending.supersede(key)
                self._put(key, value)

    def _end_transaction(self, batch: Buffer, header: BatchHeader) -> None:
        marker = marker_of(header, batch)
        if marker is None:
            return  # compaction has removed the records of the transaction, and then that of the marker
        for key, value in self.pending.end(header.producer_id, is_commit=marker.is_commit):
            if value is not None:
                self._put(key, value)

    def _put(self, key: bytes, value: bytes | None) -> None:
        self.by_key.pop(key, None)
        self.by_key[key] = value
