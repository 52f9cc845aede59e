"""Formats bytes, texts, times, sizes and counts so that any content is safe to print on a terminal."""

import base64
from datetime import UTC, datetime

SHOWN_CHARACTERS_MAX = 100


class _Escaped(dict[int, str]):
    """The text for each character on a terminal. Entries are made as characters occur: Unicode has about a million."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = self[code] = character if character.isprintable() else character.encode("unicode_escape").decode()
        return shown


_ESCAPED = _Escaped()
_UNITS = (("d", 24 * 3600), ("h", 3600), ("m", 60))


def shortened(data: bytes | None) -> str:
    """Quotes the first characters of `data`, on one line and without control characters."""
    if data is None:
        return "null"
    # A character has at most four bytes.
    text = data[: 4 * SHOWN_CHARACTERS_MAX + 4].decode(errors="backslashreplace")
    shown = plain(text[:SHOWN_CHARACTERS_MAX]).replace('"', '\\"')
    return f'"{shown}"' + (f"… ({len(data)} bytes)" if len(text) > SHOWN_CHARACTERS_MAX else "")


def plain(text: str) -> str:
    """Escapes line ends and all other characters that would move the cursor or colour or hide text."""
    return text if text.isprintable() else text.translate(_ESCAPED)


def content_document(data: bytes | None) -> object:
    """Returns bytes as documents have them: as text, or as `{"base64": …}` if they are not UTF-8."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def time_text(timestamp_ms: int) -> str:
    """Formats a timestamp in UTC, so that the same file looks the same everywhere."""
    if timestamp_ms == -1:
        return "-"
    try:
        seconds, milliseconds = divmod(timestamp_ms, 1000)
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


def for_encoding(text: str, encoding: str | None) -> str:
    """Escapes the characters that the encoding of the output does not have."""
    encoding = encoding or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def size_text(count: int) -> str:
    """Formats a number of bytes in the unit that suits it."""
    if count < 10_000:
        return f"{count} bytes"
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1000:.1f} kB"


def counted(count: int, one: str, many: str = "") -> str:
    """Formats a number with its noun: `1 topic`, `2 topics`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def duration_text(seconds: float) -> str:
    """Formats a duration in the largest unit that fits into it."""
    for unit, unit_seconds in _UNITS:
        if seconds >= unit_seconds:
            return f"{seconds / unit_seconds:.0f} {unit}"
    return f"{seconds:.0f} s"
