from tailrace.broker.replication.high_watermark import HighWatermark


def test_it_rises_and_says_so() -> None:
    high_watermark = HighWatermark(3)
    assert high_watermark.advance(5)
    assert high_watermark.value == 5


def test_it_never_falls() -> None:
    high_watermark = HighWatermark(3)
    assert not high_watermark.advance(2)
    assert not high_watermark.advance(3)
    assert high_watermark.value == 3
