"""A store in memory that is the last thing its user ever calls: kill -9 in a test."""

from collections.abc import Sequence

import trio

from tailrace.controller.key_value.interface import Change, Entry
from tailrace.controller.key_value.memory import MemoryStore


class MortalStore(MemoryStore):
    """Ends its user at one of the writes: before it, or when it is done but nobody was told."""

    def __init__(self) -> None:
        super().__init__()
        self.writes_left = -1
        self.does_the_last = False
        self.killed = trio.CancelScope()

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        if self.writes_left == 0:
            if self.does_the_last:
                await super().write(changes[: max(len(changes) // 2, 1)], guard)
            self.killed.cancel()
            await trio.sleep_forever()
        self.writes_left -= 1
        return await super().write(changes, guard)
