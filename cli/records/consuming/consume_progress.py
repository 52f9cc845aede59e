"""The progress of a reader in each partition, and when it has read all that it wants."""

from collections.abc import Callable

from msgspec import Struct

from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.client.log_client import Fetched
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.transaction_states import ABORTED
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import KafkaError

_NO_END = 2**63


class Consuming(Struct):
    """The progress of a reader."""

    positions: dict[Partition, int]
    """The next offset to read in each partition. Everything before it was shown, or is not wanted."""
    ends: dict[Partition, int] | None
    """The offset at which to stop in each partition; None if the reader never stops."""
    count: int | None = None
    """How many more records are wanted; None if all are."""
    uncommitted: bool = False
    """Whether the reader also wants records that are not committed."""
    matches: Callable[[Record], bool] | None = None
    """Which records to show; None if all are."""
    only_stable: bool = False
    """Whether the reader wants only records of transactions that were committed, and those that are in none."""
    shows_transactions: bool = False
    """Whether each record is shown with the end of its transaction."""

    @property
    def wanted(self) -> dict[Partition, int]:
        """The next offset of each partition that is not read completely; empty if the reader is done."""
        if self.count == 0:
            return {}
        ends = self.ends
        return {each: at for each, at in self.positions.items() if ends is None or at < ends[each]}

    def take(self, partition: Partition, fetched: Fetched) -> list[Consumed]:
        """Takes what was fetched, and returns the records to show.

        Raises KafkaError if the first batch cannot be read. If a later batch cannot be read, it will be the first one
        of the next fetch.
        """
        end = None if self.ends is None else self.ends[partition]
        first = position = self.positions[partition]
        limit = _NO_END if end is None else end
        found: list[Consumed] = []
        transactions = fetched.transactions
        try:
            for header, marker, records in fetched.batches:
                state = None if transactions is None else transactions.state_of(header, marker)
                for each in () if state == ABORTED and self.only_stable else records:
                    if first <= each.offset < limit and (self.matches is None or self.matches(each)):
                        if len(found) == self.count:
                            return self._took(partition, found[-1].record.offset + 1 if found else first, found)
                        is_committed = each.offset < fetched.high_watermark
                        found.append(Consumed(partition, each, is_committed, state, self.shows_transactions))
                position = max(position, min(header.next_offset, limit))
        except KafkaError:
            if position == first:
                raise
        readable = fetched.last_stable if self.only_stable else fetched.high_watermark
        if end is not None and not fetched.records and (self.uncommitted or readable >= end):
            position = end  # compaction has removed the records, or an uncommitted end was truncated
        return self._took(partition, position, found)

    def _took(self, partition: Partition, position: int, found: list[Consumed]) -> list[Consumed]:
        self.positions[partition] = position
        if self.count is not None:
            self.count -= len(found)
        return found

    def move_into(self, partition: Partition, log: LogEnds) -> str | None:
        """Moves the next offset into the log; returns a sentence about that if it was outside."""
        position = self.positions[partition]
        self.positions[partition] = min(max(position, log.start), log.end)
        if self.ends is not None:
            self.ends[partition] = min(self.ends[partition], log.end)
        if position < log.start:
            return f"{partition} begins at offset {log.start}"
        if position > log.end:
            return f"{partition} ends at offset {log.end}"
        return None
