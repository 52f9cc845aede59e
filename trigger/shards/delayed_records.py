"""Hands out the records of a retry topic, each when it is due, without an order.

A worker gets a record as it was in its first shard, so that the function sees nothing of the retry topic. A record that
was written twice, because the replica died in between, is handled once.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from msgspec import Struct

from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.protocol.error_codes import KafkaError
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.work import Chunk, Outcome, Shard

from .fetched_batches import FetchedBatch, FetchedBatches
from .loaded_records import LoadedRecords
from .pieces import NEVER, UNLIMITED, Failed, Original, Remains
from .retry_records import RetryRecord, read_retry

DELAYED_RECORDS_MAX = 1000
"""How many records lie at most between the first one that is not handled and the last one that may be handed out."""


class _Delayed(Struct):
    offset: int
    """Where the record lies in the retry topic."""
    retried: RetryRecord | None
    """None if its batch cannot be decoded."""
    end: int
    attempts: int
    due: float
    in_hand: Chunk | None = None


class DelayedRecords:
    """The records of one partition of a retry topic."""

    def __init__(self, shard: Shard, offset: int, config: TriggerConfig, batches: FetchedBatches) -> None:
        self._shard = shard
        self._batches = batches
        self._batch_size = config.batch_size
        self._pause_max = config.retry.backoff[1]
        self._chunks_max = config.max_workers + 1
        self._loaded = LoadedRecords(offset, batches, self._decode, DELAYED_RECORDS_MAX)
        self._records = self._loaded.unhandled
        """All records that are loaded and not handled."""
        self._own: dict[tuple[Shard, int], int] = {}
        """Where these records lie in the retry topic, by their first shard and offset."""
        self._heap: list[tuple[float, int]] = []
        """The records by the time at which they are due. It may have records that were handled since."""
        self._in_hand: dict[int, int] = {}
        """The offsets of the records that workers have, by the identity of their chunk."""
        self.needs_records = False

    @property
    def lowest(self) -> int:
        """The first record that is not handled, given up, or written again."""
        return self._loaded.lowest

    @property
    def chunks_in_hand(self) -> int:
        return len(self._in_hand)

    @property
    def records_in_hand(self) -> int:
        return len(self._in_hand)

    @property
    def next_time(self) -> float:
        """When the next record is due."""
        return self._heap[0][0] if self._heap and len(self._in_hand) < self._chunks_max else NEVER

    def is_in_hand(self, offset: int) -> bool:
        return offset in self._in_hand.values()

    def own_offset(self, shard: Shard, offset: int) -> int | None:
        return self._own.get((shard, offset))

    def first_offset(self, offset: int) -> int:
        delayed = self._records.get(offset)
        return offset if delayed is None else self._first(delayed)[1]

    def original(self, offset: int) -> Original:
        delayed = self._records.get(offset)
        if delayed is None or delayed.retried is None:
            return self._batches.original(self._shard, offset)
        retried = delayed.retried
        return Original(retried.shard, retried.record.offset, retried.record)

    def next_chunk(self, now: float, end: int, records_max: int = UNLIMITED) -> Chunk | None:
        """Hands out the record that has been due for the longest time."""
        self._load(end)
        self.needs_records = not self._records
        if len(self._in_hand) >= self._chunks_max or records_max <= 0:
            return None
        while self._heap and self._heap[0][0] <= now:
            due, offset = heappop(self._heap)
            delayed = self._records.get(offset)
            if delayed is None or delayed.in_hand is not None or delayed.due != due:
                continue
            delayed.in_hand = chunk = self._chunk(delayed)
            self._in_hand[id(chunk)] = offset
            return chunk
        return None

    def _chunk(self, delayed: _Delayed) -> Chunk:
        attempt = delayed.attempts + 1
        if delayed.retried is None:
            batch = self._batches.find(delayed.offset)
            assert batch is not None, "batches are kept until their records are handled"
            return Chunk(self._shard, (batch.data,), delayed.offset, delayed.end, attempt, batch_size=self._batch_size)
        record = delayed.retried.record
        data = bytes(build_batch([record], base_offset=record.offset))
        return Chunk(
            delayed.retried.shard, (data,), record.offset, record.offset + 1, attempt, batch_size=self._batch_size
        )

    def _load(self, end: int) -> None:
        while (delayed := self._loaded.next(end)) is not None:
            first = self._first(delayed)
            if first not in self._own:
                self._loaded.load()
                self._own[first] = delayed.offset
                heappush(self._heap, (delayed.due, delayed.offset))
            elif self._is_same(self._records[self._own[first]], delayed):
                self._loaded.skip()  # the earlier one is not handled, and what becomes of it counts for both
            else:
                return  # the topic was made anew; the new record waits, so that workers know one by this name

    def _decode(self, batch: FetchedBatch, first: int) -> Iterable[_Delayed]:
        """Finds the records of a batch from an offset on."""
        try:
            records = [record for record in read_records(batch.data) if record.offset >= first]
        except KafkaError:
            return [_Delayed(first, None, batch.end, 0, batch.arrived)]
        return [self._delayed(record, batch) for record in records]

    def _delayed(self, record: Record, batch: FetchedBatch) -> _Delayed:
        retried = read_retry(record, self._shard)
        pause = min(max(0.0, (retried.due_ms - batch.arrived_ms) / 1000), self._pause_max)
        return _Delayed(record.offset, retried, record.offset + 1, retried.attempt - 1, batch.arrived + pause)

    def take_back(self, chunk: Chunk, outcome: Outcome) -> Remains:
        """Takes back a record from a worker."""
        offset = self._in_hand.pop(id(chunk))
        delayed = self._records.get(offset)
        if delayed is None or delayed.in_hand is not chunk:
            return Remains(offset)
        delayed.in_hand = None
        if outcome.failure is not None:
            failed = Failed((offset,), delayed.end, delayed.attempts + 1, outcome.failure)
            return Remains(offset, failed=(failed,))
        if outcome.next_offset < chunk.end:
            heappush(self._heap, (delayed.due, offset))
            return Remains(offset)
        if chunk.first in outcome.opened:
            delayed.due = NEVER
            return Remains(offset, ((offset, delayed.attempts + 1),))
        self.forget(offset)
        return Remains(offset)

    def retry(self, failed: Failed, due: float) -> None:
        for offset in failed.offsets:
            delayed = self._records[offset]
            delayed.attempts, delayed.due = failed.attempts, due
            heappush(self._heap, (due, offset))

    def split(self, failed: Failed) -> None:
        """Is never called: a record of a retry topic is handled alone."""
        raise AssertionError("a single record cannot be split")

    def forget(self, offset: int) -> None:
        delayed = self._records.pop(offset, None)
        if delayed is not None:
            del self._own[self._first(delayed)]

    def _first(self, delayed: _Delayed) -> tuple[Shard, int]:
        """Returns where a record was first."""
        if delayed.retried is None:
            return self._shard, delayed.offset
        return delayed.retried.shard, delayed.retried.record.offset

    @staticmethod
    def _is_same(one: _Delayed, other: _Delayed) -> bool:
        return one.retried is not None and other.retried is not None and one.retried.record == other.retried.record

    def truncate(self, end: int) -> None:
        """Forgets all records at or after `end`, also those that workers have."""
        for offset in [offset for offset in self._records if offset >= end]:
            self.forget(offset)
        self._loaded.truncate(end)
