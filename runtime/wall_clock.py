"""The wall-clock seam: timestamps for records and file ages. Durations come from `trio.current_time()`.

Times that people and programs write are read here as well. They are in UTC unless they name a zone.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class WallClock(Protocol):
    """A source of timestamps."""

    def now_ms(self) -> int:
        """Returns milliseconds since the epoch, as in Kafka's timestamps."""


class SystemClock:
    """The clock of the operating system."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def utc_ms(moment: datetime) -> int:
    """Returns milliseconds since 1970."""
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def moment_ms(text: str) -> int | None:
    """Reads an ISO 8601 date and time, in UTC unless it names a zone. Returns None if the text is none."""
    try:
        return utc_ms(datetime.fromisoformat(text))
    except ValueError:
        return None
