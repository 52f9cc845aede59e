"""Reads the batches of a fetch response, and tells which belong to aborted transactions. Pure."""

from collections.abc import Iterator, Sequence

from tailrace.pipeline.segments.log_pieces import LogBatch
from tailrace.pipeline.segments.segment_columns import BRIDGE, ENTRY_TYPES, EVENT, HOLE, MARKER
from tailrace.pipeline.segments.segment_reading import ReadBatch
from tailrace.protocol.batches.aborted_in_fetch import AbortedInFetch
from tailrace.protocol.batches.control_batches import ControlKind, control_kind
from tailrace.protocol.batches.record_batch import BatchHeader, crc_of, iterate
from tailrace.protocol.batches.transaction_markers import marker_of
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.fetch import AbortedTransaction

_EVENT, _MARKER = ENTRY_TYPES.index(EVENT), ENTRY_TYPES.index(MARKER)
_TYPE_OF_KIND = {ControlKind.HOLE: ENTRY_TYPES.index(HOLE), ControlKind.BRIDGE: ENTRY_TYPES.index(BRIDGE)}


def read_fetched(data: bytes, aborted: Sequence[AbortedTransaction]) -> Iterator[LogBatch]:
    """Yields the whole batches. Raises KafkaError (CORRUPT_MESSAGE)."""
    view = memoryview(data)
    transactions = AbortedInFetch((each.producer_id, each.first_offset) for each in aborted)
    for position, header in iterate(data):
        if crc_of(view, position, header.size) != header.crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is corrupt")
        is_aborted = transactions.has(header, marker_of(header, view, position))
        entry_type = _entry_type(header, view[position : position + header.size])
        yield LogBatch(ReadBatch(position, header, entry_type, True, data, position), is_aborted)


def _entry_type(header: BatchHeader, content: memoryview) -> int:
    if not header.is_control:
        return _EVENT
    kind = control_kind(header, content)
    return _MARKER if kind is None else _TYPE_OF_KIND[kind]
