"""Replaces the network: calls a waiting connection when a test says that it can be read."""

from collections.abc import Callable

import pytest
import trio
from simulation.network import MemoryConnection


class Caller:
    on_readable: Callable[[], bool]
    turn_ended: Callable[[], None]

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def takes(self, connection: MemoryConnection) -> None:
        self._monkeypatch.setattr(connection, "call_when_readable", self._call_when_readable)

    async def _call_when_readable(self, on_readable: Callable[[], bool], turn_ended: Callable[[], None]) -> None:
        self.on_readable, self.turn_ended = on_readable, turn_ended
        await trio.sleep_forever()
