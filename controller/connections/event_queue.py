"""What the controllers should know of connections, in order, until they take it."""

from collections import deque
from collections.abc import Awaitable, Callable

import trio

from tailrace.controller.state.events import Event

EVENTS_WAITING_MAX = 1000


class EventQueue:
    def __init__(self, take: Callable[[Event], Awaitable[None]]) -> None:
        """`take` may wait."""
        self._take = take
        self._waiting: deque[Event] = deque()
        self._changed = trio.Event()

    def add(self, event: Event) -> None:
        """Whether there is room or not: that an SPU is lost must be said in any case."""
        self._waiting.append(event)
        self._wake()

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < EVENTS_WAITING_MAX

    async def room(self) -> None:
        """For what an SPU says: it waits, and with it that SPU."""
        while not self.has_room:
            await self._changed.wait()

    async def hand_over(self) -> None:
        """Until cancelled."""
        while True:
            while self._waiting:
                await self._take(self._waiting.popleft())
                self._wake()
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
