"""The counters of transactions, which all coordinators of one SPU share."""

from msgspec import Struct


class TransactionCounts(Struct):
    """Counters since the SPU started. They never decrease, and outlive the coordinators."""

    committed: int = 0
    """How many transactions were committed: their markers are written."""
    aborted: int = 0
    """How many transactions were aborted: their markers are written."""
    timed_out: int = 0
    """How many transactions the coordinator aborted because their timeout had passed."""
    fenced: int = 0
    """How many transactions the coordinator aborted because another producer began with the transactional id."""
    expired_ids: int = 0
    """How many transactional ids were removed because they had been idle."""
    parked: int = 0
    """How many requests waited for the markers of the transaction before."""
    refused_as_concurrent: int = 0
    """How many requests were refused with CONCURRENT_TRANSACTIONS, because the markers took too long."""
    loads: int = 0
    """How often the transactions of a partition were loaded from its log."""
    load_seconds: float = 0.0
