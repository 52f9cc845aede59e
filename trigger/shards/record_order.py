"""What a `ShardLine` needs of the order in which records of a shard are handed out. An interface."""

from typing import Protocol

from tailrace.trigger.work import Chunk, Outcome, Shard

from .pieces import UNLIMITED, Failed, Original, Remains


class RecordOrder(Protocol):
    """Decides which records are handed out next, and which wait for others."""

    needs_records: bool
    """Whether `next_chunk` found nothing because too few records were fetched, or lie before its `end`."""

    @property
    def lowest(self) -> int:
        """The first record that is not handled. An open event may count as handled."""

    @property
    def chunks_in_hand(self) -> int:
        """How many chunks workers have."""

    @property
    def records_in_hand(self) -> int:
        """How many records workers have, at most."""

    @property
    def next_time(self) -> float:
        """When `next_chunk` will find something that is already here, if it has just found nothing."""

    def is_in_hand(self, offset: int) -> bool:
        """Returns whether a worker may have the record at this offset."""

    def own_offset(self, shard: Shard, offset: int) -> int | None:
        """Returns the offset in this shard of an event that a worker may know by another shard and offset; None if the
        event is not in this shard."""

    def first_offset(self, offset: int) -> int:
        """Returns the offset by which workers know a record."""

    def original(self, offset: int) -> Original:
        """Returns a record as it was produced."""

    def next_chunk(self, now: float, end: int, records_max: int = UNLIMITED) -> Chunk | None:
        """Hands out a chunk if one is due. The chunk has at most `records_max` records, and no new record at or
        after `end`."""

    def take_back(self, chunk: Chunk, outcome: Outcome) -> Remains:
        """Takes back a chunk from a worker. Events that the worker has not begun are handed out again. The caller
        decides about events that have failed: it calls `retry`, `split`, or `forget`."""

    def retry(self, failed: Failed, due: float) -> None:
        """Hands a failed event or batch out again when it is due, before later records."""

    def split(self, failed: Failed) -> None:
        """Hands a failed batch out again as smaller batches. This does not count as an attempt."""

    def forget(self, offset: int) -> None:
        """Counts a failed or open event as handled."""

    def truncate(self, end: int) -> None:
        """Forgets all records at or after `end`."""
