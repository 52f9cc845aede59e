"""Hands out the records of a shard one chunk at a time: a record waits for all earlier ones.

The cursor is the first record that was never handed out. Pieces before the cursor are what is left of earlier chunks:
an event or a batch that failed, and records whose worker ended. They come first, in the order of their offsets. Batches
are not decoded here while nothing fails, so that a record costs next to nothing.
"""

from bisect import insort
from collections.abc import Sequence
from operator import attrgetter

from msgspec import Struct

from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.work import Chunk, Outcome, Shard

from .chunk_size import ChunkSize
from .fetched_batches import FetchedBatches
from .pieces import NEVER, UNLIMITED, Failed, Original, Piece, Remains, failed_range, opened_of, reported_of

_first = attrgetter("first")


class _InHand(Struct):
    chunk: Chunk
    piece: Piece | None
    """The records of the chunk that still count; None if the log was truncated before all of them."""


class InOrder:
    """The records of one shard, with at most one chunk in the hands of a worker."""

    def __init__(
        self, shard: Shard, offset: int, config: TriggerConfig, batches: FetchedBatches, seconds_max: float
    ) -> None:
        self._shard = shard
        self._batches = batches
        self._batch_size = config.batch_size
        self._full_size = min(config.batch_size, config.open_events_max) if config.is_explicit else config.batch_size
        self._batch_seconds = config.batch_seconds
        self._size = ChunkSize(seconds_max)
        self._cursor = offset
        self._pieces: list[Piece] = []
        self._in_hand: _InHand | None = None
        self._full_at = NEVER
        self.needs_records = False
        """Whether `next_chunk` found nothing because too few records were fetched."""

    @property
    def position(self) -> int:
        """The first record that was never handed out."""
        self._cursor = self._batches.after_gap(self._cursor)
        return self._cursor

    @property
    def lowest(self) -> int:
        """The first record that is not handled."""
        lowest = self.position
        if self._in_hand is not None and self._in_hand.piece is not None:
            lowest = min(lowest, self._in_hand.piece.first)
        if self._pieces:
            lowest = min(lowest, self._pieces[0].first)
        return lowest

    @property
    def chunks_in_hand(self) -> int:
        return int(self._in_hand is not None)

    @property
    def records_in_hand(self) -> int:
        """How many records workers have, at most."""
        if self._in_hand is None or self._in_hand.piece is None:
            return 0
        piece = self._in_hand.piece
        return len(self._batches.offsets(piece.first, piece.end) if piece.offsets is None else piece.offsets)

    def is_in_hand(self, offset: int) -> bool:
        """Returns whether a worker may have the record at this offset."""
        piece = None if self._in_hand is None else self._in_hand.piece
        return piece is not None and piece.first <= offset < piece.end

    def own_offset(self, shard: Shard, offset: int) -> int | None:
        return offset if shard == self._shard else None

    def first_offset(self, offset: int) -> int:
        return offset

    def original(self, offset: int) -> Original:
        return self._batches.original(self._shard, offset)

    @property
    def next_time(self) -> float:
        """When `next_chunk` will find something that is already here, if it has just found nothing."""
        if self._in_hand is not None:
            return NEVER
        return self._pieces[0].due if self._pieces else self._full_at

    def next_chunk(self, now: float, end: int, records_max: int = UNLIMITED) -> Chunk | None:
        """Hands out a chunk if one is due: with at most `records_max` records, and no new record at or after `end`."""
        self.needs_records = False
        self._full_at = NEVER
        if self._in_hand is not None or records_max <= 0:
            return None
        if self._pieces and self._pieces[0].due > now:
            return None
        if not self._pieces or self._goes_on(self._pieces[0]):
            piece = self._new_piece(now, end, records_max)
        else:
            piece = self._left_piece(records_max)
        return None if piece is None else self._hand_out(piece)

    def _goes_on(self, piece: Piece) -> bool:
        """Returns whether a piece and the records from the cursor on can be one chunk: only its first event failed."""
        return not self._batch_size and len(self._pieces) == 1 and piece.end == self._cursor and piece.offsets is None

    def _new_piece(self, now: float, end: int, records_max: int) -> Piece | None:
        first, attempts = self.position, 0
        if self._pieces:
            (left,) = self._pieces
            first, attempts, end = left.first, left.attempts, max(end, left.end)
        piece_end = (
            self._batched_end(first, end, records_max, now) if self._batch_size else self._end(first, end, records_max)
        )
        if piece_end <= first:
            self.needs_records = True
            return None
        if self._pieces and piece_end < self._pieces[0].end:
            self._pieces = [Piece(piece_end, self._cursor)]
        else:
            self._pieces = []
            self._cursor = piece_end
        return Piece(first, piece_end, attempts)

    def _end(self, first: int, end: int, records_max: int) -> int:
        end = self._size.end(self._batches.from_offset(first), first, end)
        if records_max < UNLIMITED:
            end, _ = self._batches.offset_after(first, records_max, end)
        return end

    def _batched_end(self, first: int, end: int, records_max: int, now: float) -> int:
        """Returns the end of a chunk of full batches; `first` if the next batch of events still waits for records."""
        size = self._full_size
        if records_max < size:
            return first
        wanted = max(size, min(self._size.records, records_max) // size * size)
        chunk_end, found = self._batches.offset_after(first, wanted, end)
        if found >= size:
            return chunk_end if found == wanted else self._batches.offset_after(first, found // size * size, end)[0]
        if not found:
            return first
        due = self._batches.arrived(first) + self._batch_seconds
        if now >= due or self._batches.is_full or self._batches.has_ended:
            return chunk_end
        self._full_at = due
        return first

    def _left_piece(self, records_max: int) -> Piece | None:
        piece = self._pieces[0]
        if piece.offsets is not None or self._batch_size:
            del self._pieces[0]
            return piece
        end, _ = self._batches.offset_after(piece.first, records_max, piece.end)
        rest = piece.cut(end, piece.end)
        self._pieces[:1] = [] if rest is None else [rest]
        return piece.cut(piece.first, end)

    def _hand_out(self, piece: Piece) -> Chunk:
        chunk = Chunk(
            self._shard,
            tuple(batch.data for batch in self._batches.between(piece.first, piece.end)),
            piece.first,
            piece.end,
            attempt=piece.attempts + 1,
            offsets=piece.offsets,
            batch_size=self._batch_size,
            seconds_max=self._size.seconds_max,
        )
        self._in_hand = _InHand(chunk, piece)
        return chunk

    def take_back(self, chunk: Chunk, outcome: Outcome) -> Remains:
        """Takes back the chunk. What the worker has not begun is handed out again before later records."""
        assert self._in_hand is not None and self._in_hand.chunk is chunk
        piece, self._in_hand = self._in_hand.piece, None
        self._size.learn(outcome.events, outcome.handler_seconds)
        if piece is None:
            return Remains(chunk.first)
        handled_until = min(max(outcome.next_offset, piece.first), piece.end)
        opened = [
            (offset, chunk.attempt if offset == chunk.first or chunk.offsets is not None else 1)
            for offset in opened_of(outcome, piece.first, handled_until)
        ]
        if outcome.failure is None or handled_until == piece.end:
            self._put_back(piece.cut(handled_until, piece.end))
            return Remains(piece.first, opened)
        first, failed_end = failed_range(chunk, handled_until, outcome.failure)
        end = min(failed_end, piece.end)
        if first >= end:  # the log was truncated before the event that failed
            self._put_back(piece.cut(handled_until, piece.end))
            return Remains(piece.first, opened)
        self._put_back(piece.cut(end, piece.end))
        self._put_back(piece.cut(handled_until, first))
        attempts = 1 + (piece.attempts if first == piece.first or piece.offsets is not None else 0)
        offsets = self._failed_offsets(piece, first, end, reported_of(outcome.failure, first, failed_end))
        failed = (Failed(offsets, end, attempts, outcome.failure),) if offsets else ()
        return Remains(piece.first, opened, failed)

    def _failed_offsets(self, piece: Piece, first: int, end: int, reported: frozenset[int]) -> Sequence[int]:
        if not self._batch_size:
            return (first,)
        offsets = self._batches.offsets(first, end) if piece.offsets is None else piece.offsets
        every = tuple(offset for offset in offsets if first <= offset < end) or (first,)
        return tuple(offset for offset in every if offset in reported) if reported else every

    def _put_back(self, piece: Piece | None) -> None:
        if piece is None:
            return
        is_last = not self._pieces or self._pieces[-1].first < piece.first
        if is_last and piece.end == self._cursor and piece.offsets is None and not piece.attempts:
            self._cursor = piece.first
        elif piece.offsets is not None or piece.attempts or self._batches.has_records(piece.first, piece.end):
            insort(self._pieces, piece, key=_first)

    def retry(self, failed: Failed, due: float) -> None:
        """Hands a failed event or batch out again when it is due, before later records."""
        self._put_back(self._again(failed.offsets, failed.end, failed.attempts, due))

    def split(self, failed: Failed) -> None:
        """Hands out a failed batch again as two halves. This does not count as an attempt."""
        half = len(failed.offsets) // 2
        for offsets in (failed.offsets[:half], failed.offsets[half:]):
            insort(self._pieces, self._again(offsets, offsets[-1] + 1, failed.attempts - 1, 0.0), key=_first)

    def _again(self, offsets: Sequence[int], end: int, attempts: int, due: float) -> Piece:
        if self._batch_size:
            return Piece(offsets[0], offsets[-1] + 1, attempts, due, tuple(offsets))
        return Piece(offsets[0], end, attempts, due)

    def forget(self, offset: int) -> None:
        """Does nothing: a record that is neither in a piece nor in hand already counts as handled."""

    def truncate(self, end: int) -> None:
        """Forgets all records at or after `end`."""
        self._cursor = min(self._cursor, end)
        self._pieces = [part for piece in self._pieces if (part := piece.cut(piece.first, end)) is not None]
        if self._in_hand is not None and self._in_hand.piece is not None:
            self._in_hand.piece = self._in_hand.piece.cut(self._in_hand.piece.first, end)
