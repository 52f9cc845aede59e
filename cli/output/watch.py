"""Remembers what `--watch` has shown, so that only changes are shown."""

import argparse

from tailrace.runtime.wall_clock import WallClock

from .printing import time_text

WATCH_SECONDS = 1.0
SECONDS_MIN = 0.1
SECONDS_MAX = 3600.0


class Seen:
    """The last output of a command with `--watch`, be it a result or an error."""

    def __init__(self, wall_clock: WallClock) -> None:
        self._wall_clock = wall_clock
        self._last: str | None = None
        self._is_first = True
        self.last_change_us = -1
        """The time of the last change of a status that was shown; -1 before the first look."""

    def is_news(self, text: str) -> bool:
        """Whether `text` differs from the last one; remembers it."""
        if text == self._last:
            return False
        self._last = text
        return True

    def headed(self, text: str) -> str:
        """Puts the time above `text`, and an empty line above that unless it is the first output."""
        divider = "" if self._is_first else "\n"
        self._is_first = False
        return f"{divider}{time_text(self._wall_clock.now_ms())}\n{text}"


def watch_seconds(text: str) -> float:
    """Reads the value of `--watch`."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        allowed = f"a number of seconds from {SECONDS_MIN:g} to {SECONDS_MAX:g}"
        raise argparse.ArgumentTypeError(f"{text} is not {allowed}; write names before --watch")
    return seconds
