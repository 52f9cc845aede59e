"""Reads the escapes in texts of the command line, such as `\\t`, which shells do not turn into characters."""

import argparse
import re

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{2}|.|$)", re.DOTALL)


def escaped_bytes(text: str) -> bytes:
    """Reads a text with escapes. Raises ArgumentTypeError if an escape is unknown."""

    def meant(found: re.Match[bytes]) -> bytes:
        name = found[1].decode(errors="surrogateescape")
        if len(name) == 3:
            return bytes([int(name[1:], 16)])
        if name not in _ESCAPES:
            raise argparse.ArgumentTypeError(rf"\{name} is not an escape; use \n, \r, \t, \0, \\ or \xNN")
        return _ESCAPES[name]

    return _ESCAPE.sub(meant, text.encode(errors="surrogateescape"))


def escaped_separator(text: str) -> bytes:
    """Reads a text with escapes that separates others, and so has at least one byte. Raises ArgumentTypeError."""
    if not text:
        raise argparse.ArgumentTypeError("the text is empty")
    return escaped_bytes(text)
