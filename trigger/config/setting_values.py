"""Reads single values of a trigger's configuration: durations, counts, sizes, names, choices. Pure.

A reader takes what a decorator, a flag or a file has given: a text, a number or a structure. It returns the typed
value, or raises `ValueRefusedError` with the end of a sentence that begins with the place and the value.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from tailrace.cluster.topic_names import check_topic_name
from tailrace.protocol.error_codes import KafkaError

Reader = Callable[[object], object]

_UNIT_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
"""The units of Go's durations, which Nuclio's files use, and days. The two signs for micro look alike."""
_DURATION_PART = r"([0-9]{1,15}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h|d)"
_DURATION = re.compile(rf"(?:{_DURATION_PART})+")
_PART = re.compile(_DURATION_PART)
_SIZES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}
_SIZE = re.compile(r"([0-9]{1,15})\s*([kmg]i?)?b?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):([0-9]{1,5})")
GROUP_CHARACTERS_MAX = 249
_SHOWN_CHARACTERS_MAX = 100


class ValueRefusedError(Exception):
    """A value is wrong; the message is the end of a sentence, such as `is not a duration such as 10s`."""


def shown(value: object) -> str:
    """Formats a value for an error, on one line and shortened."""
    text = value if isinstance(value, str) and value.isprintable() and value.strip() == value != "" else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"


def duration_text(seconds: float) -> str:
    """Formats a duration as the files and flags take it."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def parse_duration(text: str) -> float | None:
    """Reads a duration such as `10s`, `1h30m` or `300ms`, in seconds. Returns None if the text is none."""
    if text == "0":
        return 0.0
    if _DURATION.fullmatch(text) is None:
        return None
    return math.fsum(float(count) * _UNIT_SECONDS[unit] for count, unit in _PART.findall(text))


def seconds(minimum: float = 0.0, maximum: float = 30 * 86400.0) -> Reader:
    """Makes a reader of durations. A number without a unit is in seconds, which only Python code may give."""

    def read(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            found: float | None = float(value)
        else:
            found = parse_duration(value.strip()) if isinstance(value, str) else None
        if found is None or math.isnan(found):
            raise ValueRefusedError('is not a duration with a unit, such as "10s" or "500ms"')
        if not minimum <= found <= maximum:
            raise ValueRefusedError(f"is not a duration from {duration_text(minimum)} to {duration_text(maximum)}")
        return found

    return read


def whole(minimum: int, maximum: int) -> Reader:
    """Makes a reader of whole numbers."""

    def read(value: object) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()) is not None:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise ValueRefusedError(f"is not a whole number from {minimum} to {maximum}")
        return value

    return read


def size(minimum: int, maximum: int) -> Reader:
    """Makes a reader of sizes in bytes, such as 268435456 or 256Mi."""

    def read(value: object) -> int:
        if isinstance(value, str):
            found = _SIZE.fullmatch(value.strip())
            value = None if found is None else int(found[1]) * _SIZES[(found[2] or "").lower()]
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise ValueRefusedError(
                f"is not a size from {minimum // 1024**2}Mi to {maximum // 1024**3}Gi, such as 256Mi"
            )
        return value

    return read


def choice(kind: type[StrEnum]) -> Reader:
    """Makes a reader of one of a few words. Upper and lower case are the same."""

    def read(value: object) -> StrEnum:
        if isinstance(value, str):
            for each in kind:
                if each.value == value.strip().lower():
                    return each
        *others, last = [each.value for each in kind]
        raise ValueRefusedError(f"is not {', '.join(others)} or {last}")

    return read


def yes_or_no(value: object) -> bool:
    """Reads true or false."""
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise ValueRefusedError("is neither true nor false")
    return value


def topic_name(value: object) -> str:
    """Reads the name of a topic."""
    text = some_text(value)
    try:
        check_topic_name(text)
    except KafkaError as error:
        raise ValueRefusedError(f"cannot name a topic: {error.message.rpartition(': ')[2]}") from error
    return text


def group_name(value: object) -> str:
    """Reads the name of a consumer group."""
    text = some_text(value)
    if len(text) > GROUP_CHARACTERS_MAX or not text.isprintable():
        raise ValueRefusedError(
            f"cannot name a consumer group: it may have {GROUP_CHARACTERS_MAX} printable characters"
        )
    return text


def trigger_name(value: object) -> str:
    """Reads the name of a trigger, which also names its directory."""
    text = some_text(value)
    if _NAME.fullmatch(text) is None:
        raise ValueRefusedError(
            "cannot name a trigger: up to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )
    return text


def some_text(value: object) -> str:
    """Reads a text that is not empty."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueRefusedError("is not a text, or is empty")
    return value.strip()


def addresses(value: object) -> tuple[str, ...]:
    """Reads `HOST:PORT` addresses, separated by commas or in a list."""
    if isinstance(value, str):
        value = [each.strip() for each in value.split(",")]
    if not isinstance(value, Sequence) or not value:
        raise ValueRefusedError("is not a list of addresses HOST:PORT")
    for each in value:
        found = _HOST_PORT.fullmatch(each) if isinstance(each, str) else None
        if found is None or not 1 <= int(found[2]) <= 65535:
            raise ValueRefusedError("is not HOST:PORT, or several of these separated by commas")
    return tuple(value)


def backoff(value: object) -> tuple[float, float]:
    """Reads the first and the longest pause between attempts: a pair, or a text such as `100ms..30s`."""
    parts = value.split("..") if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or len(parts) not in (1, 2):
        raise ValueRefusedError('is not the first and the longest pause, such as "100ms..30s"')
    read = seconds(0, 86400)
    try:
        first, longest = (read(parts[0]), read(parts[-1]))
    except ValueRefusedError as error:
        raise ValueRefusedError(f'is not the first and the longest pause, such as "100ms..30s": one {error}') from error
    assert isinstance(first, float) and isinstance(longest, float)
    if longest < first:
        raise ValueRefusedError("is not the first and the longest pause: the second one is shorter")
    return first, longest


def variables(value: object) -> Mapping[str, str]:
    """Reads environment variables: a mapping, or a list of texts NAME=VALUE."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        pairs = [each.partition("=")[::2] if isinstance(each, str) and "=" in each else (each, None) for each in value]
    else:
        raise ValueRefusedError("is not a list of environment variables NAME=VALUE")
    for name, content in pairs:
        if not isinstance(name, str) or _VARIABLE.fullmatch(name) is None:
            raise ValueRefusedError(f"is not a list of environment variables NAME=VALUE: {shown(name)} is no name")
        if not isinstance(content, str) or "\0" in content:
            raise ValueRefusedError(f"is not a list of environment variables NAME=VALUE: {name} has no text as value")
    return {str(name): str(content) for name, content in pairs}
