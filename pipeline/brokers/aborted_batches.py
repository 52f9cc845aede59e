"""Reads the batches of a fetch response, and tells which belong to aborted transactions. Pure."""

import struct
from collections.abc import Iterator, Sequence

from tailrace.pipeline.segments.log_pieces import LogBatch
from tailrace.pipeline.segments.segment_columns import BRIDGE, ENTRY_TYPES, EVENT, HOLE, MARKER
from tailrace.pipeline.segments.segment_reading import ReadBatch
from tailrace.protocol.batches.control_batches import ControlKind, control_kind
from tailrace.protocol.batches.record_batch import BatchHeader, crc_of, iterate
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.fetch import AbortedTransaction

_EVENT, _MARKER = ENTRY_TYPES.index(EVENT), ENTRY_TYPES.index(MARKER)
_TYPE_OF_KIND = {ControlKind.HOLE: ENTRY_TYPES.index(HOLE), ControlKind.BRIDGE: ENTRY_TYPES.index(BRIDGE)}
_MARKER_KEY = struct.Struct(">hh")
_ABORT = 0


def read_fetched(data: bytes, aborted: Sequence[AbortedTransaction]) -> Iterator[LogBatch]:
    """Yields the whole batches. Raises KafkaError (CORRUPT_MESSAGE)."""
    view = memoryview(data)
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    producers: set[int] = set()
    """The producers whose transaction at this position was aborted."""
    for position, header in iterate(data):
        if crc_of(view, position, header.size) != header.crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is corrupt")
        while waiting and waiting[-1].first_offset <= header.last_offset:
            producers.add(waiting.pop().producer_id)
        content = view[position : position + header.size]
        entry_type = _entry_type(header, content)
        if entry_type == _MARKER and _is_abort(content):
            producers.discard(header.producer_id)
        is_aborted = entry_type == _EVENT and header.is_transactional and header.producer_id in producers
        yield LogBatch(ReadBatch(position, header, entry_type, True, data, position), is_aborted)


def _entry_type(header: BatchHeader, content: memoryview) -> int:
    if not header.is_control:
        return _EVENT
    kind = control_kind(header, content)
    return _MARKER if kind is None else _TYPE_OF_KIND[kind]


def _is_abort(content: memoryview) -> bool:
    key = next((each.key for each in read_records(content)), None)
    return key is not None and len(key) >= _MARKER_KEY.size and _MARKER_KEY.unpack_from(key)[1] == _ABORT
