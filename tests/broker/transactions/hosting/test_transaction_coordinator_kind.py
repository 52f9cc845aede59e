"""Tests of what is logged and counted when transactions are loaded, and of their records."""

from types import SimpleNamespace
from typing import Any, cast

import structlog
from structlog.testing import capture_logs

from tailrace.broker.transactions.common.transaction_counts import TransactionCounts
from tailrace.broker.transactions.common.transaction_settings import TransactionSettings
from tailrace.broker.transactions.hosting.transaction_coordinator_kind import TransactionCoordinatorKind
from tailrace.cluster.cluster import Cluster


def test_only_partitions_with_records_are_worth_a_line() -> None:
    counts, forgotten = TransactionCounts(), []
    markers = cast(Any, SimpleNamespace(send=lambda *_: None, forget_ended=lambda: forgotten.append(1)))
    kind = TransactionCoordinatorKind(TransactionSettings, Cluster(), counts, lambda: markers)
    kind.new_coordinator(cast(Any, SimpleNamespace(epoch=3)))._table._send_markers(cast(Any, "work"))
    coordinator = cast(Any, SimpleNamespace(ids={"id": None}))
    empty = cast(Any, SimpleNamespace(ids={}))
    with capture_logs() as logged:
        logger = structlog.get_logger()
        kind.on_loaded(logger, empty, 0, 0.25)
        kind.on_loaded(logger, coordinator, 7, 0.5)
        kind.on_unloaded(logger, empty)
        kind.on_unloaded(logger, coordinator)
    assert logged == [
        {"event": "transactions_loaded", "log_level": "info", "ids": 1, "records": 7, "seconds": 0.5},
        {"event": "transactions_unloaded", "log_level": "info", "ids": 1},
    ]
    assert (counts.loads, counts.load_seconds) == (2, 0.75)
    assert len(forgotten) == 2


def test_the_barrier_has_no_effect() -> None:
    kind = TransactionCoordinatorKind(TransactionSettings, Cluster(), TransactionCounts(), cast(Any, None))
    records = kind.record_format()
    coordinator = kind.new_coordinator(cast(Any, SimpleNamespace(epoch=3)))
    coordinator.replay(records.decode(*records.encode(records.barrier)))
    assert not coordinator.ids
