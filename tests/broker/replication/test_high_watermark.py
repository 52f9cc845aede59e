from replication_store import ListLog

from tailrace.broker.replication.entries import Entry
from tailrace.broker.replication.high_watermark import HighWatermark, high_watermark_at_start
from tailrace.protocol.ids import Epoch


def test_it_rises_and_says_so() -> None:
    high_watermark = HighWatermark(3)
    assert high_watermark.advance(5, Epoch(1))
    assert (high_watermark.value, high_watermark.epoch) == (5, 1)


def test_it_never_falls() -> None:
    high_watermark = HighWatermark(3)
    assert not high_watermark.advance(2, Epoch(1))
    assert not high_watermark.advance(3, Epoch(1))
    assert high_watermark.value == 3


def test_it_falls_only_on_request() -> None:
    high_watermark = HighWatermark(3)
    high_watermark.fall_back(5)
    assert high_watermark.value == 3
    high_watermark.fall_back(1)
    assert high_watermark.value == 1


def _log(*ends: tuple[int, int]) -> ListLog:
    return ListLog([Entry(base, end, Epoch(1)) for base, end in ends])


def test_at_start_it_is_the_checkpoint_within_the_log() -> None:
    assert high_watermark_at_start(_log((0, 3), (3, 5)), 3) == 3
    assert high_watermark_at_start(_log((0, 3), (3, 5)), 9) == 5


def test_deleted_records_were_committed_and_so_is_the_batch_with_the_log_start() -> None:
    log = _log((0, 3), (3, 7), (7, 9))
    log.advance_log_start(5)
    assert high_watermark_at_start(log, 0) == 7


def test_compacted_records_were_committed() -> None:
    assert high_watermark_at_start(_log((0, 3), (5, 7), (9, 10)), 3) == 9
