"""What one run of `tailrace consume` was asked for: every way of reading takes it as a whole."""

import argparse
from collections.abc import Callable

from msgspec import Struct

from tailrace.client.log_facts import Partition
from tailrace.protocol.batches.records import Record

from .consume_options import READ_COMMITTED
from .consume_progress import Consuming
from .record_output import RecordOutput
from .topic_choice import TopicChoice


class ConsumeRequest(Struct, frozen=True):
    """What to read, and where to print it."""

    arguments: argparse.Namespace
    """The options, after `consume_options.check`."""
    choice: TopicChoice
    matches: Callable[[Record], bool] | None
    """Which records to print; None if all are."""
    output: RecordOutput
    now_ms: int
    """The time from which durations such as 90m go back."""

    def reader(self, starts: dict[Partition, int], ends: dict[Partition, int] | None) -> Consuming:
        """Makes the progress of a reader that begins and ends at these offsets; without `ends` it never stops."""
        return Consuming(
            starts,
            ends,
            self.arguments.count,
            self.arguments.uncommitted,
            self.matches,
            self.only_stable,
            self.arguments.transactions,
        )

    @property
    def only_stable(self) -> bool:
        """Whether to read only records that are in no transaction, or in one that was committed."""
        return bool(self.arguments.isolation == READ_COMMITTED)
