"""The pace of a replay: when each record is due, so that the records come as they came once, or some times as fast.

All partitions have one origin. So they stay in step, whichever tasks send them.
"""

import re

from msgspec import Struct

WINDOW_MS = 100
"""How much earlier than the last record of a batch its first record is due at most."""
_SPEED = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)x?")


class ReplayPace(Struct, frozen=True):
    """A moment of the past, the moment now to which it belongs, and how fast time goes."""

    speed: float
    record_ms: int
    """The time of the first record."""
    wall_ms: int
    """The wall clock when that record is due."""

    def due_ms(self, timestamp_ms: int) -> int:
        """Returns the wall clock at which a record with this time is due."""
        return self.wall_ms + int((timestamp_ms - self.record_ms) / self.speed)

    @property
    def window_ms(self) -> float:
        """How far the times of the records in one batch may be apart."""
        return WINDOW_MS * self.speed


def parse_speed(text: str) -> float:
    """Reads a speed such as 10x, 1 or 0.5x. Raises ValueError."""
    found = _SPEED.fullmatch(text)
    if found is None or not float(found[1]):
        raise ValueError(f"{text} is not a speed such as 1x, 10x or 0.5x")
    return float(found[1])
