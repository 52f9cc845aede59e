"""Moments in the work of clients, at which a fault can wait to strike."""

import trio

GROW = "grow"
MOMENTS = ("join", "sync", "commit", "fetch", "leave")
"""The moments of a group's member."""


class Moments:
    def __init__(self) -> None:
        self._waiting: dict[str, trio.Event] = {}

    def reach(self, moment: str) -> None:
        assert moment in (*MOMENTS, GROW)
        event = self._waiting.pop(moment, None)
        if event is not None:
            event.set()

    async def wait(self, moment: str) -> None:
        await self._waiting.setdefault(moment, trio.Event()).wait()
