"""Hands out the records of a shard in lanes, one for each key: records with different keys are handled in parallel.

Records with the same key wait for each other, so a chunk takes a lane as a whole, and a failed event holds up only its
own lane. A record without a key has a lane of its own.

A worker gets batches that have only the records of its chunk, cut out without decoding them.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.keyed_records import keyed_records
from tailrace.protocol.batches.record_batch import COMPRESSION_MASK, HEADER_SIZE, assemble
from tailrace.protocol.batches.records import open_body
from tailrace.protocol.error_codes import KafkaError
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.work import Chunk, Failure, Outcome, Shard

from .chunk_size import ChunkSize
from .fetched_batches import FetchedBatch, FetchedBatches
from .loaded_records import LoadedRecords
from .pieces import NEVER, UNLIMITED, Failed, Original, Remains, failed_range, opened_of, reported_of

LOADED_RECORDS_MAX = 10_000
"""How many records lie at most between the first one that is not handled and the last one that is handed out."""

_offset = attrgetter("offset")
_attempts = attrgetter("attempts")

Key = bytes | int
"""The key of a lane; a record without a key has its offset."""


class _Entry(Struct, eq=False):
    """A record that is not handled, or a whole batch that cannot be decoded."""

    offset: int
    end: int
    key: Key
    batch: FetchedBatch
    start: int
    """The position of the record in the content of its batch."""
    stop: int
    attempts: int = 0
    due: float = 0.0
    together_max: int = UNLIMITED
    """How many events a batch with this one may have. It shrinks while batches with the event fail."""

    @property
    def is_whole_batch(self) -> bool:
        return not self.stop


class _Lane(Struct):
    entries: deque[_Entry]
    is_busy: bool = False
    """Whether a worker has records of the lane."""


class _InHand(Struct):
    chunk: Chunk
    entries: list[_Entry]
    keys: frozenset[Key]


class KeyLanes:
    """The records of one shard, in order of each key."""

    def __init__(
        self, shard: Shard, offset: int, config: TriggerConfig, batches: FetchedBatches, seconds_max: float
    ) -> None:
        self._shard = shard
        self._batches = batches
        self._batch_size = config.batch_size
        self._batch_seconds = config.batch_seconds
        self._chunks_max = config.max_workers + 1
        self._size = ChunkSize(seconds_max)
        self._loaded = LoadedRecords(offset, batches, self._decode, LOADED_RECORDS_MAX)
        self._entries = self._loaded.unhandled
        """All records in lanes, in the hands of workers, or open."""
        self._lanes: dict[Key, _Lane] = {}
        self._waiting = 0
        """How many records are in lanes."""
        self._ready: list[tuple[int, Key]] = []
        """A heap of lanes by their first record. It may have lanes twice, and lanes that have changed since."""
        self._delayed: list[tuple[float, int, Key]] = []
        """A heap of lanes by the time at which their first record is due. It may have lanes twice, and lanes that have
        changed since."""
        self._in_hand: dict[int, _InHand] = {}
        self._full_at = NEVER
        self.needs_records = False

    @property
    def lowest(self) -> int:
        """The first record that is neither handled nor given up."""
        return self._loaded.lowest

    @property
    def chunks_in_hand(self) -> int:
        return len(self._in_hand)

    @property
    def records_in_hand(self) -> int:
        return sum(len(hand.entries) for hand in self._in_hand.values())

    @property
    def next_time(self) -> float:
        """When a lane is due, or a batch no longer waits for more events."""
        return min(self._full_at, self._delayed[0][0] if self._delayed else NEVER)

    def is_in_hand(self, offset: int) -> bool:
        return any(entry.offset == offset for hand in self._in_hand.values() for entry in hand.entries)

    def own_offset(self, shard: Shard, offset: int) -> int | None:
        return offset if shard == self._shard else None

    def first_offset(self, offset: int) -> int:
        return offset

    def original(self, offset: int) -> Original:
        return self._batches.original(self._shard, offset)

    def next_chunk(self, now: float, end: int, records_max: int = UNLIMITED) -> Chunk | None:
        """Hands out records of lanes that no worker has, oldest first."""
        self.needs_records = False
        self._full_at = NEVER
        self._load(end)
        while self._delayed and self._delayed[0][0] <= now:
            _, offset, key = heappop(self._delayed)
            heappush(self._ready, (offset, key))
        if len(self._in_hand) >= self._chunks_max or records_max <= 0:
            return None
        entries = self._collect(now, min(self._wanted(), records_max))
        if entries and self._waits_for_more(entries, now, min(records_max, self._batch_size)):
            self._put_back(entries)
            entries = []
            self.needs_records = not self._in_hand
        elif not entries:
            self.needs_records = not self._in_hand and not self._waiting
        if not entries:
            return None
        for entry in entries:
            self._lanes[entry.key].is_busy = True
        chunk = self._chunk(entries)
        self._in_hand[id(chunk)] = _InHand(chunk, entries, frozenset(entry.key for entry in entries))
        return chunk

    def _wanted(self) -> int:
        """Returns how many records a chunk should have, so that all workers get some."""
        return self._batch_size or min(self._size.records, -(-self._waiting // self._chunks_max))

    def _collect(self, now: float, size: int) -> list[_Entry]:
        """Takes records out of their lanes. In a chunk of single events, a record that is handled again is alone, so
        that it holds up no other."""
        entries: list[_Entry] = []
        together_max = size
        while self._ready and len(entries) < together_max:
            offset, key = self._ready[0]
            lane = self._lanes.get(key)
            if lane is None or lane.is_busy or not lane.entries or lane.entries[0].offset != offset:
                heappop(self._ready)
                continue
            entry = lane.entries[0]
            if entry.due > now:
                heappop(self._ready)
                heappush(self._delayed, (entry.due, offset, key))
                continue
            is_alone = entry.is_whole_batch or (entry.attempts > 0 and not self._batch_size)
            together_max = min(together_max, 1 if is_alone else entry.together_max)
            if entries and len(entries) >= together_max:
                break
            heappop(self._ready)
            lane.entries.popleft()
            entries.append(entry)
            if lane.entries:
                heappush(self._ready, (lane.entries[0].offset, key))
        self._waiting -= len(entries)
        return entries

    def _waits_for_more(self, entries: Sequence[_Entry], now: float, size: int) -> bool:
        if len(entries) >= min(size, *(entry.together_max for entry in entries)) or entries[0].is_whole_batch:
            return False
        if any(entry.attempts for entry in entries):
            return False
        due = min(entry.batch.arrived for entry in entries) + self._batch_seconds
        if now >= due or self._batches.is_full or self._batches.has_ended:
            return False
        self._full_at = due
        return True

    def _chunk(self, entries: Sequence[_Entry]) -> Chunk:
        batches = [_cut_out(list(found)) for _, found in groupby(entries, key=lambda entry: entry.batch.base)]
        return Chunk(
            self._shard,
            batches,
            entries[0].offset,
            entries[-1].end,
            attempt=1 + max(entry.attempts for entry in entries),
            batch_size=self._batch_size,
            seconds_max=self._size.seconds_max,
        )

    def _load(self, end: int) -> None:
        """Puts records before `end` into lanes."""
        while (entry := self._loaded.next(end)) is not None:
            self._loaded.load()
            self._insert(entry)

    def _decode(self, batch: FetchedBatch, first: int) -> Iterable[_Entry]:
        """Finds the records of a batch from an offset on."""
        header = batch.header
        shift = HEADER_SIZE if header.compression is Compression.NONE else 0
        try:
            body = open_body(batch.data, header)
            entries = [
                _Entry(
                    offset := batch.base + record.offset_delta,
                    offset + 1,
                    offset if record.key is None else record.key,
                    batch,
                    record.start + shift,
                    record.end + shift,
                )
                for record in keyed_records(body, header.record_count)
            ]
        except KafkaError:
            return [_Entry(first, batch.end, first, batch, 0, 0)]
        if not shift:
            self._batches.opened(batch, body)
        return (entry for entry in entries if entry.offset >= first)

    def take_back(self, chunk: Chunk, outcome: Outcome) -> Remains:
        """Takes back records from a worker. Their lanes go on with what was not handled."""
        hand = self._in_hand.pop(id(chunk))
        entries = hand.entries
        self._size.learn(outcome.events, outcome.handler_seconds)
        for key in hand.keys:
            self._lanes[key].is_busy = False
        handled_until = min(max(outcome.next_offset, chunk.first), chunk.end)
        opened = set(opened_of(outcome, chunk.first, handled_until))
        rest = []
        for entry in entries:
            if entry.end > handled_until:
                rest.append(entry)
            elif entry.offset not in opened:
                del self._entries[entry.offset]
        failed = self._failed(chunk, handled_until, rest, outcome.failure) if outcome.failure is not None else []
        of_failed = {id(entry) for entry in failed}
        self._put_back([entry for entry in rest if entry.offset in self._entries and id(entry) not in of_failed])
        for key in hand.keys:
            self._offer(key)
        first = entries[0].offset if entries else chunk.first
        still_open = [(entry.offset, entry.attempts + 1) for entry in entries if entry.offset in opened]
        if outcome.failure is None:
            return Remains(first, still_open)
        return Remains(first, still_open, tuple(self._by_attempts(failed, outcome.failure)))

    def _failed(self, chunk: Chunk, handled_until: int, rest: Sequence[_Entry], failure: Failure) -> Sequence[_Entry]:
        """Returns the records that have failed. Forgets those of a failed batch that were handled."""
        first, end = failed_range(chunk, handled_until, failure)
        failed = [entry for entry in rest if entry.end > first and entry.offset < end] or list(rest[:1])
        if not self._batch_size:
            return failed[:1]
        reported = reported_of(failure, first, end)
        if not reported:
            return failed
        for entry in failed:
            if entry.offset not in reported:
                del self._entries[entry.offset]
        return [entry for entry in failed if entry.offset in reported]

    def _by_attempts(self, failed: Sequence[_Entry], failure: Failure) -> Iterable[Failed]:
        for attempts, entries in groupby(sorted(failed, key=_attempts), key=_attempts):
            found = sorted(entries, key=_offset)
            yield Failed([entry.offset for entry in found], found[-1].end, attempts + 1, failure)

    def retry(self, failed: Failed, due: float) -> None:
        """Puts failed or open events back into their lanes. A lane waits until its first event is due."""
        for offset in failed.offsets:
            entry = self._entries[offset]
            entry.attempts, entry.due = failed.attempts, due
            self._insert(entry)

    def split(self, failed: Failed) -> None:
        """Hands the events of a failed batch out again in batches that are half as large."""
        for offset in failed.offsets:
            entry = self._entries[offset]
            entry.together_max = max(1, len(failed.offsets) // 2)
            self._insert(entry)

    def forget(self, offset: int) -> None:
        self._entries.pop(offset, None)

    def truncate(self, end: int) -> None:
        """Forgets all records at or after `end`, also those that workers have."""
        self._loaded.truncate(end)
        for lane in self._lanes.values():
            lane.entries = deque(entry for entry in lane.entries if entry.offset < end)
        for hand in self._in_hand.values():
            hand.entries = [entry for entry in hand.entries if entry.offset < end]
        self._waiting = sum(len(lane.entries) for lane in self._lanes.values())
        self._ready, self._delayed = [], []
        for key in list(self._lanes):
            self._offer(key)

    def _put_back(self, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            self._insert(entry)

    def _insert(self, entry: _Entry) -> None:
        """Puts a record into its lane, in the order of the offsets."""
        lane = self._lanes.setdefault(entry.key, _Lane(deque()))
        if not lane.entries or lane.entries[-1].offset < entry.offset:
            lane.entries.append(entry)
        else:
            insort(lane.entries, entry, key=_offset)
        self._waiting += 1
        if lane.entries[0] is entry:
            self._offer(entry.key)

    def _offer(self, key: Key) -> None:
        """Makes a lane known to `_collect` after it has changed; deletes it if it is empty."""
        lane = self._lanes.get(key)
        if lane is None or lane.is_busy:
            return
        if lane.entries:
            heappush(self._ready, (lane.entries[0].offset, key))
        else:
            del self._lanes[key]


def _cut_out(entries: Sequence[_Entry]) -> bytes:
    """Makes a batch that has only these records of one batch."""
    batch = entries[0].batch
    if entries[0].is_whole_batch or len(entries) == batch.header.record_count:
        return batch.data
    content = batch.body or batch.data
    body = b"".join([content[entry.start : entry.stop] for entry in entries])
    header = replace(batch.header, attributes=batch.header.attributes & ~COMPRESSION_MASK, record_count=len(entries))
    return bytes(assemble(header, body))
