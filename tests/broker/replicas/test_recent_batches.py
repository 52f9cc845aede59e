import pytest
from spus import batch

from tailrace.broker.replicas.recent_batches import BYTES_MAX, RecentBatches
from tailrace.protocol.batches.record_batch import stamp


def _add(at_hand: RecentBatches, base: int, value: bytes) -> bytes:
    data = bytearray(batch(value))
    stamp(data, 0, base, 1)
    at_hand.add(memoryview(data), base, base + 1)
    added = bytes(data)
    data[:] = bytes(len(data))  # the received bytes are not there any more
    return added


def test_batches_appended_together_are_returned_together() -> None:
    at_hand = RecentBatches()
    added = [_add(at_hand, base, b"%d" % base) for base in (5, 6, 7)]
    assert at_hand.between(5, 8) == b"".join(added)
    assert at_hand.between(5, 8) is at_hand.between(5, 8)


@pytest.mark.parametrize(("base", "end"), [(4, 7), (5, 8), (6, 7), (5, 6)])
def test_a_part_of_the_recent_batches_has_to_be_read(base: int, end: int) -> None:
    at_hand = RecentBatches()
    for offset in (5, 6):
        _add(at_hand, offset, b"x")
    assert at_hand.between(base, end) is None


def test_nothing_is_handed_out_when_the_turn_is_over() -> None:
    at_hand = RecentBatches()
    _add(at_hand, 5, b"x")
    at_hand.forget()
    assert at_hand.between(5, 6) is None
    added = _add(at_hand, 6, b"y")
    assert at_hand.between(6, 7) == added


def test_a_batch_that_does_not_follow_replaces_the_others() -> None:
    at_hand = RecentBatches()
    _add(at_hand, 5, b"x")
    added = _add(at_hand, 9, b"y")
    assert at_hand.between(5, 10) is None
    assert at_hand.between(9, 10) == added


def test_little_is_kept() -> None:
    at_hand = RecentBatches()
    half = b"x" * (BYTES_MAX // 2)
    _add(at_hand, 5, half)
    second = _add(at_hand, 6, half)
    assert at_hand.between(5, 7) is None
    assert at_hand.between(6, 7) == second
    _add(at_hand, 7, half + half)
    assert at_hand.between(6, 8) is at_hand.between(7, 8) is at_hand.between(6, 7) is None
