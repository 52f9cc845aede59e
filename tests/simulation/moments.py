"""Moments in the work of clients and SCs, at which a fault can wait to strike."""

import trio

GROW = "grow"
PARTITION_CHANGE = "partition change"
"""An SC has stored a leader or a live replica set."""
MOMENTS = ("join", "sync", "commit", "fetch", "leave")
"""The moments of a group's member."""
TRANSACTION_MOMENTS = ("init", "add", "send", "send offsets", "end", "ended", "markers")
"""The moments of a transactional producer; at the last one, a coordinator sends markers to another SPU."""


class Moments:
    def __init__(self) -> None:
        self._waiting: dict[str, trio.Event] = {}

    def reach(self, moment: str) -> None:
        assert moment in (*MOMENTS, *TRANSACTION_MOMENTS, GROW, PARTITION_CHANGE)
        event = self._waiting.pop(moment, None)
        if event is not None:
            event.set()

    async def wait(self, moment: str) -> None:
        await self._waiting.setdefault(moment, trio.Event()).wait()
