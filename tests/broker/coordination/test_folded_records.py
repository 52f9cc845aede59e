"""Checks which record of each key takes effect, with and without transactions."""

import pytest

from tailrace.broker.coordination.folded_records import FoldedRecords
from tailrace.broker.coordination.pending_records import PendingRecord
from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.record_batch import HEADER_SIZE, read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.protocol.error_codes import ErrorCode, KafkaError


class Log:
    def __init__(self) -> None:
        self.folded = FoldedRecords()
        self.end_offset = 0

    def append(self, *records: tuple[bytes, bytes | None], producer_id: int | None = None) -> None:
        """Appends a batch, in the transaction of the producer if there is one."""
        base = self.end_offset
        stored = [Record(base + place, 0, key, value) for place, (key, value) in enumerate(records)]
        if producer_id is None:
            self.take(build_batch(stored, base_offset=base))
        else:
            self.take(
                build_batch(stored, base_offset=base, producer_id=producer_id, producer_epoch=0, is_transactional=True)
            )

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        self.take(marker_batch(self.end_offset, 0, producer_id, 0, is_commit=is_commit, coordinator_epoch=1, now_ms=0))

    def take(self, batch: bytearray) -> None:
        header = read_header(batch)
        self.folded.take(memoryview(batch), header)
        self.end_offset = header.next_offset


def test_the_last_record_of_each_key_counts() -> None:
    log = Log()
    log.append((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    log.append((b"b", None))
    assert list(log.folded.by_key.items()) == [(b"a", b"3"), (b"b", None)]
    assert log.folded.count == 4


def test_records_of_transactions_count_when_they_are_committed() -> None:
    log = Log()
    log.append((b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    log.append((b"a", b"4"), (b"b", b"5"), producer_id=7)
    log.append((b"c", b"6"), (b"d", b"7"), producer_id=8)
    log.append((b"e", b"8"), producer_id=9)
    log.append((b"b", b"9"))  # later than the record of the open transaction
    log.end(7, is_commit=True)
    log.end(8, is_commit=False)
    log.append((b"e", b"10"), producer_id=9)
    assert log.folded.by_key == {b"a": b"4", b"b": b"9", b"c": b"3"}
    assert list(log.folded.pending) == [PendingRecord(9, b"e", b"10")]
    assert log.folded.count == 10


def test_a_tombstone_deletes_what_open_transactions_have_written_before() -> None:
    log = Log()
    log.append((b"a", b"1"), (b"b", b"2"), producer_id=7)
    log.append((b"a", None))
    log.end(7, is_commit=True)
    assert log.folded.by_key == {b"a": None, b"b": b"2"}
    assert not len(log.folded.pending)


def test_a_tombstone_in_a_transaction_deletes_at_once() -> None:
    log = Log()
    log.append((b"a", b"1"))
    log.append((b"a", None), producer_id=7)
    assert log.folded.by_key == {b"a": None}
    assert not len(log.folded.pending)


def test_a_later_record_outside_of_transactions_leaves_an_open_one_without_effect() -> None:
    log = Log()
    log.append((b"a", b"1"), producer_id=7)
    log.append((b"a", b"2"))
    assert log.folded.by_key == {b"a": b"2"}
    assert list(log.folded.pending) == [PendingRecord(7, b"a", None)]
    log.end(7, is_commit=True)
    assert log.folded.by_key == {b"a": b"2"}


def test_a_marker_without_its_record_ends_nothing() -> None:
    log = Log()
    log.append((b"a", b"1"), producer_id=7)
    log.take(build_batch([], base_offset=1, producer_id=7, producer_epoch=0, is_control=True, is_transactional=True))
    assert b"a" in log.folded.pending


def test_other_control_batches_are_passed_over() -> None:
    log = Log()
    log.take(bridge(0, 5))
    assert not log.folded.by_key and not log.folded.count


def test_a_damaged_batch_is_refused() -> None:
    batch = build_batch([Record(0, 0, b"a", b"1")])
    batch[HEADER_SIZE + 3] ^= 1
    with pytest.raises(KafkaError) as caught:
        FoldedRecords().take(memoryview(batch), read_header(batch))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
