"""Long work in short turns: in between, everybody else goes on, and the lease is renewed."""

import trio


class Turns:
    __slots__ = ("_per_turn", "count")

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self.count = 0
        """Done since the last turn."""

    async def take(self) -> None:
        """Lets others go on if it was enough for one turn. What was looked at may have changed then."""
        if self.count >= self._per_turn:
            self.count = 0
            await trio.lowlevel.checkpoint()
