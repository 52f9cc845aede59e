"""The key-value store in memory: for tests, and for clusters that may lose everything.

The store outlives its SCs. Several may share one store, and the lease of an SC that crashed expires.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import trio

from .history import CHANGES_MAX, History, HistoryWatch
from .interface import (
    NO_VERSION,
    Change,
    Delete,
    Entry,
    EntryDeleted,
    EntryPut,
    LeadershipLost,
    Listing,
    Put,
    WatchEvent,
    check_sizes,
)
from .process_leases import ProcessLeases


class MemoryStore:
    def __init__(self, history_changes_max: int = CHANGES_MAX) -> None:
        self._entries: dict[str, Entry] = {}
        self._history = History(0, history_changes_max)
        self._leases = ProcessLeases()

    async def get(self, key: str) -> Entry | None:
        await self._begin()
        return self._entries.get(key)

    async def list(self, prefix: str) -> Listing:
        await self._begin()
        found = sorted(key for key in self._entries if key.startswith(prefix))
        return Listing(tuple(self._entries[key] for key in found), self._history.revision)

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        check_sizes(changes)
        await self._begin()
        if guard is not None and self._version(guard.key) != guard.version:
            raise LeadershipLost(f"{guard.key} has changed hands")
        return [self._apply(change) for change in changes]

    def watch(self, prefix: str, after_revision: int) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        return nullcontext(HistoryWatch(self._history, prefix, after_revision, self._begin))

    async def take(self, key: str, value: bytes, ttl_seconds: float) -> Entry | None:
        await self._begin()
        version = self._apply(Put(key, value, NO_VERSION))
        if version is None:
            return None
        entry = Entry(key, value, version)
        self._leases.grant(entry, ttl_seconds, trio.current_time())
        return entry

    async def renew(self, entry: Entry) -> None:
        await self._begin()
        self._leases.renew(entry, trio.current_time())

    async def give_up(self, entry: Entry) -> None:
        await self._begin()
        self._apply(Delete(entry.key, entry.version))

    async def close(self) -> None:
        self._history.close()
        await trio.lowlevel.checkpoint()

    async def _begin(self) -> float:
        """Deletes keys whose leases have expired, and returns the time of the next expiry.

        A call awaits nothing after this, so that it takes effect at one moment.
        """
        await trio.lowlevel.checkpoint()
        self._history.check_open()
        for key, version in self._leases.expired(trio.current_time()):
            self._apply(Delete(key, version))
        return self._leases.next_expiry()

    def _apply(self, change: Change) -> int | None:
        if self._version(change.key) != change.version or change == Delete(change.key, NO_VERSION):
            return None
        revision = self._history.revision + 1
        event: WatchEvent
        match change:
            case Put(key, value):
                event = EntryPut(Entry(key, bytes(value), revision))
                self._entries[key] = event.entry
            case Delete(key):
                event = EntryDeleted(key, revision)
                del self._entries[key]
        self._leases.forget(change.key)
        self._history.add([event])
        return revision

    def _version(self, key: str) -> int:
        entry = self._entries.get(key)
        return NO_VERSION if entry is None else entry.version
