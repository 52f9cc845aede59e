"""How far a reader has come in each partition of a topic, and when it has all that it wants."""

from typing import NamedTuple

from msgspec import Struct

from tailrace.cli.clients.fetched_records import fetched_batches
from tailrace.cli.clients.log_client import Fetched
from tailrace.cli.clients.log_facts import LogEnds, Partition
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import KafkaError


class Consumed(NamedTuple):
    partition: Partition
    record: Record
    is_committed: bool
    """As far as its leader knew when it sent it."""


class Consuming(Struct):
    positions: dict[Partition, int]
    ends: dict[Partition, int] | None
    """None: there is no end to it."""
    count: int | None = None
    """How many records are wanted; None: all."""
    uncommitted: bool = False

    @property
    def wanted(self) -> dict[Partition, int]:
        """From where on each partition is to be read; nothing when it is all done."""
        if self.count == 0:
            return {}
        ends = self.ends
        return {each: at for each, at in self.positions.items() if ends is None or at < ends[each]}

    def take(self, partition: Partition, fetched: Fetched) -> list[Consumed]:
        """What is to be shown of it. Raises KafkaError, with a sentence, when the first batch cannot be read; one that
        comes later is the first of the next fetch."""
        end = None if self.ends is None else self.ends[partition]
        first = position = self.positions[partition]
        found: list[Consumed] = []
        try:
            for following, records in fetched_batches(fetched.records):
                for each in records:
                    if each.offset >= first and (end is None or each.offset < end) and len(found) != self.count:
                        found.append(Consumed(partition, each, each.offset < fetched.high_watermark))
                position = max(position, following)
        except KafkaError:
            if position == first:
                raise
        if end is not None and not fetched.records and (self.uncommitted or fetched.high_watermark >= end):
            position = end  # compaction has removed what was there, or an uncommitted end was cut
        self.positions[partition] = position
        if self.count is not None:
            self.count -= len(found)
        return found

    def move_into(self, partition: Partition, log: LogEnds) -> str | None:
        """What is to be read next may lie outside of the log: then a sentence says so."""
        position = self.positions[partition]
        self.positions[partition] = min(max(position, log.start), log.end)
        if self.ends is not None:
            self.ends[partition] = min(self.ends[partition], log.end)
        if position < log.start:
            return f"{partition} begins at offset {log.start}"
        if position > log.end:
            return f"{partition} ends at offset {log.end}"
        return None
