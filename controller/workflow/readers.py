"""Readers turn changes of the KV store and reports of SPUs into events for the workflow.

The channel is bounded. When the SC is busy, readers wait, and with them the store's watch and the links to SPUs.
"""

from collections.abc import Mapping
from typing import NamedTuple

import trio
from msgspec import Struct, field
from msgspec.structs import replace

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
from tailrace.controller.state.object_names import ObjectNames
from tailrace.runtime.logs import FilteringBoundLogger, shows_debug

EVENTS_WAITING_MAX = 1000
EVERYTHING = ""
RETRY_SECONDS_MIN = 0.1
RETRY_SECONDS_MAX = 5.0


class WrittenObject(NamedTuple):
    """An object that this SC is writing, and its encoding."""

    value: bytes
    object: Object


class ReaderCounts(Struct):
    """The counts of the reader, for metrics."""

    read_events: int = 0
    store_listings: int = 0
    refused_objects: int = 0
    """The number of values that were ever refused; `KvReader.refused` has those that are in the store now."""
    failed_reads: int = 0


class Backoff(Struct):
    """The pause after a failure, which grows with each failure until something succeeds."""

    seconds: float = RETRY_SECONDS_MIN

    async def wait(self) -> None:
        await trio.sleep(self.seconds)
        self.seconds = min(self.seconds * 2, RETRY_SECONDS_MAX)

    def reset(self) -> None:
        self.seconds = RETRY_SECONDS_MIN


class ConnectionReader(Struct, frozen=True):
    """Passes events of the Connection Manager on to the workflow."""

    events: trio.MemorySendChannel[Event]
    logger: FilteringBoundLogger
    names: ObjectNames

    async def read(self, event: Event) -> None:
        _log_read(self.logger, "connections", event, self.names)
        await _send(self.events, event)


class KvReader(Struct):
    """Lists the store once, then follows its watch. Lists again if the watch has fallen behind."""

    store: KeyValueStore
    events: trio.MemorySendChannel[Event]
    logger: FilteringBoundLogger
    names: ObjectNames
    ignored: frozenset[str] = frozenset()
    """Keys that hold no objects, such as the key of the lease of the active SC."""
    counts: ReaderCounts = field(default_factory=ReaderCounts)
    written: dict[str, WrittenObject] = field(default_factory=dict)
    """The objects that this SC is writing, by key. If the same bytes come back, they need not be decoded."""
    _versions: dict[str, int] = field(default_factory=dict)
    """The last reported version of each key."""
    _refused: dict[str, int] = field(default_factory=dict)

    @property
    def refused(self) -> Mapping[str, int]:
        """The keys whose values cannot be read as objects now, each with the version of the value.

        Their objects do not count as removed, so that objects that depend on them are not taken for orphans.
        """
        return self._refused

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Reads until it is cancelled. It has started when everything in the store was reported."""
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
        """Reports removals first, so that no old object is seen next to its replacement."""
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
        """Returns the object in an entry. Raises ObjectError."""
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
        _log_read(self.logger, "store", event, self.names)
        await _send(self.events, event)


def _log_read(logger: FilteringBoundLogger, reader: str, event: Event, names: ObjectNames) -> None:
    if shows_debug():
        logger.debug("event_read", reader=reader, happened=type(event).__name__, objects=names.of_event(event))


async def _send(events: trio.MemorySendChannel[Event], event: Event) -> None:
    """Sends an event without a checkpoint if there is room. Readers have already waited for the event itself."""
    try:
        events.send_nowait(event)
    except trio.WouldBlock:
        await events.send(event)
