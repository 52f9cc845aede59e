import time
from datetime import UTC, datetime

import pytest

from tailrace.runtime.wall_clock import SystemClock, moment_ms, utc_ms


def test_it_counts_milliseconds_since_the_epoch() -> None:
    before = int(time.time() * 1000)
    now = SystemClock().now_ms()
    after = int(time.time() * 1000)
    assert before <= now <= after


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert utc_ms(datetime(1970, 1, 2)) == utc_ms(datetime(1970, 1, 2, tzinfo=UTC)) == 86_400_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1970-01-02", 86_400_000), ("1970-01-01T00:00:01.5Z", 1500), ("1970-01-01T01:00+01:00", 0), ("soon", None)],
)
def test_texts_are_read(text: str, ms: int | None) -> None:
    assert moment_ms(text) == ms
