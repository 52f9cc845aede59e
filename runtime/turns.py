"""Long work in short turns: in between, everybody else goes on, and the lease is renewed."""

from collections.abc import Callable

import trio


class Turns:
    __slots__ = ("_per_turn", "count")

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self.count = 0
        """Done since the last turn."""

    async def take(self, end_turn: Callable[[], None] | None = None) -> None:
        """Lets others go on if it was enough for one turn, after `end_turn`. What was looked at may be another then."""
        if self.count >= self._per_turn:
            self.count = 0
            if end_turn is not None:
                end_turn()
            await trio.lowlevel.checkpoint()
