import argparse

import pytest

from tailrace.cli.records.formats.escaped_text import escaped_bytes, escaped_separator


@pytest.mark.parametrize(
    ("text", "meant"),
    [("", b""), ("a\\tb\\n", b"a\tb\n"), ("\\0\\x1F\\\\r\\r", b"\0\x1f\\r\r"), ("ä\udcff", b"\xc3\xa4\xff")],
)
def test_escapes_stand_for_bytes(text: str, meant: bytes) -> None:
    assert escaped_bytes(text) == meant


@pytest.mark.parametrize("text", ["\\q", "\\x1", "\\xgg", "a\\"])
def test_an_unknown_escape_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not an escape; use "):
        escaped_bytes(text)


def test_a_separator_is_not_empty() -> None:
    assert escaped_separator("\\0") == b"\0"
    with pytest.raises(argparse.ArgumentTypeError, match="the text is empty"):
        escaped_separator("")
