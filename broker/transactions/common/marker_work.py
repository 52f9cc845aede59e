"""The markers that a coordinator wants written, and what it does when a partition refuses one."""

from enum import Enum, auto
from typing import NamedTuple

from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode


class MarkerWork(NamedTuple):
    """The markers that end one transaction, one for each partition."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int
    """2 if the epoch of the markers is greater than that of the transaction's batches, otherwise 0."""
    partitions: frozenset[TopicPartition]


class MarkerStep(Enum):
    """What to do about a marker that a partition refused."""

    RETRY = auto()
    """Send the marker again after a pause, to the leader of the partition at that time."""
    WRITTEN = auto()
    """Report the marker as written: the partition has nothing left that the marker could end."""
    STOP = auto()
    """Send no more markers: a newer coordinator has taken over."""


def step_after(error: ErrorCode) -> MarkerStep:
    """Returns what to do about a marker that a partition's leader refused.

    The leader that knows a newer epoch of the producer has no transaction of the older epoch to end. This is so only if
    the log of the coordinator has lost records in an unclean election. An internal topic without transactions has none
    to end either.
    """
    match error:
        case ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            return MarkerStep.STOP
        case ErrorCode.INVALID_PRODUCER_EPOCH | ErrorCode.INVALID_TOPIC_EXCEPTION:
            return MarkerStep.WRITTEN
        case _:
            return MarkerStep.RETRY
