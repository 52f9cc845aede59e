"""The size that this SPU keeps to: how much its logs hold, and whether producers are refused because of that.

What is appended is counted anyway, so a producer's batch costs one comparison: with the count at which the room that
was measured last is used up. What makes room, such as retention and deletions, is found at the next measurement.

A refused producer is told KAFKA_STORAGE_ERROR: clients keep such a batch, wait, and send it again until it is taken or
their own timeout is over, and none of them gives up an idempotent producer's sequence for it.
"""

from collections.abc import Callable
from math import inf

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.protocol.error_codes import ErrorCode, KafkaError

MEASURED_EVERY_SECONDS = 1


class StorageLimit:
    def __init__(
        self,
        replicas: ReplicaRegistry,
        metrics: BrokerMetrics,
        logger: FilteringBoundLogger,
        measure_shelves: Callable[[], int],
    ) -> None:
        """`measure_shelves` may raise OSError."""
        self._measure_shelves = measure_shelves
        self._replicas = replicas
        self._metrics = metrics
        self._logger = logger
        self.size_bytes: int | None = None
        """How much may be stored; None: as much as the disk takes."""
        self.used_bytes = 0
        """As measured last, of the logs that are open, and of shelves. What is parked does not count: deleting a topic
        makes room."""
        self.shelved_bytes = 0
        """The part of it that shelves have."""
        self.is_full = False
        self.produced_bytes_max: float = inf
        """When so many bytes were produced since the start, it is time to ask whether there is room."""

    async def run(self) -> None:
        """Measures until cancelled."""
        while True:
            await trio.sleep(MEASURED_EVERY_SECONDS)
            self.measure()

    def use_size(self, size_bytes: int | None) -> None:
        """And something may have gone that took its part of it."""
        if size_bytes != self.size_bytes or self.is_full:
            self.size_bytes = size_bytes
            self.measure()

    def measure(self) -> None:
        try:
            self.shelved_bytes = self._measure_shelves()
        except OSError as error:  # as many as before, then
            self._logger.warning("shelves_not_measured", reason=str(error))
        self.used_bytes = sum(replica.log.size_bytes for replica in self._replicas) + self.shelved_bytes
        room_bytes = inf if self.size_bytes is None else self.size_bytes - self.used_bytes
        self.produced_bytes_max = self._metrics.produced_bytes + room_bytes
        was_full, self.is_full = self.is_full, room_bytes <= 0
        if self.is_full and not was_full:
            self._logger.warning("storage_limit_reached", used_bytes=self.used_bytes, size_bytes=self.size_bytes)
        elif was_full and not self.is_full:
            self._logger.info("storage_limit_left", used_bytes=self.used_bytes, size_bytes=self.size_bytes)

    def check_room(self) -> None:
        """For who finds that the room measured last is used up. Raises KafkaError, unless there is more by now.

        An SPU that is known to be full is not measured again for each batch that comes.
        """
        if not self.is_full:
            self.measure()
        if self.is_full:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the storage of this SPU is full: its logs hold {self.used_bytes} of {self.size_bytes} bytes",
            )
