"""The shelves that this SPU keeps of partitions: wires who fills them, reads them, mends, scrubs and clears them."""

from collections.abc import Callable

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.configs.broker_configs import BrokerConfigs

from .shelf_copies import ShelfCopies
from .shelf_filling import ShelfFilling
from .shelf_removal import ShelfClearing
from .shelf_repair import ShelfMending
from .shelf_scrubbing import ShelfScrubbing
from .shelf_serving import KeptShelfReading


class Shelves:
    def __init__(
        self,
        copies: ShelfCopies,
        spu_requests: SpuRequests,
        check_room: Callable[[], None],
        configs: BrokerConfigs,
        metrics: BrokerMetrics,
        logger: FilteringBoundLogger,
    ) -> None:
        """`check_room` raises KafkaError where no more is to be stored here."""
        self.copies = copies
        self.reading = KeptShelfReading(self.copies, metrics)
        self.filling = ShelfFilling(self.copies, spu_requests, check_room, metrics)
        self.mending = ShelfMending(self.copies, self.filling)
        self.clearing = ShelfClearing(self.copies, configs, logger)
        self.scrubbing = ShelfScrubbing(self.copies, metrics)

    async def run(self) -> None:
        """What goes on by itself, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.mending.run)
            nursery.start_soon(self.clearing.run)
