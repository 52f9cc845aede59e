import time

from tailrace.runtime.wall_clock import SystemClock


def test_it_counts_milliseconds_since_the_epoch() -> None:
    before = int(time.time() * 1000)
    now = SystemClock().now_ms()
    after = int(time.time() * 1000)
    assert before <= now <= after
