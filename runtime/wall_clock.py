"""The wall-clock seam: timestamps for records and file ages. Durations come from `trio.current_time()`."""

import time
from typing import Protocol


class WallClock(Protocol):
    """A source of timestamps."""

    def now_ms(self) -> int:
        """Returns milliseconds since the epoch, as in Kafka's timestamps."""


class SystemClock:
    """The clock of the operating system."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
