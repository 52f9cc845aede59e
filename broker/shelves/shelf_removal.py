"""Lets go of shelves that specs name no more, and of their beginnings that have been deleted for good.

What its specs name no more stays for as long as a deleted topic can be brought back.
"""

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.broker.upkeep.housekeeping import KEPT_LONGER_MS_MAX
from tailrace.broker.upkeep.resting import rest
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.storage.directory.layout import ShelfKey

from .shelf_copies import DamagedShelfError, ShelfCopies, delete_before_start


class ShelfClearing:
    def __init__(self, copies: ShelfCopies, configs: BrokerConfigs, logger: FilteringBoundLogger) -> None:
        self._copies = copies
        self._configs = configs
        self._logger = logger
        self._unnamed_since: dict[ShelfKey, float] = {}
        self._deleted_before: dict[ShelfKey, int] = {}
        """Where the logs begin whose beginning was deleted."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await rest(lambda: self._configs.settings.retention_check_interval_ms / 1000)
            await self.remove_unnamed()
            await self.delete_before_starts()

    async def remove_unnamed(self) -> None:
        """What has been named by no specs for so long that nobody brings it back."""
        kept, logs = self._copies.kept, self._copies.logs
        if not kept.are_all_known:
            return
        now, retention_ms = trio.current_time(), self._configs.settings.deleted_topic_retention_ms
        seconds = (retention_ms + min(retention_ms, KEPT_LONGER_MS_MAX)) / 1000
        self._copies.forget_unnamed()
        self._deleted_before = {key: start for key, start in self._deleted_before.items() if key in kept}
        try:
            found = logs.found()
        except OSError as error:  # looked for again the next time
            self._logger.error("shelves_not_listed", reason=str(error))
            return
        self._unnamed_since = {key: self._unnamed_since.get(key, now) for key in found if key not in kept}
        for key, since in list(self._unnamed_since.items()):
            if now < since + seconds or key in kept:
                continue
            try:
                await logs.remove(logs.directory(key), logs.replacement(key))
            except OSError as error:  # tried again the next time
                self._copies.log(key).error("shelf_not_removed", reason=str(error))
            else:
                self._copies.log(key).info("shelf_removed")

    async def delete_before_starts(self) -> None:
        for kept in list(self._copies.kept):
            if kept.start <= self._deleted_before.get(kept.key, kept.shelf.base):
                continue
            try:
                async with self._copies.to_read(kept) as log:
                    await delete_before_start(kept, log)
            except DamagedShelfError:
                continue
            except OSError as error:
                self._copies.log(kept.key).error("shelf_not_shortened", reason=str(error))
            else:
                self._deleted_before[kept.key] = kept.start
