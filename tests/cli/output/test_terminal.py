"""Tests what a terminal shows: colours where they say something, and tables that fit."""

import io
import sys

import pytest
from terminals import on_terminal

from tailrace.cli.output.terminal import Cell, coloured, drawn_table, is_capable, toned_text, width_of
from tailrace.cli.output.tones import Tone, Toned

ROWS = [[Cell("1"), Cell("Offline", Tone.BAD)], [Cell("20"), Cell("Online")]]
SHOW = (
    "from tailrace.cli.output.tables import table, fields;"
    "print(table(('ID', 'STATUS', 'REASON'), [(1, 'Offline', 'a reason ' * 8), (20, 'Online', '')]));"
    "print(fields([('Status', 'Offline')]))"
)


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLORTERM", raising=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_status_is_red_if_it_is_bad() -> None:
    assert drawn_table(("ID", "STATUS"), ROWS, [True, False], width=80) == (
        "\x1b[1mID\x1b[0m\x1b[1m  \x1b[0m\x1b[1mSTATUS \x1b[0m\n 1  \x1b[1;31mOffline\x1b[0m\n20  Online"
    )


def test_no_color_leaves_the_layout_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert drawn_table(("ID", "STATUS"), ROWS, [True, False], width=80) == "ID  STATUS\n 1  Offline\n20  Online"
    assert coloured("x", Tone.BAD) == "x"


def test_a_long_cell_continues_below_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [[Cell("123456789"), Cell("abc" * 20)]]
    text = drawn_table(("ID", "NAME"), rows, [True, False], width=40)
    assert max(map(len, text.splitlines())) <= 40
    assert "123456789" in text
    assert "".join(line[11:] for line in text.splitlines()[1:]) == "abc" * 20


def test_markup_in_a_cell_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert drawn_table(("N",), [[Cell("[red]a[/red] :smile:")]], [False], width=80) == "N\n[red]a[/red] :smile:"


def test_only_a_terminal_that_can_do_more_than_print_is_capable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_capable(Terminal())
    assert not is_capable(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not is_capable(Terminal())


def test_columns_says_how_wide_the_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "123")
    assert width_of(Terminal()) == 123
    monkeypatch.setenv("COLUMNS", "wide")
    assert width_of(Terminal()) == 80


def test_a_pipe_gets_a_toned_text_without_colour() -> None:
    assert toned_text(Toned("Offline", Tone.BAD)) == "Offline"


def test_a_real_terminal_gets_colours_and_whole_words_within_its_width() -> None:
    status, shown = on_terminal(["-c", SHOW], {"COLUMNS": "60"})
    assert status == 0
    assert shown.count("\x1b[1;31mOffline\x1b[0m") == 2
    assert " ".join(shown.split()).count("a reason") == 8


def test_a_dumb_terminal_and_no_color_get_no_escapes() -> None:
    for environment in ({"TERM": "dumb"}, {"NO_COLOR": "1"}):
        status, shown = on_terminal(["-c", SHOW], environment)
        assert status == 0
        assert "\x1b" not in shown
        assert "Offline" in shown


def test_plain_tables_import_no_library() -> None:
    import subprocess

    look = SHOW + ";import sys; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], stdout=subprocess.PIPE).returncode == 0
