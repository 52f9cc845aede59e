"""A record that `tailrace consume` shows, and where it comes from."""

from typing import NamedTuple

from tailrace.client.log_facts import Partition
from tailrace.protocol.batches.records import Record


class Consumed(NamedTuple):
    """A record to show."""

    partition: Partition
    record: Record
    is_committed: bool
    """Whether the leader knew that the record was committed when it sent it."""
    transaction: str | None = None
    """How the transaction of the record ended, or that it is open; None if it is in none, or this was not asked for."""
    shows_transaction: bool = False
    """Whether to show how transactions ended."""
