"""The last changes of a store within this process, which its watches share.

A watch is only a cursor. The history is bounded. A slow watch costs no memory: it falls behind when changes that it has
not read are dropped.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

import trio

from .interface import EntryPut, FellBehind, StoreUnavailable, WatchEvent

CHANGES_MAX = 10_000
CHANGES_IN_A_ROW = 50
"""How many changes a watch returns before it checks leases and lets other tasks run. Thousands may come in a row."""


class History:
    def __init__(self, revision: int, changes_max: int = CHANGES_MAX) -> None:
        """`revision` is the store's current revision; each change that is added has the next one."""
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

    def skip_to(self, revision: int) -> None:
        """Continues after a revision whose changes are unknown, so that watches before it fall behind."""
        self.revision = revision
        self._events.clear()
        self._wake()

    def after(self, revision: int) -> WatchEvent | None:
        """Returns the change that follows the revision, or None if there is none yet. Raises FellBehind."""
        self.check_open()
        missing = self.revision - revision
        if missing > len(self._events):
            raise FellBehind(f"of the {missing} changes after revision {revision} only {len(self._events)} are kept")
        return self._events[-missing] if missing > 0 else None

    async def wait(self) -> None:
        """Waits until there may be a new change."""
        await self._changed.wait()

    def check_open(self) -> None:
        """Raises StoreUnavailable if the store was closed."""
        if self._is_closed:
            raise StoreUnavailable("the key-value store has been closed")

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class HistoryWatch:
    """An iterator over the changes of a history.

    It is not a generator, so that a caller who stops waiting for an event can ask again.
    """

    def __init__(self, history: History, prefix: str, revision: int, expire: Callable[[], Awaitable[float]]) -> None:
        """`expire` deletes the keys whose leases have expired, and returns when the next lease may expire."""
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
