"""Refuses producers when the logs of this SPU have reached their configured size.

Appended bytes are counted anyway, so the check of a produce request is one comparison with the count at which the room
that was measured last is used up. Room that retention and deletions make is found by the next measurement.

A refused producer gets KAFKA_STORAGE_ERROR. Clients then keep the batch, wait, and send it again until it is accepted
or times out. They do not give up the sequence of an idempotent producer because of it.
"""

from collections.abc import Callable
from math import inf

import trio

from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.logs import FilteringBoundLogger

MEASURED_EVERY_SECONDS = 1


class StorageLimit:
    """The size limit of this SPU's logs, and how much of it is used."""

    def __init__(
        self,
        replicas: ReplicaRegistry,
        metrics: BrokerMetrics,
        logger: FilteringBoundLogger,
        measure_shelves: Callable[[], int],
    ) -> None:
        """`measure_shelves` returns the bytes of all shelves on this SPU. It may raise OSError."""
        self._measure_shelves = measure_shelves
        self._replicas = replicas
        self._metrics = metrics
        self._logger = logger
        self.size_bytes: int | None = None
        """The limit; None if only the disk limits what is stored."""
        self.used_bytes = 0
        """The bytes of open logs and of shelves, as measured last. Parked storage does not count, so deleting a topic
        makes room."""
        self.shelved_bytes = 0
        """The part of `used_bytes` that shelves have."""
        self.is_full = False
        self.produced_bytes_max: float = inf
        """The count of produced bytes, since the start, at which the room must be checked again."""

    async def run(self) -> None:
        """Measures every second, until it is cancelled."""
        while True:
            await trio.sleep(MEASURED_EVERY_SECONDS)
            self.measure()

    def use_size(self, size_bytes: int | None) -> None:
        """Sets the limit. Measures if it has changed, or if this SPU is full and may have room again."""
        if size_bytes != self.size_bytes or self.is_full:
            self.size_bytes = size_bytes
            self.measure()

    def measure(self) -> None:
        """Measures what is used, and whether this SPU is full."""
        try:
            self.shelved_bytes = self._measure_shelves()
        except OSError as error:  # the last known size counts
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
        """Checks the room when the room that was measured last is used up. Raises KafkaError if this SPU is full.

        A full SPU is not measured again for each batch that arrives.
        """
        if not self.is_full:
            self.measure()
        if self.is_full:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the storage of this SPU is full: its logs hold {self.used_bytes} of {self.size_bytes} bytes",
            )
