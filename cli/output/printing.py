"""Shows what came out of files as text that is safe to print, whatever it is."""

from datetime import UTC, datetime

SHOWN_CHARACTERS_MAX = 100

_UNITS = (("d", 24 * 3600), ("h", 3600), ("m", 60))


def shortened(data: bytes | None) -> str:
    """Quoted, on one line, without anything that a terminal would take for a command."""
    if data is None:
        return "null"
    # No character has more than four bytes.
    text = data[: 4 * SHOWN_CHARACTERS_MAX + 4].decode(errors="backslashreplace")
    shown = plain(text[:SHOWN_CHARACTERS_MAX]).replace('"', '\\"')
    return f'"{shown}"' + (f"… ({len(data)} bytes)" if len(text) > SHOWN_CHARACTERS_MAX else "")


def plain(text: str) -> str:
    """Without line ends and whatever else moves, colours or hides something on a terminal."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def time_text(timestamp_ms: int) -> str:
    """In UTC, so that the same file is shown alike everywhere."""
    if timestamp_ms == -1:
        return "-"
    try:
        seconds, milliseconds = divmod(timestamp_ms, 1000)
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


def for_encoding(text: str, encoding: str | None) -> str:
    """With what the encoding of the output lacks written as escapes."""
    encoding = encoding or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def size_text(count: int) -> str:
    if count < 10_000:
        return f"{count} bytes"
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1000:.1f} kB"


def duration_text(seconds: float) -> str:
    """In the largest unit of which there is one."""
    for unit, unit_seconds in _UNITS:
        if seconds >= unit_seconds:
            return f"{seconds / unit_seconds:.0f} {unit}"
    return f"{seconds:.0f} s"
