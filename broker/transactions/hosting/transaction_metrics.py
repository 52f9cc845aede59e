"""The Prometheus metrics of transactions: counters, and gauges that are read at each scrape."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from tailrace.broker.transactions.common.transaction_counts import TransactionCounts
from tailrace.broker.transactions.common.transaction_status import State

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator

_COUNTERS = (
    ("committed", "transactions_committed", "Transactions that were committed: their markers are written."),
    ("aborted", "transactions_aborted", "Transactions that were aborted: their markers are written."),
    ("timed_out", "transactions_timed_out", "Transactions that were aborted because their timeout had passed."),
    ("fenced", "transactions_fenced", "Transactions that were aborted because a newer producer began."),
    ("expired_ids", "transactional_ids_expired", "Transactional ids that were forgotten because they were idle."),
    ("parked", "transaction_requests_parked", "Requests that waited for the markers of the transaction before."),
    (
        "refused_as_concurrent",
        "transaction_requests_refused",
        "Requests that were refused with CONCURRENT_TRANSACTIONS, because the markers took too long.",
    ),
    ("loads", "transaction_loads", "Times that the transactions of a partition of __transaction_state were loaded."),
    ("load_seconds", "transaction_load_seconds", "Seconds spent in loading transactions from logs."),
)


class TransactionGauges(Struct):
    """Gauges of the transactions that an SPU coordinates."""

    ids: int = 0
    """The number of transactional ids."""
    open: int = 0
    """The number of open transactions."""
    ending: int = 0
    """The number of transactions whose end is decided, and whose markers are being written."""
    oldest_seconds: float = 0.0
    """The age of the oldest open transaction."""
    waiting_markers: int = 0
    """The number of markers that wait to be sent, most of them because a partition has no leader."""


def gauge_transactions(
    coordinators: "Iterable[TransactionCoordinator]", waiting_markers: int, now_ms: int
) -> TransactionGauges:
    gauges, oldest_ms = TransactionGauges(waiting_markers=waiting_markers), now_ms
    for coordinator in coordinators:
        gauges.ids += len(coordinator.ids)
        for entry in coordinator.ids.values():
            transaction = entry.transaction
            if transaction.state is State.ONGOING:
                gauges.open += 1
                oldest_ms = min(oldest_ms, transaction.started_ms)
            elif transaction.state.is_ending:
                gauges.ending += 1
    gauges.oldest_seconds = (now_ms - oldest_ms) / 1000
    return gauges


def transaction_families(counts: TransactionCounts, gauges: TransactionGauges) -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for attribute, name, text in _COUNTERS:
        yield CounterMetricFamily(f"tailrace_{name}", text, value=getattr(counts, attribute))
    yield GaugeMetricFamily(
        "tailrace_transactional_ids", "Transactional ids that this SPU coordinates.", value=gauges.ids
    )
    yield GaugeMetricFamily(
        "tailrace_open_transactions", "Open transactions that this SPU coordinates.", value=gauges.open
    )
    yield GaugeMetricFamily(
        "tailrace_ending_transactions",
        "Transactions whose end is decided, and whose markers are being written.",
        value=gauges.ending,
    )
    yield GaugeMetricFamily(
        "tailrace_oldest_transaction_seconds",
        "Age of the oldest open transaction that this SPU coordinates.",
        value=gauges.oldest_seconds,
    )
    yield GaugeMetricFamily(
        "tailrace_waiting_transaction_markers",
        "Markers that wait to be sent, most of them because a partition has no leader.",
        value=gauges.waiting_markers,
    )
