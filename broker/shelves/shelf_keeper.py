"""Everything with which this SPU stores shelves of other SPUs' partitions, wired together: the storing SPU's side."""

from collections.abc import Callable

import trio

from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.runtime.logs import FilteringBoundLogger

from .shelf_copies import ShelfCopies
from .shelf_filling import ShelfFilling
from .shelf_removal import ShelfRemoval
from .shelf_repair import ShelfRepair
from .shelf_scrubbing import ShelfScrubbing
from .shelf_serving import ShelfServing


class ShelfKeeper:
    """Fills, serves, repairs, scrubs and removes the copies of shelves on this SPU."""

    def __init__(
        self,
        copies: ShelfCopies,
        spu_requests: SpuRequests,
        check_room: Callable[[], None],
        configs: BrokerConfigs,
        metrics: BrokerMetrics,
        logger: FilteringBoundLogger,
    ) -> None:
        """`check_room` raises KafkaError if this SPU must not store more records."""
        self.copies = copies
        self.serving = ShelfServing(self.copies, metrics)
        self.filling = ShelfFilling(self.copies, spu_requests, check_room, metrics)
        self.repair = ShelfRepair(self.copies, self.filling)
        self.removal = ShelfRemoval(self.copies, configs, logger)
        self.scrubbing = ShelfScrubbing(self.copies, metrics)

    async def run(self) -> None:
        """Repairs and removes copies in the background, until it is cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.repair.run)
            nursery.start_soon(self.removal.run)
