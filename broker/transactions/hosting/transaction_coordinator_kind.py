"""What the hosting of coordinators must know of transactions. Their modules are imported when they are needed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.coordination.coordination_names import CoordinationNames
from tailrace.broker.transactions.common.transaction_counts import TransactionCounts
from tailrace.broker.transactions.common.transaction_settings import TransactionSettings
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.coordinators import TRANSACTIONS_TOPIC
from tailrace.runtime.logs import FilteringBoundLogger

if TYPE_CHECKING:
    from tailrace.broker.coordination.coordinator_kind import CoordinatorHost, RecordFormat
    from tailrace.broker.transactions.common.marker_work import MarkerWork
    from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator

    from .marker_sender import MarkerSender

COMMIT_SECONDS_MAX = 30.0
"""How long a response may wait for the commit of its records: as long as clients wait for a response."""


class TransactionCoordinatorKind:
    names = CoordinationNames(TRANSACTIONS_TOPIC, "transactional id", "transactions")

    def __init__(
        self,
        settings: Callable[[], TransactionSettings],
        cluster: Cluster,
        counts: TransactionCounts,
        new_marker_sender: Callable[[], "MarkerSender"],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._counts = counts
        self._new_marker_sender = new_marker_sender
        self._markers: MarkerSender | None = None
        """The sender of all coordinators; None before the first marker is due."""

    @property
    def waiting_markers(self) -> int:
        """The number of markers that wait for a leader."""
        return 0 if self._markers is None else self._markers.waiting

    def record_format(self) -> "RecordFormat":
        from tailrace.broker.coordination.coordinator_kind import RecordFormat
        from tailrace.broker.transactions.common.transaction_records import (
            barrier_record,
            decode_record,
            encode_record,
        )

        return RecordFormat(encode_record, decode_record, barrier_record())

    def new_coordinator(self, partition: "CoordinatorHost[TransactionCoordinator]") -> "TransactionCoordinator":
        from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator

        return TransactionCoordinator(
            self._settings,
            self._cluster,
            self._counts,
            partition.epoch,
            lambda work: self._send(partition, work),
        )

    def _send(self, partition: "CoordinatorHost[TransactionCoordinator]", work: "MarkerWork") -> None:
        if self._markers is None:
            self._markers = self._new_marker_sender()
        self._markers.send(partition, work)

    def commit_seconds_max(self) -> float:
        return COMMIT_SECONDS_MAX

    # logs and metrics

    def on_loaded(
        self, logger: FilteringBoundLogger, coordinator: "TransactionCoordinator", records: int, seconds: float
    ) -> None:
        if records:  # most of the many partitions have no transactions and are not worth a line
            logger.info("transactions_loaded", ids=len(coordinator.ids), records=records, seconds=round(seconds, 3))
        self._counts.loads += 1
        self._counts.load_seconds += seconds

    def on_unloaded(self, logger: FilteringBoundLogger, coordinator: "TransactionCoordinator") -> None:
        if self._markers is not None:
            self._markers.forget_ended()
        if coordinator.ids:
            logger.info("transactions_unloaded", ids=len(coordinator.ids))

    def on_not_loaded(self, logger: FilteringBoundLogger, **details: object) -> None:
        logger.error("transactions_not_loaded", **details)

    def on_restarted(self, logger: FilteringBoundLogger, error: Exception) -> None:
        logger.error("transactions_restarted", exc_info=error)

    def on_record_skipped(self, logger: FilteringBoundLogger, **details: object) -> None:
        logger.error("transaction_record_skipped", **details)
