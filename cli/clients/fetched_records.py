"""Reads the records in fetched batches."""

from collections.abc import Iterator

from tailrace.protocol.batches.record_batch import crc_of, iterate
from tailrace.protocol.batches.records import Record, read_records
from tailrace.protocol.error_codes import ErrorCode, KafkaError


def fetched_batches(data: bytes) -> Iterator[tuple[int, list[Record]]]:
    """Yields the offset after each complete batch, and its records; control batches have none.

    Raises KafkaError, with a sentence, at a batch that cannot be read.
    """
    view = memoryview(data)
    for position, header in iterate(data):
        if crc_of(view, position, header.size) != header.crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is corrupt")
        yield header.next_offset, [] if header.is_control else read_records(view[position:])


def first_timestamp(data: bytes, offset: int) -> int | None:
    """Returns the timestamp of the first record from `offset` on; None if there is none."""
    try:
        for _, records in fetched_batches(data):
            for record in records:
                if record.offset >= offset:
                    return record.timestamp
    except KafkaError:
        return None  # a command that reads the partition will report this
    return None
