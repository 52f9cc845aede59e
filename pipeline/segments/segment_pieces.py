"""Reads ranges of segments in pieces, for jobs that need to know of every offset why it has a record or none."""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from tailrace.protocol.error_codes import KafkaError

from .arrow_rows import Source
from .log_gaps import COMPACTION, Gap
from .log_pieces import LogBatch, LogPiece, piece_of, split_by_size
from .segment_reading import ReadBatch, SegmentRange, SegmentReading


def pieces_of(ranges: Sequence[SegmentRange]) -> Iterator[LogPiece]:
    """Yields the pieces of ranges that follow one another. Raises SegmentError."""
    for wanted in ranges:
        yield from _pieces_of(wanted)


def each_segment_piece(ranges: Sequence[SegmentRange], handle: Callable[[LogPiece], None]) -> None:
    """Hands over one piece after the other. Raises SegmentError."""
    for piece in pieces_of(ranges):
        handle(piece)


def _pieces_of(wanted: SegmentRange) -> Iterator[LogPiece]:
    source = Source(wanted.topic, wanted.topic_id, wanted.partition, wanted.directory, wanted.base)
    # Records are chosen by their offsets, so a batch that begins before the range is always needed.
    reading = SegmentReading(replace(wanted, is_first=True))
    position = wanted.start
    for group in _groups(reading):
        end = min(group[-1].stored.header.next_offset, wanted.end)
        if end > position:
            yield _piece(reading, source, group, position, end)
            position = end
    if position < wanted.end:
        # The reading went beyond the end, or up to the end of a sealed segment whose last records compaction removed.
        yield LogPiece(position, wanted.end, None, (Gap(position, wanted.end - 1, COMPACTION),))


def _piece(reading: SegmentReading, source: Source, group: Sequence[LogBatch], start: int, end: int) -> LogPiece:
    try:
        return piece_of(source, group, start, end)
    except KafkaError as error:
        # Decoding them one by one finds the batch at fault.
        if len(group) == 1:
            raise reading.undecodable(group[0].stored, error) from None
        for batch in group:
            _piece(reading, source, [batch], start, end)
        raise


def _groups(reading: SegmentReading) -> Iterator[list[LogBatch]]:
    """Yields neighbouring batches, as many as are decoded together. Raises SegmentError."""
    last: ReadBatch | None = None

    def batches() -> Iterator[LogBatch]:
        nonlocal last
        for last in reading.batches():
            yield LogBatch(last, last.is_aborted)

    try:
        yield from split_by_size(batches())
    except KafkaError as error:
        assert last is not None, "it cannot be opened"
        raise reading.undecodable(last, error) from None
