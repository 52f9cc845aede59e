"""The key-value store as one SC reaches it: responses come late or not at all, and end when the SC ends."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from random import Random

import trio

from tailrace.controller.key_value.interface import (
    Change,
    Entry,
    KeyValueStore,
    Listing,
    StoreUnavailable,
    WatchEvent,
)


class StoreAccess:
    def __init__(
        self,
        store: KeyValueStore,
        chance: Random,
        on_stored: Callable[[Sequence[Change]], None],
        delay_seconds: float,
    ) -> None:
        """Prepares the access; `on_stored` is told at once what was stored, and the delay is the longest in each
        direction."""
        self._store = store
        self._on_stored = on_stored
        self._chance = chance
        self._delay_seconds = delay_seconds
        self.is_dead = False
        self.is_cut_off = False
        self.on_write: Callable[[], None] = lambda: None
        """Called before something is written, and before the SC learns that it was."""

    async def get(self, key: str) -> Entry | None:
        await self._there()
        return await self._back(await self._store.get(key))

    async def list(self, prefix: str) -> Listing:
        await self._there()
        return await self._back(await self._store.list(prefix))

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        await self._there()
        self.on_write()
        self._check()
        versions = await self._store.write(changes, guard)
        done = [change for change, version in zip(changes, versions, strict=True) if version is not None]
        self._on_stored(done)
        self.on_write()
        return await self._back(versions)

    @asynccontextmanager
    async def watch(self, prefix: str, after_revision: int) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        async with self._store.watch(prefix, after_revision) as events, aclosing(self._late(events)) as late:
            yield late

    async def take(self, key: str, value: bytes, ttl_seconds: float) -> Entry | None:
        await self._there()
        return await self._back(await self._store.take(key, value, ttl_seconds))

    async def renew(self, entry: Entry) -> None:
        await self._there()
        await self._store.renew(entry)
        await self._back(None)

    async def give_up(self, entry: Entry) -> None:
        await self._there()
        await self._store.give_up(entry)
        await self._back(None)

    async def close(self) -> None:
        """Does nothing, because the store exists longer than an SC."""

    async def _late(self, events: AsyncIterator[WatchEvent]) -> AsyncGenerator[WatchEvent, None]:
        async for event in events:
            await self._delay()
            while self.is_cut_off:  # noqa: ASYNC110 # what comes late comes a little later
                await trio.sleep(0.1)
            yield event

    async def _there(self) -> None:
        await self._delay()
        self._check()

    async def _back(self, answer):  # type: ignore[no-untyped-def]
        """Delays a response, without which the request may still have taken effect."""
        await self._delay()
        self._check()
        return answer

    async def _delay(self) -> None:
        await trio.sleep(self._chance.random() * self._delay_seconds)

    def _check(self) -> None:
        if self.is_dead or self.is_cut_off:
            raise StoreUnavailable("the simulated store does not respond")
