"""Checks a history of transactions against all rules.

The rules are those of Jepsen's workload for Kafka, and some that follow from what a server alone can promise: last
stable offsets, markers and committed offsets of groups. Each rule is a pure function that yields what breaks it.
"""

from collections.abc import Callable, Iterator

from . import log_rules, processing_rules, read_rules
from .transaction_history import Anomaly, TransactionHistory

RULES: tuple[Callable[[TransactionHistory], Iterator[Anomaly]], ...] = (
    log_rules.inconsistent_offsets,
    log_rules.duplicates,
    log_rules.lost_writes,
    log_rules.torn_transactions,
    log_rules.reordered_sends,
    log_rules.zombie_writes,
    log_rules.unsettled_logs,
    log_rules.disobeyed_markers,
    read_rules.aborted_reads,
    read_rules.failed_reads,
    read_rules.precommitted_reads,
    read_rules.vanished_reads,
    read_rules.unstable_reads,
    read_rules.wrong_stable_ends,
    read_rules.reordered_polls,
    read_rules.skipped_records,
    processing_rules.wrong_output_counts,
    processing_rules.unprocessed_inputs,
    processing_rules.wrong_group_offsets,
    processing_rules.torn_offsets,
    processing_rules.wrong_offset_reads,
)
SHOWN_MAX = 10


class TransactionError(AssertionError):
    """What a history of transactions has shown to be wrong."""


def anomalies(history: TransactionHistory) -> list[Anomaly]:
    return [anomaly for rule in RULES for anomaly in rule(history)]


def check(history: TransactionHistory) -> None:
    found = anomalies(history)
    if found:
        more = f"\n... and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
        raise TransactionError("\n".join(map(str, found[:SHOWN_MAX])) + more)
