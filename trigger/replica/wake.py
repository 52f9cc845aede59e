"""Wakes a task that waits for any of several changes."""

import trio


class Wake:
    """A signal without memory: it wakes the tasks that wait, and no later ones."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        """Wakes all tasks that wait."""
        self._event.set()
        self._event = trio.Event()

    async def wait(self) -> None:
        """Waits for the next signal."""
        await self._event.wait()
