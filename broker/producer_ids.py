"""The producer ids of this SPU: whole blocks come from the source of specs, single ids go to producers."""

from collections.abc import Awaitable, Callable

import trio

from tailrace.protocol.ids import ProducerId


class ProducerIds:
    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._left = range(0)
        self._allocating = trio.Lock()

    async def next(self) -> ProducerId:
        """An id that no producer had before. What is left of a block when the SPU stops is never used."""
        while not self._left:
            async with self._allocating:
                if not self._left:
                    self._left = await self._allocate()
        producer_id, self._left = self._left[0], self._left[1:]
        return ProducerId(producer_id)
