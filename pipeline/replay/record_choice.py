"""Chooses which records of the source are sent: by time and by key."""

import re
from fnmatch import translate

from msgspec import Struct

from tailrace.protocol.batches.records import NO_TIMESTAMP, Record


class RecordChoice(Struct, frozen=True):
    """Which records are sent: those that meet all conditions."""

    from_ms: int | None = None
    """The time from which on records are sent."""
    until_ms: int | None = None
    """The time before which records are sent."""
    keys: tuple[str, ...] = ()
    """Patterns of shells. The key must match at least one of them."""
    key_regexes: tuple[str, ...] = ()
    """Regular expressions, which count like patterns. Each may match anywhere in the key."""


class RecordChooser:
    """Applies a choice."""

    def __init__(self, choice: RecordChoice) -> None:
        """Raises ValueError if a regular expression is wrong."""
        self._choice = choice
        self._patterns = [re.compile(translate(each)).match for each in choice.keys]
        try:
            self._patterns += [re.compile(each).search for each in choice.key_regexes]
        except re.error as error:
            raise ValueError(f"{error.pattern!r} is no regular expression: {error}") from None

    @property
    def takes_all(self) -> bool:
        return self._choice == RecordChoice()

    def takes(self, record: Record) -> bool:
        """Whether a record is sent. A record without a time is in no window, and one without a key has no match."""
        choice = self._choice
        if choice.from_ms is not None or choice.until_ms is not None:
            if record.timestamp == NO_TIMESTAMP:
                return False
            if choice.from_ms is not None and record.timestamp < choice.from_ms:
                return False
            if choice.until_ms is not None and record.timestamp >= choice.until_ms:
                return False
        if not self._patterns:
            return True
        if record.key is None:
            return False
        key = record.key.decode(errors="surrogateescape")
        return any(each(key) for each in self._patterns)
