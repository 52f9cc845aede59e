import pytest

from tailrace.cli.records.formats import produced_lines
from tailrace.cli.records.formats.produced_lines import Entry, LineFormat, Lines


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_are_the_same_in_whatever_pieces_they_come(size: int) -> None:
    text = b"one\n\ntwo \r\nthree"
    lines = Lines(LineFormat().entry)
    entries = [
        each for start in range(0, len(text), size) for each in lines.feed(text[start : start + size])
    ] + lines.end()
    assert entries == [Entry(None, value) for value in (b"one", b"", b"two \r", b"three")]
    assert lines.fault is None


def test_nothing_follows_the_end_of_the_last_line() -> None:
    lines = Lines(LineFormat().entry)
    assert (lines.feed(b"one\n"), lines.end()) == ([Entry(None, b"one")], [])


def test_the_key_ends_with_the_first_separator() -> None:
    lines = Lines(LineFormat(separator=b"::", null=b"NULL").entry)
    assert lines.feed(b"a::1::2\n::\nb::NULL\n") == [Entry(b"a", b"1::2"), Entry(b"", b""), Entry(b"b", None)]


def test_the_first_line_that_cannot_be_meant_ends_it() -> None:
    lines = Lines(LineFormat(separator=b":").entry)
    assert lines.feed(b"a:1\nb\nc:3\n") == [Entry(b"a", b"1")]
    assert str(lines.fault) == "line 2 has no ':' after a key"
    assert (lines.feed(b"d:4\n"), lines.end()) == ([], [])


def test_a_line_without_an_end_is_not_kept_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produced_lines, "LINE_BYTES_MAX", 2**20)
    lines = Lines(LineFormat().entry)
    lines.feed(b"x\n" + b"y" * 2**20)
    assert lines.fault is None
    lines.feed(b"y")
    assert str(lines.fault) == "line 2 is longer than 1 MiB"


@pytest.mark.parametrize("line_end", [b"\0", b"ab", b"aab"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_another_text_may_end_lines(size: int, line_end: bytes) -> None:
    text = line_end.join((b"one\n", b"a", b"", b"baa"))
    lines = Lines(LineFormat().entry, line_end)
    entries = [
        each for start in range(0, len(text), size) for each in lines.feed(text[start : start + size])
    ] + lines.end()
    assert [each.value for each in entries] == text.split(line_end)
