"""Reports the progress of long work on standard error, and nothing for short work."""

import sys
from typing import TextIO

from tailrace.runtime.wall_clock import SystemClock, WallClock

from .printing import size_text

_FIRST_MS = 1000
_INTERVAL_MS = 250
_INTERVAL_LINES_MS = 2000
"""The interval of reports that are not on a terminal, where each is a line of its own."""


class Progress:
    """A percentage that overwrites itself on a terminal; elsewhere lines, and only if they are `wanted`."""

    def __init__(
        self, total_bytes: int, *, wanted: bool, stream: TextIO | None = None, wall_clock: WallClock | None = None
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._wall_clock = wall_clock if wall_clock is not None else SystemClock()
        self._total_bytes = total_bytes
        self._done_bytes = 0
        self._is_terminal = self._stream.isatty()
        self._is_shown = wanted or self._is_terminal
        self._next_ms = self._wall_clock.now_ms() + (0 if wanted else _FIRST_MS)
        self._width = 0

    def add(self, count: int) -> None:
        """Counts `count` more bytes as done, and shows a report if one is due."""
        self._done_bytes += count
        if self._is_shown and (now_ms := self._wall_clock.now_ms()) >= self._next_ms:
            self._next_ms = now_ms + (_INTERVAL_MS if self._is_terminal else _INTERVAL_LINES_MS)
            self._show()

    def _show(self) -> None:
        percent = min(100, 100 * self._done_bytes // max(1, self._total_bytes))
        text = f"{percent:3} %  {size_text(self._done_bytes)} of {size_text(self._total_bytes)}"
        if self._is_terminal:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Removes the report from the terminal, so that another line can be printed."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0
