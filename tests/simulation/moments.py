"""Moments in the work of clients and SCs, at which a fault can wait to strike."""

from typing import Any

import trio
from msgspec import Struct, field

GROW = "grow"
PARTITION_CHANGE = "partition change"
"""An SC has stored a leader or a live replica set."""
MOMENTS = ("join", "sync", "commit", "fetch", "leave")
"""The moments of a group's member."""
TRANSACTION_MOMENTS = ("init", "add", "send", "sent", "send offsets", "end", "ended", "markers")
"""The moments of a transactional producer; at the last one, a coordinator sends markers to another SPU."""


class _Wait(Struct):
    reached: trio.Event = field(default_factory=trio.Event)
    where: Any = None


class Moments:
    def __init__(self) -> None:
        self._waiting: dict[str, _Wait] = {}

    def reach(self, moment: str, where: Any = None) -> None:
        """Wakes what waits for the moment. `where` identifies what was reached, if that is of interest."""
        assert moment in (*MOMENTS, *TRANSACTION_MOMENTS, GROW, PARTITION_CHANGE)
        wait = self._waiting.pop(moment, None)
        if wait is not None:
            wait.where = where
            wait.reached.set()

    async def wait(self, moment: str) -> Any:
        """Waits for the moment, and returns what was reached."""
        wait = self._waiting.setdefault(moment, _Wait())
        await wait.reached.wait()
        return wait.where
