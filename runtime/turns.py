"""Splits long work into short turns, so that other tasks run in between and the lease is renewed."""

from collections.abc import Callable

import trio


class Turns:
    """Counts work, and lets other tasks run when there was enough of it."""

    __slots__ = ("_per_turn", "count")

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self.count = 0
        """How much was done since the last turn."""

    async def take(self, end_turn: Callable[[], None] | None = None) -> None:
        """Calls `end_turn` and lets other tasks run, if enough was done for one turn.

        Shared state may change meanwhile.
        """
        if self.count >= self._per_turn:
            self.count = 0
            if end_turn is not None:
                end_turn()
            await trio.lowlevel.checkpoint()
