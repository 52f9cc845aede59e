"""Selects records by key and headers, with the patterns of shells: `*`, `?` and `[abc]`."""

import re
from collections.abc import Sequence
from fnmatch import translate

from msgspec import Struct

from tailrace.cli.options.sc_options import UsageError
from tailrace.protocol.batches.records import Record

PATTERN_CHARACTERS = frozenset("*?[")
"""The characters by which a text is recognised as a pattern."""


class RecordFilter(Struct, frozen=True):
    """The records to show: those with one of the keys, if any are given, and with all of the headers."""

    keys: tuple[re.Pattern[str], ...] = ()
    headers: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def matches(self, record: Record) -> bool:
        """Whether a record is to be shown."""
        if self.keys:
            if record.key is None:
                return False
            key = _text(record.key)
            if not any(each.match(key) for each in self.keys):
                return False
        return all(
            any(each == name and pattern.match(_text(value or b"")) for each, value in record.headers)
            for name, pattern in self.headers
        )


def record_filter(keys: Sequence[str], headers: Sequence[str]) -> RecordFilter | None:
    """Reads the values of `--key` and `--header`; returns None if there are none. Raises UsageError."""
    if not keys and not headers:
        return None
    return RecordFilter(tuple(map(pattern, keys)), tuple(map(_header, headers)))


def pattern(text: str) -> re.Pattern[str]:
    """Compiles a pattern; it matches whole texts, and all characters but `*`, `?` and `[` stand for themselves."""
    return re.compile(translate(text))


def _header(text: str) -> tuple[str, re.Pattern[str]]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--header {text}: expected NAME=VALUE; NAME=* stands for any value")
    return name, pattern(value)


def _text(data: bytes) -> str:
    """Decodes bytes as the command line was decoded."""
    return data.decode(errors="surrogateescape")
