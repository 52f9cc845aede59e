"""Format strings of `tailrace consume --format`, in the language of kcat: `'%t/%p %o %k %s\\n'`."""

import argparse
import re
from collections.abc import Callable

from .consumed_record import Consumed
from .escaped_text import escaped_bytes

_HEADER_VALUE_NULL = b"NULL"
_INT32_MAX = 2**31 - 1

Part = Callable[[Consumed, bytes], bytes]
"""Formats one token of a record; the second argument stands for no key and no value."""


def _text(content: bytes | None, null: bytes) -> bytes:
    return null if content is None else content


def _size(content: bytes | None) -> bytes:
    return b"%d" % (-1 if content is None else len(content))


def _binary_size(content: bytes | None) -> bytes:
    return (-1 if content is None else min(len(content), _INT32_MAX)).to_bytes(4, "big", signed=True)


def _headers(headers: list[tuple[str, bytes | None]]) -> bytes:
    return b",".join(
        name.encode(errors="surrogateescape") + b"=" + (_HEADER_VALUE_NULL if value is None else value)
        for name, value in headers
    )


TOKENS: dict[str, tuple[str, Part]] = {
    "t": ("topic", lambda each, null: each.partition.topic.encode()),
    "p": ("partition", lambda each, null: b"%d" % each.partition.number),
    "o": ("offset", lambda each, null: b"%d" % each.record.offset),
    "T": ("timestamp in milliseconds since 1970", lambda each, null: b"%d" % each.record.timestamp),
    "k": ("key", lambda each, null: _text(each.record.key, null)),
    "K": ("length of the key in bytes, -1 for no key", lambda each, null: _size(each.record.key)),
    "s": ("value", lambda each, null: _text(each.record.value, null)),
    "S": ("length of the value in bytes, -1 for no value", lambda each, null: _size(each.record.value)),
    "R": ("length of the value as four bytes, big-endian", lambda each, null: _binary_size(each.record.value)),
    "h": ("headers as name=value, with commas between", lambda each, null: _headers(each.record.headers)),
    "%": ("percent sign", lambda each, null: b"%"),
}
"""The tokens: what each means, and its function. docs/cli.md lists them."""


class RecordFormat:
    """A format string. It has the escapes \\n, \\r, \\t, \\0, \\\\ and \\xNN; content is inserted byte for byte."""

    def __init__(self, text: str) -> None:
        """Reads a format string. Raises ArgumentTypeError."""
        self._parts: list[bytes | Part] = []
        for literal, token in re.findall(r"([^%]*)(%.?|$)", text, re.DOTALL):
            if literal:
                self._parts.append(escaped_bytes(literal))
            if token:
                self._parts.append(_part(token))

    def with_null(self, null: bytes) -> Callable[[Consumed], bytes]:
        """Returns the function that formats a record; `null` stands for no key and no value."""
        parts = self._parts

        def formatted(consumed: Consumed) -> bytes:
            return b"".join([each if isinstance(each, bytes) else each(consumed, null) for each in parts])

        return formatted


def _part(token: str) -> Part:
    name = token[1:]
    if name not in TOKENS:
        known = ", ".join(f"%{each} {meaning}" for each, (meaning, _) in TOKENS.items())
        raise argparse.ArgumentTypeError(f"{token} is not known; there are: {known}")
    return TOKENS[name][1]
