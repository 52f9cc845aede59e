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
