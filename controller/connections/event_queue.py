"""A queue of events about connections, for the controllers."""

from collections import deque
from collections.abc import Awaitable, Callable

import trio

from tailrace.controller.state.events import Event

EVENTS_WAITING_MAX = 1000


class EventQueue:
    """Keeps events in order until the workflow takes them."""

    def __init__(self, take: Callable[[Event], Awaitable[None]]) -> None:
        """`take` hands one event over, and may wait."""
        self._take = take
        self._waiting: deque[Event] = deque()
        self._changed = trio.Event()

    def add(self, event: Event) -> None:
        """Adds an event, even if there is no room. The loss of an SPU must be reported in any case."""
        self._waiting.append(event)
        self._wake()

    @property
    def has_room(self) -> bool:
        """Whether fewer events wait than the limit."""
        return len(self._waiting) < EVENTS_WAITING_MAX

    async def wait_for_room(self) -> None:
        """Waits until there is room. Call this before handling a message of an SPU, which slows down that SPU."""
        while not self.has_room:
            await self._changed.wait()

    async def hand_over(self) -> None:
        """Hands events over until it is cancelled."""
        while True:
            while self._waiting:
                await self._take(self._waiting.popleft())
                self._wake()
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
