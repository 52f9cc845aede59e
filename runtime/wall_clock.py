"""The wall-clock seam: timestamps for records and file ages; durations come from `trio.current_time()` instead."""

import time
from typing import Protocol


class WallClock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch, as Kafka's timestamps count them."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
