"""The last changes of a store of this process, for its watches: shared, bounded, one cursor for each watch.

A watch holds nothing of its own, so a slow one costs no memory: it falls behind when what it has not read is dropped.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

import trio

from .interface import EntryPut, FellBehind, StoreUnavailable, WatchEvent

CHANGES_MAX = 10_000
CHANGES_IN_A_ROW = 50
"""Handed out without a look at leases, and without a turn for others: thousands may follow each other."""


class History:
    def __init__(self, revision: int, changes_max: int = CHANGES_MAX) -> None:
        """`revision` is the store's now; from here on each change has the next one."""
        self.revision = revision
        self._events: deque[WatchEvent] = deque(maxlen=changes_max)
        self._changed = trio.Event()
        self._is_closed = False

    def add(self, events: Iterable[WatchEvent]) -> None:
        for event in events:
            self.revision += 1
            assert _revision_of(event) == self.revision, "each change has the next revision"
            self._events.append(event)
        self._wake()

    def after(self, revision: int) -> WatchEvent | None:
        """The change that follows the revision; None: there is none yet."""
        self.check_open()
        missing = self.revision - revision
        if missing > len(self._events):
            raise FellBehind(f"of the {missing} changes after revision {revision} only {len(self._events)} are kept")
        return self._events[-missing] if missing > 0 else None

    async def wait(self) -> None:
        """Until there is something new to look at."""
        await self._changed.wait()

    def check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the key-value store has been closed")

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class HistoryWatch:
    """An iterator rather than a generator: whoever gives up waiting for an event may ask again."""

    def __init__(self, history: History, prefix: str, revision: int, expire: Callable[[], Awaitable[float]]) -> None:
        """`expire` drops what has run out of its lease, and says when the next one may."""
        self._history = history
        self._prefix = prefix
        self._revision = revision
        self._expire = expire
        self._in_a_row = 0

    def __aiter__(self) -> "HistoryWatch":
        return self

    async def __anext__(self) -> WatchEvent:
        while True:
            if 0 < self._in_a_row < CHANGES_IN_A_ROW and (event := self._next()) is not None:
                self._in_a_row += 1
                return event
            next_expiry = await self._expire()
            if (event := self._next()) is not None:
                self._in_a_row = 1
                return event
            with trio.move_on_at(next_expiry):
                await self._history.wait()

    def _next(self) -> WatchEvent | None:
        while (event := self._history.after(self._revision)) is not None:
            self._revision += 1
            if _key_of(event).startswith(self._prefix):
                return event
        return None


def _key_of(event: WatchEvent) -> str:
    return event.entry.key if isinstance(event, EntryPut) else event.key


def _revision_of(event: WatchEvent) -> int:
    return event.entry.version if isinstance(event, EntryPut) else event.version
