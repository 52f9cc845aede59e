"""Removes copies of shelves that no specs assign to this SPU any more, and records that are deleted for good.

This is the storing SPU's side. A copy that is not assigned any more stays as long as a deleted topic can be undeleted.
"""

import trio

from tailrace.broker.upkeep.parking import parked_retention_ms
from tailrace.broker.upkeep.resting import rest
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.storage.directory.layout import ShelfKey

from .shelf_copies import DamagedShelfError, ShelfCopies, delete_before_start


class ShelfRemoval:
    """Removes what this SPU does not have to store any more."""

    def __init__(self, copies: ShelfCopies, configs: BrokerConfigs, logger: FilteringBoundLogger) -> None:
        self._copies = copies
        self._configs = configs
        self._logger = logger
        self._unassigned_since: dict[ShelfKey, float] = {}
        """The Trio time since which each copy on the disk is not assigned to this SPU."""
        self._deleted_before: dict[ShelfKey, int] = {}
        """The offset before which the records of each copy were deleted."""

    async def run(self) -> None:
        """Removes in each retention interval, until it is cancelled."""
        while True:
            await rest(lambda: self._configs.settings.retention_check_interval_ms / 1000)
            await self.remove_unassigned()
            await self.delete_before_starts()

    async def remove_unassigned(self) -> None:
        """Removes copies that have not been assigned for so long that their topic cannot be undeleted."""
        duties, logs = self._copies.duties, self._copies.logs
        if not duties.are_all_known:
            return
        now = trio.current_time()
        seconds = parked_retention_ms(self._configs.settings.deleted_topic_retention_ms) / 1000
        self._copies.forget_unassigned()
        self._deleted_before = {key: start for key, start in self._deleted_before.items() if key in duties}
        try:
            found = logs.found()
        except OSError as error:  # the next round retries
            self._logger.error("shelves_not_listed", reason=str(error))
            return
        self._unassigned_since = {key: self._unassigned_since.get(key, now) for key in found if key not in duties}
        for key, since in list(self._unassigned_since.items()):
            if now < since + seconds or key in duties:
                continue
            try:
                await logs.remove(logs.directory(key), logs.replacement(key))
            except OSError as error:  # the next round retries
                self._copies.logger_of(key).error("shelf_not_removed", reason=str(error))
            else:
                self._copies.logger_of(key).info("shelf_removed")

    async def delete_before_starts(self) -> None:
        """Deletes records of all copies that are deleted for good."""
        for duty in list(self._copies.duties):
            if duty.start <= self._deleted_before.get(duty.key, duty.shelf.base):
                continue
            try:
                async with self._copies.open_to_read(duty) as log:
                    await delete_before_start(duty, log)
            except DamagedShelfError:
                continue
            except OSError as error:
                self._copies.logger_of(duty.key).error("shelf_records_not_deleted", reason=str(error))
            else:
                self._deleted_before[duty.key] = duty.start
