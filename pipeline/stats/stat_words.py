"""Puts numbers of statistics into words: counts, bytes, rates, shares, times."""

from datetime import UTC, datetime

NONE = "–"
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SPANS = (("d", 86400), ("h", 3600), ("min", 60))


def count_text(count: int | None) -> str:
    """Returns a count with its digits in groups of three."""
    return NONE if count is None else f"{count:,}".replace(",", "\u202f")


def bytes_text(count: int | None) -> str:
    """Returns a number of bytes in the unit that suits it."""
    if count is None:
        return NONE
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.{0 if size >= 100 else 1}f} {_UNITS[unit]}"


def rate_text(rate: float | None) -> str:
    """Returns a rate with about three digits."""
    if rate is None:
        return NONE
    return count_text(round(rate)) if rate >= 100 else f"{rate:.3g}"


def share_text(part: float, whole: float) -> str:
    """Returns a share in percent."""
    return f"{100 * part / whole:.1f} %" if whole else NONE


def time_text(time_ms: int) -> str:
    """Returns a time in UTC; times that no calendar has stay numbers."""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


def span_text(seconds: int) -> str:
    """Returns a span in the largest unit in which it is a whole number."""
    for unit, size in _SPANS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def power_text(size: int) -> str:
    """Returns a power of two in short: 512, 1k, 64M."""
    for unit, factor in (("G", 2**30), ("M", 2**20), ("k", 2**10)):
        if size >= factor:
            return f"{size // factor}{unit}"
    return str(size)


def power_range_text(low: int, high: int) -> str:
    """Returns a bucket between powers of two in short: 0, 8–15, 1k–2k."""
    if high - low == 1:
        return str(low)
    return f"{low}–{high - 1}" if high <= 1024 else f"{power_text(low)}–{power_text(high)}"
