"""Tests that printed content stays on its line and has no control characters."""

import pytest

from tailrace.cli.output.printing import (
    SHOWN_CHARACTERS_MAX,
    content_document,
    counted,
    for_encoding,
    plain,
    shortened,
    size_text,
    time_text,
)


@pytest.mark.parametrize(
    "harm", ["\x1b[2J", "\n", "\r", "\x00", "\x7f", "\x9b", "\u202e", "\u200b", "\u2028", "\ud800"]
)
def test_what_moves_colours_or_hides_is_escaped(harm: str) -> None:
    shown = plain(f"a{harm}b")
    assert shown.startswith("a\\")
    assert shown.isprintable()


def test_what_people_write_stays_as_it_is() -> None:
    for text in ("Grüße, 世界", "🙂 and a space", 'C:\\path "quoted"', ""):
        assert plain(text) == text


def test_null_empty_and_quotes_are_told_apart() -> None:
    assert shortened(None) == "null"
    assert shortened(b"") == '""'
    assert shortened(b"null") == '"null"'
    assert shortened(b'" "') == '"\\" \\""'
    assert shortened(b"\xff\x00") == '"\\xff\\x00"'


def test_only_what_is_too_long_is_shortened() -> None:
    assert shortened(b"x" * SHOWN_CHARACTERS_MAX) == '"' + "x" * SHOWN_CHARACTERS_MAX + '"'
    assert shortened(b"x" * 101) == '"' + "x" * SHOWN_CHARACTERS_MAX + '"… (101 bytes)'


@pytest.mark.parametrize("character", ["ü", "世", "🙂"])
def test_no_character_is_cut_in_two(character: str) -> None:
    for before in range(5):
        data = (" " * before + character * 1000).encode()
        expected = " " * before + character * (SHOWN_CHARACTERS_MAX - before)
        assert shortened(data) == f'"{expected}"… ({len(data)} bytes)'


def test_documents_have_text_or_base64() -> None:
    assert [content_document(each) for each in (None, b"", "ü".encode(), b"\xff")] == [
        None,
        "",
        "ü",
        {"base64": "/w=="},
    ]


def test_times() -> None:
    assert time_text(-1) == "-"
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    assert time_text(-2) == "1969-12-31T23:59:59.998Z"


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63), 10**15])
def test_a_time_that_no_calendar_has_is_a_number(timestamp: int) -> None:
    assert time_text(timestamp) == str(timestamp)


def test_an_output_gets_only_what_its_encoding_has() -> None:
    assert for_encoding("Grüße …", "utf-8") == "Grüße …"
    assert for_encoding("Grüße …", "latin-1") == "Grüße \\u2026"
    assert for_encoding("Grüße", None) == "Gr\\xfc\\xdfe"


def test_sizes_are_exact_while_they_are_small() -> None:
    texts = [size_text(count) for count in (0, 9_999, 10_000, 123_456, 1_000_000, 2_500_000_000)]
    assert texts == ["0 bytes", "9999 bytes", "10.0 kB", "123.5 kB", "1.0 MB", "2.5 GB"]


def test_numbers_have_their_noun() -> None:
    assert (counted(1, "topic"), counted(2, "topic"), counted(0, "shelf", "shelves")) == (
        "1 topic",
        "2 topics",
        "0 shelves",
    )
