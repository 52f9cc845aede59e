"""Readers: whatever happens outside becomes an event here, in order, in the one channel that the SC works from.

The channel is bounded: when the SC is busy, readers wait, and with them the store's watch and the SPUs' links.
"""

from collections.abc import Mapping
from typing import NamedTuple

import trio
from msgspec import Struct, field
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from tailrace.controller.key_value.interface import (
    Entry,
    EntryPut,
    FellBehind,
    KeyValueStore,
    Listing,
    StoreUnavailable,
)
from tailrace.controller.objects.objects import Object
from tailrace.controller.state.events import Event, Removed, Stored
from tailrace.controller.state.object_codec import ObjectError, decode

EVENTS_WAITING_MAX = 1000
EVERYTHING = ""
RETRY_SECONDS_MIN = 0.1
RETRY_SECONDS_MAX = 5.0


class WrittenObject(NamedTuple):
    value: bytes
    object: Object


class ReaderCounts(Struct):
    """What a scrape shows of the reader."""

    read_events: int = 0
    store_listings: int = 0
    refused_objects: int = 0
    """Ever; those that lie in the store now are `KvReader.refused`."""
    failed_reads: int = 0


class Backoff(Struct):
    """How long to leave something alone that just failed: longer each time, until it works again."""

    seconds: float = RETRY_SECONDS_MIN

    async def wait(self) -> None:
        await trio.sleep(self.seconds)
        self.seconds = min(self.seconds * 2, RETRY_SECONDS_MAX)

    def reset(self) -> None:
        self.seconds = RETRY_SECONDS_MIN


class ConnectionReader(Struct, frozen=True):
    """Takes what the Connection Manager hears from SPUs."""

    events: trio.MemorySendChannel[Event]
    logger: FilteringBoundLogger

    async def read(self, event: Event) -> None:
        self.logger.debug("event_read", reader="connections", happened=type(event).__name__)
        await _send(self.events, event)


class KvReader(Struct):
    """Lists the store once, then follows its watch; lists again when the watch has missed something."""

    store: KeyValueStore
    events: trio.MemorySendChannel[Event]
    logger: FilteringBoundLogger
    ignored: frozenset[str] = frozenset()
    """Keys that hold no object, such as that of the lease by which one SC leads."""
    counts: ReaderCounts = field(default_factory=ReaderCounts)
    written: dict[str, WrittenObject] = field(default_factory=dict)
    """By key, what this SC is writing: where that comes back to the byte, it need not be decoded."""
    _versions: dict[str, int] = field(default_factory=dict)
    """Of each key that there is, as far as has been reported."""
    _refused: dict[str, int] = field(default_factory=dict)

    @property
    def refused(self) -> Mapping[str, int]:
        """Keys whose value now is no object that we can read, with the version of that value.

        They count as there, not as removed: whoever depends on such an object must not be taken for an orphan.
        """
        return self._refused

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled; started when everything that was in the store has been reported."""
        backoff = Backoff()
        started = False
        while True:
            try:
                listing = await self.store.list(EVERYTHING)
                self.counts.store_listings += 1
                await self._report_listing(listing)
                if not started:
                    task_status.started()
                    started = True
                backoff.reset()
                await self._follow(listing.revision)
            except FellBehind as reason:
                self.logger.warning("store_watch_fell_behind", reason=str(reason))
            except StoreUnavailable as reason:
                self.counts.failed_reads += 1
                self.logger.warning("store_unavailable", doing="reading", reason=str(reason))
                await backoff.wait()

    async def _follow(self, revision: int) -> None:
        async with self.store.watch(EVERYTHING, revision) as changes:
            async for change in changes:
                if isinstance(change, EntryPut):
                    await self._report_entry(change.entry)
                else:
                    await self._report_removal(change.key, change.version)

    async def _report_listing(self, listing: Listing) -> None:
        """What is gone first, so that nobody sees an old object beside the one that took its place."""
        present = {entry.key for entry in listing.entries}
        for key in [key for key in self._versions if key not in present]:
            await self._report_removal(key, listing.revision)
        for entry in listing.entries:
            if self._versions.get(entry.key) != entry.version:
                await self._report_entry(entry)

    async def _report_entry(self, entry: Entry) -> None:
        if entry.key in self.ignored:
            return
        self._versions[entry.key] = entry.version
        try:
            found = self._read(entry)
        except ObjectError as error:
            self.counts.refused_objects += 1
            self._refused[entry.key] = entry.version
            self.logger.error("stored_object_refused", key=entry.key, version=entry.version, reason=str(error))
            return
        self._refused.pop(entry.key, None)
        await self._report(Stored(found))

    def _read(self, entry: Entry) -> Object:
        """Raises ObjectError."""
        written = self.written.pop(entry.key, None)
        if written is not None and written.value == entry.value:
            return replace(written.object, version=entry.version)
        return decode(entry.key, entry.value, entry.version)

    async def _report_removal(self, key: str, version: int) -> None:
        if self._versions.pop(key, None) is None:
            return
        self._refused.pop(key, None)
        self.written.pop(key, None)
        await self._report(Removed(key, version))

    async def _report(self, event: Event) -> None:
        self.counts.read_events += 1
        self.logger.debug("event_read", reader="store", happened=type(event).__name__)
        await _send(self.events, event)


async def _send(events: trio.MemorySendChannel[Event], event: Event) -> None:
    """Waits only where there is no room: a reader has waited already, for the event itself."""
    try:
        events.send_nowait(event)
    except trio.WouldBlock:
        await events.send(event)
