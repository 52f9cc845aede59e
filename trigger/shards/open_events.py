"""Events that were handled and wait for the function to acknowledge them (explicit acknowledgement).

Acknowledgements may come in any order, and may overtake the outcome that opens their event, because workers report at
different times.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from .pieces import NEVER, UNLIMITED


class OpenEvent(Struct, frozen=True):
    """One event that is not acknowledged yet."""

    offset: int
    since: float
    """When its handler had returned."""
    attempts: int
    """How often it was handled."""


class OpenEvents:
    """The open events of one shard, oldest first."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._events: dict[int, OpenEvent] = {}
        self._early: set[int] = set()

    def __len__(self) -> int:
        return len(self._events)

    @property
    def lowest(self) -> int:
        return min(self._events, default=UNLIMITED)

    @property
    def next_time(self) -> float:
        """When the next event has waited too long."""
        return next((event.since + self._timeout for event in self._events.values()), NEVER)

    def open(self, offsets: Iterable[int], now: float, first: int, attempts: int) -> None:
        """Adds the events of a chunk that are not acknowledged. `attempts` counts for the event at `first`."""
        for offset in offsets:
            if offset in self._early:
                self._early.remove(offset)
            else:
                self._events[offset] = OpenEvent(offset, now, attempts if offset == first else 1)

    def acknowledge(self, offset: int, lowest: int, end: int) -> bool:
        """Takes note that an event is acknowledged. Returns whether it was open. An event from `lowest` to `end` that
        is not open may be in the hands of a worker."""
        if self._events.pop(offset, None) is not None:
            return True
        if lowest <= offset < end:
            self._early.add(offset)
        return False

    def forget_early(self, lowest: int) -> None:
        """Forgets early acknowledgements of events that are handled by now."""
        if self._early:
            self._early = {offset for offset in self._early if offset >= lowest}

    def take_expired(self, now: float) -> Sequence[OpenEvent]:
        """Removes and returns the events that have waited too long."""
        expired = []
        for event in self._events.values():
            if event.since + self._timeout > now:
                break
            expired.append(event)
        for event in expired:
            del self._events[event.offset]
        return expired

    def truncate(self, end: int) -> None:
        """Forgets the events at or after `end`."""
        self._events = {offset: event for offset, event in self._events.items() if offset < end}
        self._early = {offset for offset in self._early if offset < end}

    def ages(self, now: float) -> Sequence[tuple[int, float]]:
        """Returns offset and age of each event, oldest first."""
        return [(event.offset, now - event.since) for event in self._events.values()]
