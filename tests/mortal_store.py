"""A store in memory that kills its user during a write, as kill -9 does."""

from collections.abc import Sequence

import trio

from tailrace.controller.key_value.interface import Change, Entry
from tailrace.controller.key_value.memory import MemoryStore


class MortalStore(MemoryStore):
    """Kills its user at one write: before it, or after it but before it returns."""

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
