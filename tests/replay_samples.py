"""Records for tests of replays."""

from collections.abc import Sequence

from tailrace.pipeline.replay.record_stream import batch_of
from tailrace.pipeline.segments.arrow_rows import ArrowBatch
from tailrace.protocol.batches.records import Record

START_MS = 1_700_000_000_000


def sample_records(count: int, gap: int = 0) -> list[Record]:
    """Returns records a second apart. With a gap, every tenth offset is followed by that many that are none."""
    return [
        Record(
            number + number // 10 * gap,
            START_MS + number * 1000,
            None if number % 7 == 6 else b"key-%d" % (number % 5),
            None if number % 9 == 8 else b"value-%d" % number,
            [("source", b"shop"), ("empty", None)] if number % 4 == 3 else [],
        )
        for number in range(count)
    ]


def arrow_batch(records: Sequence[Record]) -> ArrowBatch:
    """Returns the records as a source hands them over."""
    return batch_of(list(records))
