"""Tests reports of progress: rare, in place on a terminal, and elsewhere only if wanted."""

import io
import re

import pytest

from tailrace.cli.output.progress import Progress


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.time_ms = 0

    def now_ms(self) -> int:
        return self.time_ms


def _shown(terminal: Terminal) -> list[str]:
    """Returns the reports without colours."""
    assert "\n" not in terminal.getvalue()
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).split("\r\x1b[K")[1:]


def test_a_terminal_sees_progress_once_it_takes_long() -> None:
    terminal, clock = Terminal(), Clock()
    progress = Progress(50_000_000, wanted=False, stream=terminal, wall_clock=clock)
    clock.time_ms = 900
    progress.add(20_000_000)
    assert terminal.getvalue() == ""
    clock.time_ms = 1100
    progress.add(10_000_000)
    assert _shown(terminal) == ["━" * 18 + "╺" + "━" * 11 + "   60 %  30.0 MB of 50.0 MB  0:01 left"]
    clock.time_ms = 1200
    progress.add(1)
    assert terminal.getvalue().count("%") == 1
    progress.clear()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_file_sees_no_progress_unless_it_was_asked_for() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(100, wanted=False, stream=stream, wall_clock=clock)
    clock.time_ms = 10_000
    progress.add(50)
    progress.clear()
    assert stream.getvalue() == ""


def test_a_file_gets_lines_from_the_beginning_and_far_apart() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(1000, wanted=True, stream=stream, wall_clock=clock)
    for clock.time_ms in range(0, 4001, 250):
        progress.add(50)
        progress.clear()
    assert stream.getvalue().splitlines() == [
        "  5 %  50 bytes of 1000 bytes",
        " 45 %  450 bytes of 1000 bytes",
        " 85 %  850 bytes of 1000 bytes",
    ]


def test_a_shorter_text_leaves_nothing_of_a_longer_one() -> None:
    terminal, clock = Terminal(), Clock()
    progress = Progress(20_000, wanted=True, stream=terminal, wall_clock=clock)
    progress.add(9_999)
    clock.time_ms = 250
    progress.add(1)
    longer, shorter = _shown(terminal)
    assert longer.endswith(" 49 %  9999 bytes of 20.0 kB  0:00 left")
    assert shorter.endswith(" 50 %  10.0 kB of 20.0 kB  0:00 left")


def test_what_was_cleared_is_cleared_once() -> None:
    terminal = Terminal()
    progress = Progress(100, wanted=True, stream=terminal, wall_clock=Clock())
    progress.clear()
    assert terminal.getvalue() == ""
    progress.add(1)
    progress.clear()
    shown = terminal.getvalue()
    progress.clear()
    assert terminal.getvalue() == shown


def test_a_file_that_grows_meanwhile_is_never_more_than_all_of_it() -> None:
    for total_bytes in (0, 100):
        stream = io.StringIO()
        Progress(total_bytes, wanted=True, stream=stream, wall_clock=Clock()).add(250)
        assert stream.getvalue().startswith("100 %")


def test_other_work_than_bytes_is_counted_in_its_own_words() -> None:
    for stream in (io.StringIO(), Terminal()):
        clock = Clock()
        progress = Progress(
            12, wanted=True, doing="moving", amount="{} replicas".format, stream=stream, wall_clock=clock
        )
        progress.move_to(3)
        assert "3 replicas of 12 replicas" in stream.getvalue()
        assert "moving" in stream.getvalue()
        clock.time_ms = 10_000
        progress.move_to(6, total=10)
        assert " 60 %  6 replicas of 10 replicas" in stream.getvalue()


def test_a_dumb_terminal_gets_lines_if_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    Progress(100, wanted=True, stream=terminal, wall_clock=Clock()).add(50)
    assert terminal.getvalue() == " 50 %  50 bytes of 100 bytes\n"


def test_no_color_draws_the_bar_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    Progress(100, wanted=True, stream=terminal, wall_clock=Clock()).add(50)
    assert re.search(r"\x1b\[[0-9;]*m", terminal.getvalue()) is None
