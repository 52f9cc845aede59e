"""Events that were handled and wait for the function to acknowledge them (explicit acknowledgement).

Acknowledgements come in any order. The replica may hear of one before it has taken the outcome that opens the event.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from msgspec import Struct

from .pieces import NEVER, UNLIMITED


class OpenEvent(Struct, frozen=True):
    """One event that is not acknowledged yet."""

    offset: int
    since: float
    """When its handler returned."""
    attempts: int
    """How often it was handled."""


class OpenEvents:
    """The open events of one shard, oldest first."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._events: dict[int, OpenEvent] = {}
        self._offsets: list[int] = []
        """A heap of the offsets of all events. It may have offsets of events that were settled since."""
        self._early: dict[int, bool] = {}
        """Events in the hands of a worker that are settled already, and whether they are acknowledged."""

    def __len__(self) -> int:
        return len(self._events)

    @property
    def lowest(self) -> int:
        while self._offsets and self._offsets[0] not in self._events:
            heappop(self._offsets)
        return self._offsets[0] if self._offsets else UNLIMITED

    @property
    def next_time(self) -> float:
        """When the next event has waited too long."""
        return next((event.since + self._timeout for event in self._events.values()), NEVER)

    def open(self, events: Iterable[tuple[int, int]], now: float) -> Sequence[OpenEvent]:
        """Adds events of a chunk that are not acknowledged: their offsets, and how often each was handled. Returns the
        events that were lost in the meantime."""
        lost = []
        for offset, attempts in events:
            event = OpenEvent(offset, now, attempts)
            is_acknowledged = self._early.pop(offset, None)
            if is_acknowledged is None:
                self._events[offset] = event
                heappush(self._offsets, offset)
            elif not is_acknowledged:
                lost.append(event)
        return lost

    def settle(self, offset: int) -> OpenEvent | None:
        """Removes and returns an event that was acknowledged, or lost with its worker; None if it is not open."""
        return self._events.pop(offset, None)

    def settle_early(self, offset: int, is_acknowledged: bool) -> None:
        """Notes that an event in the hands of a worker will be settled as soon as it is open."""
        self._early[offset] = is_acknowledged

    def forget_early(self, lowest: int) -> None:
        """Forgets which events before an offset are settled already."""
        if self._early:
            self._early = {offset: known for offset, known in self._early.items() if offset >= lowest}

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
        self._offsets = sorted(self._events)
        self._early = {offset: known for offset, known in self._early.items() if offset < end}

    def ages(self, now: float) -> Sequence[tuple[int, float]]:
        """Returns offset and age of each event, oldest first."""
        return [(event.offset, now - event.since) for event in self._events.values()]
