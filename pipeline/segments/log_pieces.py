"""Pieces of a log, as jobs read them one after the other: the records, and why other offsets have none.

Readers of segments and of brokers make the same pieces. A piece covers every offset from its start to its end.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .arrow_rows import ArrowBatch, RecordRows, RowFilter, Source, StoredBatch
from .batch_decoding import DecodedSize, decode_batches
from .log_gaps import ABORTED, COMPACTION, DELETED, Gap, Why
from .record_columns import Column
from .segment_columns import ENTRY_TYPES, EVENT, RECORD_COLUMNS
from .segment_reading import ReadBatch

_EVENT = ENTRY_TYPES.index(EVENT)
_WHY_OF_TYPE: dict[int, Why] = {
    ENTRY_TYPES.index("hole"): "hole",
    ENTRY_TYPES.index("bridge"): "bridge",
    ENTRY_TYPES.index("marker"): "marker",
}


class LogPiece(Struct, frozen=True):
    """The offsets `[start, end)` of a partition."""

    start: int
    end: int
    rows: RecordRows | None
    """The records, in the order of offsets; None for none."""
    gaps: tuple[Gap, ...] = ()
    """The other offsets."""
    source_bytes: int = 0
    """The size of the batches that were read."""
    epoch_first: int = -1
    epoch_last: int = -1
    """The leader epochs of the first and last batch with records."""

    def arrow(self, columns: Sequence[str] = tuple(RECORD_COLUMNS)) -> ArrowBatch | None:
        """Returns the records with these columns; None for none."""
        return None if self.rows is None or not len(self.rows) else self.rows.record_batch(columns)


class LogBatch(Struct):
    """A batch of a piece."""

    stored: ReadBatch
    is_aborted: bool = False
    """Whether it belongs to a transaction that was aborted."""


def deleted_piece(start: int, end: int) -> LogPiece:
    """Returns the piece for records that were deleted before they could be read."""
    return LogPiece(start, end, None, (Gap(start, end - 1, DELETED),))


def piece_of(source: Source, batches: Sequence[LogBatch], start: int, end: int) -> LogPiece:
    """Makes the piece of neighbouring batches. Raises KafkaError (CORRUPT_MESSAGE)."""
    with_records = [each.stored for each in batches if each.stored.entry_type == _EVENT and not each.is_aborted]
    rows: RecordRows | None = None
    offsets: Column = np.zeros(0, dtype=np.int64)
    if with_records:
        stored = [StoredBatch(each.header, each.position, each.entry_type, each.crc_matches) for each in with_records]
        rows = RecordRows(source, stored, decode_batches(with_records), RowFilter(start, end))
        offsets = rows.offsets
    if len(offsets) and (np.diff(offsets) <= 0).any():
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the offsets from {offsets[0]} on are not in order")
    return LogPiece(
        start,
        end,
        rows if len(offsets) else None,
        tuple(_gaps(_missing(offsets, start, end), [label for each in batches if (label := _label(each))])),
        sum(each.stored.header.size for each in batches),
        with_records[0].header.leader_epoch if len(offsets) else -1,
        with_records[-1].header.leader_epoch if len(offsets) else -1,
    )


def merged_gaps(gaps: Iterable[Gap]) -> list[Gap]:
    """Joins neighbouring gaps with the same reason. The gaps are in order."""
    found: list[Gap] = []
    for gap in gaps:
        if found and found[-1].why == gap.why and found[-1].last + 1 == gap.first:
            found[-1] = Gap(found[-1].first, gap.last, gap.why)
        else:
            found.append(gap)
    return found


def _label(batch: LogBatch) -> Gap | None:
    header = batch.stored.header
    why = ABORTED if batch.is_aborted else _WHY_OF_TYPE.get(batch.stored.entry_type)
    return Gap(header.base_offset, header.last_offset, why) if why is not None else None


def _missing(offsets: Column, start: int, end: int) -> list[tuple[int, int]]:
    """Returns the first and last offset of each run in [start, end) without records."""
    bounds = np.concatenate(([start - 1], offsets, [end]))
    places = np.flatnonzero(np.diff(bounds) > 1)
    return list(zip((bounds[places] + 1).tolist(), (bounds[places + 1] - 1).tolist(), strict=True))


def _gaps(missing: Iterable[tuple[int, int]], labels: Sequence[Gap]) -> list[Gap]:
    """Explains the missing offsets: by the batch that covers them, or by compaction."""
    found: list[Gap] = []
    place = 0
    for first, last in missing:
        position = first
        while position <= last:
            while place < len(labels) and labels[place].last < position:
                place += 1
            label = labels[place] if place < len(labels) else None
            if label is None or label.first > last:
                found.append(Gap(position, last, COMPACTION))
                break
            if label.first > position:
                found.append(Gap(position, label.first - 1, COMPACTION))
                position = label.first
            found.append(Gap(position, min(label.last, last), label.why))
            position = found[-1].last + 1
    return merged_gaps(found)


def split_by_size(batches: Iterable[LogBatch]) -> Iterator[list[LogBatch]]:
    """Yields groups of batches that are decoded together. Raises KafkaError (CORRUPT_MESSAGE)."""
    group: list[LogBatch] = []
    size = DecodedSize()
    for batch in batches:
        if not batch.is_aborted and not size.add(batch.stored) and group:
            yield group
            group = []
        group.append(batch)
    if group:
        yield group
