"""Logs elections: a few one by one, and many at the same time as one line with their number.

All partitions are elected when the SPUs of a cluster start, and many when an SPU is lost.
"""

from collections import Counter
from typing import NamedTuple

import trio

from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.logs import FilteringBoundLogger

GATHER_SECONDS = 1.0
"""How long elections are gathered after the first one, before they are logged."""
LOGGED_ONE_BY_ONE_MAX = 5


class Elected(NamedTuple):
    """An election of a leader."""

    topic: str
    partition: int
    before: SpuId
    """The leader before the election."""
    leader: SpuId
    epoch: Epoch


class ElectionLog:
    """The elections that are not logged yet. Only a few are kept; the others are counted."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._first: list[Elected] = []
        self._leaders: Counter[SpuId] = Counter()
        self._wake = trio.Event()

    def note(self, elected: Elected) -> None:
        """Takes note of an election."""
        if len(self._first) < LOGGED_ONE_BY_ONE_MAX:
            self._first.append(elected)
        self._leaders[elected.leader] += 1
        self._wake.set()

    async def run(self) -> None:
        """Logs until it is cancelled, and then the rest."""
        while True:
            await self._wake.wait()
            try:
                await trio.sleep(GATHER_SECONDS)
            finally:
                self.flush()

    def flush(self) -> None:
        """Logs what was noted since the last call."""
        elections = self._leaders.total()
        if elections > LOGGED_ONE_BY_ONE_MAX:
            leaders = {str(spu): count for spu, count in sorted(self._leaders.items())}
            self._logger.info("leaders_elected", partitions=elections, leaders=leaders)
        else:
            for each in self._first:
                self._logger.info("leader_elected", **each._asdict())
        self._first.clear()
        self._leaders.clear()
        self._wake = trio.Event()
