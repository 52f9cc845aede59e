"""Fills damaged and incomplete copies of shelves on which others rely, and retries until they are complete.

This is the storing SPU's side.
"""

import trio

from tailrace.storage.directory.layout import ShelfKey

from .shelf_copies import ShelfCopies
from .shelf_filling import ShelfFilling

RETRY_SECONDS = 10.0
"""The pause before the next try: the other stores may be offline, or the partition may have no leader."""


class ShelfRepair:
    """Repairs this SPU's copies of shelves."""

    def __init__(self, copies: ShelfCopies, filling: ShelfFilling) -> None:
        self._copies = copies
        self._filling = filling

    async def run(self) -> None:
        """Repairs copies until it is cancelled."""
        copies = self._copies
        while True:
            await copies.repair_wanted.wait()
            copies.repair_wanted = trio.Event()
            for key in [*copies.damaged, *copies.incomplete]:
                await self.repair(key)
            if copies.damaged or copies.incomplete:
                await trio.sleep(RETRY_SECONDS)
                copies.repair_wanted.set()

    async def repair(self, key: ShelfKey) -> None:
        """Fills one copy as far as possible. The leader still has the records, or reads them from another store."""
        duty, end = self._copies.duties.find(key), -1
        while duty is not None and end < self._copies.confirmed_end(duty):
            response = await self._filling.fill(key, self._copies.confirmed_end(duty), duty.spec.leader)
            if response.error_code or response.end <= end:
                return
            duty, end = self._copies.duties.find(key), response.end
