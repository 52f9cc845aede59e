"""Fills shelves that others count on, and that are damaged or lack something here, again and again."""

import trio

from tailrace.storage.directory.layout import ShelfKey

from .shelf_copies import ShelfCopies
from .shelf_filling import ShelfFilling

MENDED_AGAIN_SECONDS = 10.0
"""Other stores may be away, or nobody leads."""


class ShelfMending:
    def __init__(self, copies: ShelfCopies, filling: ShelfFilling) -> None:
        self._copies = copies
        self._filling = filling

    async def run(self) -> None:
        """Until cancelled."""
        copies = self._copies
        while True:
            await copies.is_to_mend.wait()
            copies.is_to_mend = trio.Event()
            for key in [*copies.damaged, *copies.lacking]:
                await self.mend(key)
            if copies.damaged or copies.lacking:
                await trio.sleep(MENDED_AGAIN_SECONDS)
                copies.is_to_mend.set()

    async def mend(self, key: ShelfKey) -> None:
        """As far as it can be had from the leader, who has it yet, or reads it from another store."""
        kept, end = self._copies.kept.find(key), -1
        while kept is not None and end < self._copies.counted_end(kept):
            response = await self._filling.fill(key, self._copies.counted_end(kept), kept.spec.leader)
            if response.error_code or response.end <= end:
                return
            kept, end = self._copies.kept.find(key), response.end
