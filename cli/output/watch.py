"""What `--watch` has shown already: only what is new is shown again."""

import argparse

from tailrace.runtime.wall_clock import WallClock

from .printing import time_text

WATCH_SECONDS = 1.0
SECONDS_MIN = 0.1
SECONDS_MAX = 3600.0


class Seen:
    """The last answer, and the last sentence about what was wrong with getting one."""

    def __init__(self, wall_clock: WallClock) -> None:
        self._wall_clock = wall_clock
        self._last: str | None = None
        self._is_first = True
        self.last_change_us = -1
        """Up to where changes of statuses have been told."""

    def is_news(self, text: str) -> bool:
        if text == self._last:
            return False
        self._last = text
        return True

    def headed(self, text: str) -> str:
        """Below the time, so that a person sees what came when, and divided from what came before."""
        divider = "" if self._is_first else "\n"
        self._is_first = False
        return f"{divider}{time_text(self._wall_clock.now_ms())}\n{text}"


def watch_seconds(text: str) -> float:
    """The type of a flag."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        allowed = f"a number of seconds from {SECONDS_MIN:g} to {SECONDS_MAX:g}"
        raise argparse.ArgumentTypeError(f"{text} is not {allowed}; names stand before --watch")
    return seconds
