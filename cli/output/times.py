"""Reads times and durations as people write them on a command line."""

import argparse
import re

from msgspec import Struct

from tailrace.runtime.wall_clock import moment_ms

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
_SHORT = re.compile(rf"(?:{_PART}(ms|[smhd]))+")
_SHORT_PART = re.compile(rf"{_PART}(ms|[smhd])")
_FIRST_MS = 0
_ISO = re.compile(rf"P(?:{_PART}D)?(?:T(?:{_PART}H)?(?:{_PART}M)?(?:{_PART}S)?)?")


def duration_ms(text: str) -> int | None:
    """Reads a duration such as 90s, 1h30m, 2d or PT1H30M. Returns None if the text is none."""
    if _SHORT.fullmatch(text) is not None:
        return round(sum(float(count) * _UNIT_MS[unit] for count, unit in _SHORT_PART.findall(text)))
    found = _ISO.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    return round(sum(float(count or 0) * _UNIT_MS[unit] for count, unit in zip(found.groups(), "dhms", strict=True)))


class Since(Struct, frozen=True):
    """A point in time, or a duration before now."""

    ms: int
    is_duration: bool

    def timestamp_ms(self, now_ms: int) -> int:
        """Returns the time in milliseconds since 1970."""
        return max(now_ms - self.ms if self.is_duration else self.ms, _FIRST_MS)


def since_of(text: str) -> Since | None:
    """Reads a time, or a duration that means so long ago. Returns None if the text is neither."""
    for read, is_duration in ((duration_ms, True), (moment_ms, False)):
        found = read(text)
        if found is not None:
            return Since(found, is_duration)
    return None


def since(text: str) -> Since:
    """Reads the time of an option, which may be a duration before now."""
    found = since_of(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text} is not a time such as 2026-01-31T12:00:00Z, or a duration such as 90m or 2d"
        )
    return found


def moment(text: str) -> int:
    """Reads the time of an option, in milliseconds since 1970."""
    found = moment_ms(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is not a time such as 2026-01-31T12:00:00Z")
    return found


def duration(text: str) -> int:
    """Reads the duration of an option, in milliseconds."""
    found = duration_ms(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is not a duration such as 90m, 2d or PT1H30M")
    return found
