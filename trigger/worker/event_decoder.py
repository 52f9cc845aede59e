"""Decodes the records of a batch into events, a few at a time.

This is the work that each record costs in a worker, so it is one loop. It reads sizes, offset, key and value. An event
decodes its time and headers itself, when it is asked for them.
"""

from collections.abc import Mapping

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import HEADER_SIZE, crc_of, read_header
from tailrace.protocol.batches.records import Record, build_batch, open_body, read_varint
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.trigger.work import Shard

from .event import Event, EventSource, TriggerInfo, Verdicts


class EventDecoder:
    """A position among the records of one batch."""

    def __init__(self, source: EventSource, position: int, end_of_body: int) -> None:
        self._source = source
        self._position = position
        self._end_of_body = end_of_body
        self._rest = source.header.record_count
        self.next_offset = source.header.base_offset
        """The least offset that the next record can have."""

    def next_events(self, count: int, first: int, end: int) -> list[Event]:
        """Decodes up to `count` further records, and returns those from `first` to `end`, exclusive; nothing at the end
        of the batch. Raises KafkaError (CORRUPT_MESSAGE) if the first record of these is malformed."""
        events: list[Event] = []
        append = events.append
        source, body, end_of_body = self._source, self._source.body, self._end_of_body
        base = source.header.base_offset
        begin = position = self._position
        rest, next_offset = self._rest, self.next_offset
        try:
            while rest and len(events) < count:
                begin = position
                size = body[position]
                if size < 0x80:
                    start = position + 1
                else:
                    high = body[position + 1]
                    if high < 0x80:
                        size += (high << 7) - 0x80
                        start = position + 2
                    else:
                        size, start = read_varint(body, position)
                        size <<= 1
                end_of_record = start + (size >> 1)
                position = start + 1  # after the record's attributes
                while body[position] >= 0x80:  # its timestamp
                    position += 1
                delta = body[position + 1]
                if delta < 0x80:
                    position += 2
                else:
                    high = body[position + 2]
                    if high < 0x80:
                        delta += (high << 7) - 0x80
                        position += 3
                    else:
                        delta, position = read_varint(body, position + 1)
                        delta <<= 1
                offset = base + (delta >> 1)
                if size & 1 or delta & 1 or not position <= end_of_record <= end_of_body or offset < next_offset:
                    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record is malformed")
                if offset >= first:
                    if offset >= end:
                        rest = 0
                        break
                    size = body[position]
                    if size == 1:
                        key = None
                        position += 1
                    else:
                        size, position = read_varint(body, position)
                        key = None if size < 0 else body[position : position + size]
                        position += max(size, 0)
                    size = body[position]
                    if size < 0x80:
                        position += 1
                        size = (size >> 1) ^ -(size & 1)
                    else:
                        size, position = read_varint(body, position)
                    if position + size > end_of_record:
                        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record's field is longer than the record")
                    value = body[position : position + size] if size >= 0 else None
                    append(Event(value, key, offset, source, start))
                position = end_of_record
                next_offset = offset + 1
                rest -= 1
        except (IndexError, KafkaError) as error:
            # Records before the malformed one are handled first; the next call meets it again.
            if not events:
                if isinstance(error, KafkaError):
                    raise
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record is truncated") from None
            position = begin
        self._position, self._rest, self.next_offset = position, rest, next_offset
        return events


def open_batch(
    batch: bytes, shard: Shard, trigger: TriggerInfo, verdicts: Verdicts, retried: int = -1, attempt: int = 1
) -> EventDecoder | None:
    """Opens a batch as the broker stores it; None for a control batch, which has no events. Raises KafkaError
    (CORRUPT_MESSAGE) if its checksum is wrong or it cannot be decompressed."""
    header = read_header(batch)
    if header.is_control:
        return None
    if header.size > len(batch):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch is truncated")
    if crc_of(batch, 0, header.size) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    if header.compression is Compression.NONE:
        body, position, end_of_body = batch, HEADER_SIZE, header.size
    else:
        body = open_body(batch, header)
        position, end_of_body = 0, len(body)
    source = EventSource(shard, header, body, trigger, verdicts, retried, attempt)
    return EventDecoder(source, position, end_of_body)


def make_event(
    body: bytes | None,
    *,
    key: bytes | None = None,
    headers: Mapping[str, bytes | None] | None = None,
    timestamp_ms: int = -1,
    shard: Shard,
    offset: int = 0,
    attempt: int = 1,
    trigger: TriggerInfo,
    verdicts: Verdicts,
) -> Event:
    """Makes an event from its parts, for calls of a handler without a cluster."""
    record = Record(offset, timestamp_ms, key, body, list((headers or {}).items()))
    batch = bytes(build_batch([record], base_offset=offset))
    decoder = open_batch(batch, shard, trigger, verdicts, retried=offset, attempt=attempt)
    assert decoder is not None
    (event,) = decoder.next_events(1, offset, offset + 1)
    return event
