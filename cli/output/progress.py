"""Reports the progress of long work on standard error, and nothing for short work."""

import sys
from collections.abc import Callable
from typing import TextIO

from tailrace.runtime.wall_clock import SystemClock, WallClock

from .printing import size_text
from .terminal import console, is_capable, width_of

_FIRST_MS = 1000
_INTERVAL_MS = 250
_INTERVAL_LINES_MS = 2000
"""The interval of reports that are not on a terminal, where each is a line of its own."""
_BAR_WIDTH = 30
_ERASE = "\r\x1b[K"


class Progress:
    """A bar that overwrites itself on a terminal; elsewhere lines, and only if they are `wanted`.

    The work is counted in bytes, or in anything else that `amount` can put into words, for example `str`.
    """

    def __init__(
        self,
        total: int,
        *,
        wanted: bool,
        doing: str = "",
        amount: Callable[[int], str] = size_text,
        stream: TextIO | None = None,
        wall_clock: WallClock | None = None,
    ) -> None:
        """Takes the amount of work as `total`; `doing` says what is done, for example `copying replicas`."""
        self._stream = stream if stream is not None else sys.stderr
        self._wall_clock = wall_clock if wall_clock is not None else SystemClock()
        self._total = total
        self._done = 0
        self._doing = doing
        self._amount = amount
        self._is_terminal = is_capable(self._stream)
        self._is_shown = wanted or self._is_terminal
        self._began_ms = self._wall_clock.now_ms()
        self._next_ms = self._began_ms + (0 if wanted else _FIRST_MS)
        self._is_on_screen = False

    def add(self, count: int) -> None:
        """Counts `count` more of the work as done, and shows a report if one is due."""
        self.move_to(self._done + count)

    def move_to(self, done: int, total: int | None = None) -> None:
        """Counts `done` of the work as done, changes its total if one is given, and shows a report if one is due."""
        self._done = done
        self._total = self._total if total is None else total
        if self._is_shown and (now_ms := self._wall_clock.now_ms()) >= self._next_ms:
            self._next_ms = now_ms + (_INTERVAL_MS if self._is_terminal else _INTERVAL_LINES_MS)
            self._show(now_ms)

    def _show(self, now_ms: int) -> None:
        done = min(self._done, self._total)
        percent = 100 * done // self._total if self._total > 0 else 100
        text = f"{percent:3} %  {self._amount(self._done)} of {self._amount(self._total)}"
        if self._is_terminal:
            self._stream.write(_ERASE + self._bar(done, text, now_ms))
            self._is_on_screen = True
        else:
            self._stream.write((f"{self._doing}: " if self._doing else "") + text + "\n")
        self._stream.flush()

    def _bar(self, done: int, text: str, now_ms: int) -> str:
        """Draws one line with a bar, and how much time is left."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        passed_seconds = (now_ms - self._began_ms) / 1000
        left = round(passed_seconds * (self._total - done) / done) if done else None
        about = text if left is None else f"{text}  {left // 60}:{left % 60:02} left"
        line = Table.grid(padding=(0, 2, 0, 0))
        bar = ProgressBar(total=max(1, self._total), completed=done if self._total > 0 else 1, width=_BAR_WIDTH)
        line.add_row(*([Text(self._doing, no_wrap=True)] if self._doing else []), bar, Text(about, no_wrap=True))
        # The last column stays free: a terminal may go to the next line when it is filled.
        with console(width=width_of(self._stream) - 1) as (drawing, lines):
            drawing.print(line)
        return lines.getvalue().partition("\n")[0].rstrip()

    def clear(self) -> None:
        """Removes the report from the terminal, so that another line can be printed."""
        if self._is_on_screen:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._is_on_screen = False
