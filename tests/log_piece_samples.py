"""Pieces of logs for tests."""

from collections.abc import Callable, Sequence

from tailrace.pipeline.brokers.aborted_batches import read_fetched
from tailrace.pipeline.segments.arrow_rows import Source
from tailrace.pipeline.segments.log_pieces import LogPiece, piece_of
from tailrace.protocol.batches.records import Record, build_batch

TOPIC_ID = "7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b"
SOURCE = Source("orders", TOPIC_ID, 0, "", 0)
NOON_MS = 1_795_867_200_000
"""2026-11-28T12:00:00Z."""
DAY_MS = 86_400_000


def sample_record(offset: int, timestamp_ms: int) -> Record:
    return Record(offset, timestamp_ms, b"key-%d" % offset, b"value-%d" % offset, [("trace", b"%d" % offset)])


def piece_of_records(
    offsets: Sequence[int],
    start: int | None = None,
    end: int | None = None,
    *,
    time_of: Callable[[int], int] = lambda offset: NOON_MS + offset,
    epoch: int = 3,
) -> LogPiece:
    """Returns the piece [start, end) with records of these offsets."""
    records = [sample_record(each, time_of(each)) for each in offsets]
    batch = build_batch(records, base_offset=offsets[0], leader_epoch=epoch)
    begin = offsets[0] if start is None else start
    return piece_of(SOURCE, list(read_fetched(bytes(batch), ())), begin, offsets[-1] + 1 if end is None else end)
