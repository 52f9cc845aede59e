"""Tests that of each key the last record is found, however the log is damaged."""

import pytest
from spus import running_spu

from tailrace.broker.coordination.last_records import LastRecords
from tailrace.broker.coordination.pending_records import PendingRecord
from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.batches.record_batch import HEADER_SIZE, read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.protocol.error_codes import ErrorCode, KafkaError


def append(
    replica: Replica,
    *records: tuple[bytes, bytes | None],
    damaged_at: int | None = None,
    producer_id: int | None = None,
) -> None:
    """Appends a batch, in the transaction of the producer if there is one."""
    base = replica.log.log_end
    stored = (Record(base + place, 0, key, value) for place, (key, value) in enumerate(records))
    if producer_id is None:
        batch = build_batch(stored, base_offset=base)
    else:
        batch = build_batch(stored, base_offset=base, producer_id=producer_id, producer_epoch=0, is_transactional=True)
    header = read_header(batch)
    if damaged_at is not None:
        batch[damaged_at] ^= 1
    replica.append(batch, header)


def end(replica: Replica, producer_id: int, *, is_commit: bool) -> None:
    """Appends the marker of a transaction."""
    batch = marker_batch(replica.log.log_end, 0, producer_id, 0, is_commit=is_commit, coordinator_epoch=1, now_ms=0)
    replica.append(batch, read_header(batch))


async def read(replica: Replica) -> tuple[LastRecords, list[str]]:
    """Returns what was read, and what happened to damaged batches."""
    events: list[str] = []

    async def repair(replica: Replica, offset: int) -> None:
        events.append(f"repair {offset}")

    def skip(offset: int, error: KafkaError) -> None:
        assert error.code == ErrorCode.CORRUPT_MESSAGE
        events.append(f"skip {offset}")

    last = LastRecords(replica, repair, skip)
    await last.read()
    return last, events


async def test_the_last_record_of_each_key_stands_where_it_was_written(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        replica = running.replica("t")
        append(replica, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
        append(replica, (b"b", None))
        last, events = await read(replica)
        assert list(last.records.by_key.items()) == [(b"a", b"3"), (b"b", None)]
        assert last.records.count == 4
        assert not events


async def test_a_batch_that_stays_damaged_is_skipped(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        replica = running.replica("t")
        append(replica, (b"a", b"1"))
        append(replica, (b"a", b"2"), damaged_at=HEADER_SIZE + 3)
        append(replica, (b"b", b"3"))
        last, events = await read(replica)
        assert dict(last.records.by_key) == {b"a": b"1", b"b": b"3"}
        assert events == ["repair 0", "skip 1"]


async def test_a_log_that_cannot_be_walked_is_refused(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        replica = running.replica("t")
        append(replica, (b"a", b"1"), damaged_at=8)  # its size
        with pytest.raises(KafkaError):
            await read(replica)


async def test_records_of_transactions_count_when_they_are_committed(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        replica = running.replica("t")
        append(replica, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
        append(replica, (b"a", b"4"), (b"b", b"5"), producer_id=7)
        append(replica, (b"c", b"6"), (b"d", b"7"), producer_id=8)
        append(replica, (b"e", b"8"), producer_id=9)
        append(replica, (b"b", b"9"))  # later than the record of the open transaction
        end(replica, 7, is_commit=True)
        end(replica, 8, is_commit=False)
        append(replica, (b"e", b"10"), producer_id=9)
        last, events = await read(replica)
        assert dict(last.records.by_key) == {b"a": b"4", b"b": b"9", b"c": b"3"}
        assert list(last.records.pending) == [PendingRecord(9, b"e", b"10")]
        assert last.records.count == 10
        assert not events
