from uuid import UUID

from tailrace.broker.groups.offsets.committed_offsets import CommittedOffset
from tailrace.broker.groups.offsets.pending_offsets import EndedOffset, OffsetKey, PendingOffset, PendingOffsets

FIVE = CommittedOffset(5, 3, "héllo", 1_000, topic_id=UUID(int=9))
SIX = CommittedOffset(6)


def test_offsets_are_pending_until_their_transaction_ends() -> None:
    pending = PendingOffsets()
    pending.put(7, "g", "orders", 0, FIVE)
    assert "g" in pending and "h" not in pending and len(pending) == 1
    assert pending.has("g", "orders", 0) and not pending.has("g", "orders", 1) and not pending.has("h", "orders", 0)
    assert pending.end(7, is_commit=True) == [EndedOffset(OffsetKey("g", "orders", 0), FIVE)]
    assert "g" not in pending and not pending.has("g", "orders", 0) and not len(pending)


def test_an_aborted_offset_has_no_effect() -> None:
    pending = PendingOffsets()
    pending.put(7, "g", "orders", 0, FIVE)
    assert pending.end(7, is_commit=False) == [EndedOffset(OffsetKey("g", "orders", 0), None)]
    assert pending.end(8, is_commit=True) == []


def test_the_pending_offsets_of_a_group() -> None:
    pending = PendingOffsets()
    pending.put(7, "g", "orders", 0, FIVE)
    pending.put(8, "g", "orders", 0, SIX)
    pending.put(8, "g", "payments", 1, SIX)
    pending.put(8, "h", "orders", 0, SIX)
    pending.supersede("g", "payments", 1)
    assert pending.group_ids() == ["g", "h"]
    assert pending.partitions("g") == [("orders", 0), ("payments", 1)]
    assert sorted(pending.of_group("g"), key=lambda each: each[:3]) == [
        PendingOffset(7, "orders", 0, FIVE),
        PendingOffset(8, "orders", 0, SIX),
        PendingOffset(8, "payments", 1, None),
    ]
    assert list(pending.of_group("nobody")) == []


def test_a_partition_stays_pending_while_any_transaction_has_it() -> None:
    pending = PendingOffsets()
    pending.put(7, "g", "orders", 0, FIVE)
    pending.put(8, "g", "orders", 0, SIX)
    pending.end(7, is_commit=True)
    assert pending.has("g", "orders", 0)
    pending.end(8, is_commit=True)
    assert not pending.has("g", "orders", 0)


def test_deleted_offsets_are_forgotten() -> None:
    pending = PendingOffsets()
    pending.put(7, "g", "orders", 0, FIVE)
    pending.put(7, "g", "orders", 1, FIVE)
    pending.discard("g", "orders", 0)
    pending.discard("g", "orders", 2)
    pending.discard("nobody", "orders", 2)
    assert pending.partitions("g") == [("orders", 1)]
    assert pending.end(7, is_commit=True) == [EndedOffset(OffsetKey("g", "orders", 1), FIVE)]
