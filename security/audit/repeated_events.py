"""Decides which of many equal events are written, so that a client that retries does not fill the audit log.

The first event is written at once. Equal ones within the interval are only counted, and written as one event when the
interval is over. The number of different events that are remembered is bounded.
"""

from collections.abc import Hashable

from msgspec import Struct
from msgspec.structs import replace

from .audit_event import AuditEvent


class _Remembered(Struct):
    event: AuditEvent
    since_ms: int
    suppressed: int = 0


class RepeatedEvents:
    """Collects equal events."""

    def __init__(self, interval_ms: int, remembered_max: int) -> None:
        self._interval_ms = interval_ms
        self._remembered_max = remembered_max
        self._remembered: dict[Hashable, _Remembered] = {}
        """By key, the oldest first."""

    def add(self, key: Hashable, event: AuditEvent) -> list[AuditEvent]:
        """Adds an event, and returns those to write. Events with the same key are equal except for their times."""
        known = self._remembered.get(key)
        if known is not None and event.time_ms < known.since_ms + self._interval_ms:
            known.suppressed += event.count
            known.event = event
            return []
        written = [] if known is None else self._forget(key)
        if len(self._remembered) >= self._remembered_max:
            written += self._forget(next(iter(self._remembered)))
        self._remembered[key] = _Remembered(event, event.time_ms)
        return [*written, event]

    def due(self, now_ms: int) -> list[AuditEvent]:
        """Returns the counted events whose interval is over, each with its count, and forgets them."""
        written: list[AuditEvent] = []
        for key, known in list(self._remembered.items()):
            if now_ms < known.since_ms + self._interval_ms:
                break
            written += self._forget(key)
        return written

    def rest(self) -> list[AuditEvent]:
        """Returns all counted events, and forgets them."""
        return [event for key in list(self._remembered) for event in self._forget(key)]

    def _forget(self, key: Hashable) -> list[AuditEvent]:
        known = self._remembered.pop(key)
        return [replace(known.event, count=known.suppressed)] if known.suppressed else []
